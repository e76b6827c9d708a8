"""/v1/agents: register, list, update and delete agents."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from fastapi import Query, Response
from pydantic import ConfigDict, Field, JsonValue

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import (
    EXAMPLE_TIME,
    Metadata,
    create_request_model,
    make_optional,
    with_example,
)
from runward.api.http.paging import AFTER, BEFORE, NamePagination, Page, PageLimit, make_window
from runward.api.http.params import AgentPath
from runward.api.http.routes import make_router
from runward.api.registry.agent_checks import check_agent, check_hosted_tools, check_prices
from runward.api.registry.agent_fields import AgentFields
from runward.api.registry.guards import ensure_guards
from runward.api.registry.inline_models import AgentTool, list_tools
from runward.api.registry.inline_tools import ToolSelection, select_tools
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.registry.tools import ToolName, ToolSelector
from runward.domain.run.config import AgentConfig, ToolChoice
from runward.store.postgres.db import Tx
from runward.store.registry import agents
from runward.store.registry.agents import RegisteredAgent

_AGENT_EXAMPLE: Final[dict[str, Any]] = {
    "name": "clerk",
    "description": "Pays invoices.",
    "model": "offline:rules",
    "instructions": "Pay what is asked for.",
    "tools": ["pay"],
    "metadata": {},
}

Description = Annotated[str, Field(max_length=4096)]


class RegisterAgent(AgentFields):
    """An agent to register: a name and the configuration of its runs."""

    model_config = with_example(**_AGENT_EXAMPLE)

    name: ToolName
    """Name of the agent. Unique in the project. Runs use it to refer to the agent."""
    description: Description | None = None
    """Description of the agent, for people and for agents that may hand over a run to this
    agent."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """Custom metadata: up to 64 keys and 16 KiB as JSON."""


class Agent(RegisterAgent):
    """A registered agent in its current version."""

    model_config = ConfigDict(
        strict=False, json_schema_serialization_defaults_required=True
    ) | with_example(
        version=1,
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
        **_AGENT_EXAMPLE,
    )

    object: Literal["agent"] = "agent"
    tools: list[ToolSelector | AgentTool] = Field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=list[ToolSelector | AgentTool]
    )
    """Tools that the model may call: names of registered tools, prefixes of names followed by `*`,
    and tools that only this agent has."""
    tool_choice: ToolChoice = "auto"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. The
    object `{"name": …}` names the tool that the model must call."""
    version: int
    """Version of the agent. It starts at 1 and grows by 1 with each update."""
    created_at: datetime
    """When the agent was registered."""
    updated_at: datetime
    """When this version of the resource was created."""

    @classmethod
    def from_row(cls, agent: RegisteredAgent) -> Self:
        """Return the agent of a row. It is not validated again."""
        fields = {name: value for name, value in agent.config if name in cls.model_fields}
        return cls.model_construct(
            None,
            **fields | {"tools": list_tools(agent.config)},
            name=agent.name,
            description=agent.description,
            metadata=agent.metadata,
            version=agent.version,
            created_at=agent.created_at,
            updated_at=agent.updated_at,
        )


_AgentPatchFields = create_request_model(
    "_Optional", make_optional(RegisterAgent, without={"name"})
)


class UpdateAgent(_AgentPatchFields):
    """The fields to update. Each field in the request replaces the previous value completely. Other
    fields keep their values."""

    def get_given(self, name: str, default: Any) -> Any:
        """Return the value that the client sent, including null, or `default` if the field is
        missing."""
        return getattr(self, name) if name in self.model_fields_set else default

    def apply_to(self, config: AgentConfig, tools: ToolSelection | None) -> AgentConfig:
        """Return the updated configuration. `tools`: the new tools. None: they do not change."""
        given = self.model_fields_set & AgentConfig.model_fields.keys() - {"tools"}
        changed = config.model_copy(update={name: getattr(self, name) for name in given})
        return changed if tools is None else tools.apply_to(changed)


routes = make_router("Agents")

MAX_VERSION: Final = 2**31 - 2


@routes.post("/agents", status_code=201, response_model=Agent)
async def register_agent(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    agent: RegisterAgent,
) -> Response:
    """Register an agent. Runward looks up the agent's tools each time a run starts."""
    tools = await select_tools(storage, registry, principal.project_id, agent.tools)
    config = tools.apply_to(agent.to_config())
    check_agent(await registry.get_models(principal.project_id), config)
    await check_hosted_tools(registry, principal.project_id, config, tools.paths)
    await check_prices(registry, config)
    await ensure_guards(registry, config.guardrails, config.hooks)

    async def register(tx: Tx) -> Agent:
        made = await agents.put_agent(
            tx,
            principal.project_id,
            agent.name,
            config,
            description=agent.description,
            metadata=agent.metadata,
            replace=False,
        )
        if made is None:
            raise e.AlreadyExistsError(
                f"An agent named '{agent.name}' already exists. Use PATCH to update it."
            )
        created = Agent.from_row(made)
        await audit.record(tx, AuditAction.AGENT_CREATED, agent.name, after=created)
        return created

    headers = {"Location": f"/v1/agents/{agent.name}"}
    shown = await respond_once(storage, request_key, register, status=201, headers=headers)
    registry.forget_tools(principal.project_id)
    return shown


@routes.get("/agents")
async def list_agents(
    principal: ToolsReader, storage: StorageDep, pagination: NamePagination
) -> Page[Agent]:
    """List agents, ordered by name."""
    async with storage.connect() as tx:
        found = await agents.list_agents(tx, principal.project_id, **pagination.by_name)
    return pagination.page(found, Agent.from_row, lambda agent: agent.name)


@routes.get("/agents/{name}")
async def get_agent(
    principal: ToolsReader,
    storage: StorageDep,
    name: AgentPath,
    version: Annotated[
        int | None,
        Query(
            ge=1, le=MAX_VERSION, description="Version of the agent. Default: the current version."
        ),
    ] = None,
) -> Agent:
    """Get the current version of an agent, or an earlier version."""
    async with storage.connect() as tx:
        found = await agents.get_agent(tx, principal.project_id, name)
        if found is not None and version not in (None, found.version):
            after = version + 1 if version else None
            former = await agents.list_versions(
                tx, principal.project_id, name, after=after, limit=1
            )
            found = next((one for one in former if one.version == version), None)
    if found is None:
        raise not_found.AgentNotFoundError
    return Agent.from_row(found)


@routes.get("/agents/{name}/versions", summary="List an agent's versions")
async def list_agent_versions(
    principal: ToolsReader,
    storage: StorageDep,
    name: AgentPath,
    limit: PageLimit = 20,
    after: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description=AFTER)] = None,
    before: Annotated[int | None, Query(ge=1, le=MAX_VERSION, description=BEFORE)] = None,
) -> Page[Agent]:
    """List all versions of an agent, newest first. The cursors `first_id` and `last_id` are version
    numbers."""
    window = make_window(limit, after, before, descending=True)
    async with storage.connect() as tx:
        if await agents.get_agent(tx, principal.project_id, name) is None:
            raise not_found.AgentNotFoundError
        found = await agents.list_versions(tx, principal.project_id, name, **window)
    return Page[Agent].from_rows(
        found,
        limit,
        Agent.from_row,
        lambda agent: str(agent.version),
        backwards=before is not None,
    )


@routes.patch("/agents/{name}")
async def update_agent(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: AgentPath,
    patch: UpdateAgent,
) -> Agent:
    """Update an agent. The update creates a new version. Runs that have already started continue to
    use their version."""
    await ensure_guards(registry, patch.get_given("guardrails", ()), patch.get_given("hooks", ()))
    models, tools = await registry.get_models(principal.project_id), None
    if "tools" in patch.model_fields_set:
        entries = patch.get_given("tools", ())
        tools = await select_tools(storage, registry, principal.project_id, entries)
    if not patch.model_fields_set.isdisjoint({"model", "tools", "limits"}):
        async with storage.connect() as tx:
            before = await agents.get_agent(tx, principal.project_id, name)
        if before is not None:  # If not, the check below rejects it.
            config = patch.apply_to(before.config, tools)
            check_agent(models, config)
            paths = None if tools is None else tools.paths
            await check_hosted_tools(registry, principal.project_id, config, paths)
            await check_prices(registry, config)
    async with storage.begin() as tx:
        former = await agents.lock_agent(tx, principal.project_id, name)
        if former is None:
            raise not_found.AgentNotFoundError
        config = patch.apply_to(former.config, tools)
        check_agent(models, config)
        changed = await agents.put_agent(
            tx,
            principal.project_id,
            name,
            config,
            description=patch.get_given("description", former.description),
            metadata=patch.get_given("metadata", former.metadata),
            replace=True,
        )
        assert changed is not None
        updated = Agent.from_row(changed)
        former_agent = Agent.from_row(former)
        await audit.record(tx, AuditAction.AGENT_UPDATED, name, before=former_agent, after=updated)
    registry.forget_tools(principal.project_id)
    return updated


@routes.delete("/agents/{name}", status_code=204)
async def delete_agent(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    name: AgentPath,
) -> None:
    """Delete an agent. Runs that have already started continue."""
    async with storage.begin() as tx:
        former = await agents.lock_agent(tx, principal.project_id, name)
        if former is None:
            raise not_found.AgentNotFoundError
        await agents.delete_agent(tx, principal.project_id, name)
        await audit.record(tx, AuditAction.AGENT_DELETED, name, before=Agent.from_row(former))
    registry.forget_tools(principal.project_id)
