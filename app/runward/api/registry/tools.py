"""/v1/tools: register, list, update, test and delete tools."""

import time
from typing import Final

from fastapi import Response

from runward.api.http.auth import ToolsReader, ToolsWriter
from runward.api.http.dependencies import AccessDep, RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import NamePagination, Page
from runward.api.http.params import ToolPath
from runward.api.http.routes import make_router
from runward.api.registry.function_tools import ToolDefinition
from runward.api.registry.guards import TOOL_STAGES, check_guards
from runward.api.registry.tool_models import (
    NewTool,
    TestTool,
    Tool,
    ToolSecret,
    ToolTestResult,
    UpdateTool,
    apply_patch,
    dump_overrides,
)
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import CelRule, ToolSpec, is_reserved
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.tools import CompiledTool
from runward.domain.schema.validator import check_schema
from runward.egress.addresses import TargetError
from runward.services import Access, Registry, Storage
from runward.store.postgres.db import Tx, mint
from runward.store.registry import mcp_servers, plugin_sync, tool_registry
from runward.store.registry.tool_registry import RegisteredTool
from runward.tools import signing
from runward.tools.base import Invocation
from runward.tools.webhook.headers import check_headers, resolve_headers, secret_references

routes = make_router("Tools")

MAX_ROUNDS: Final = 20
"""Maximum number of times that an update is repeated because another client changed the tool."""
_UNTESTABLE_TYPES: Final = {
    "agent": "is of type agent and cannot be tested; start a run of its agent instead",
    "client": "is of type client and cannot be tested, because only the client can run it",
    "hosted": (
        "is of type hosted and cannot be tested, because only the model's provider can run it"
    ),
}


@routes.post("/tools", status_code=201, response_model=NewTool)
async def register_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    tool: ToolDefinition,
) -> Response:
    """Register a tool, in Runward's format or in one of OpenAI's. The response contains the tool's
    signing secret, which Runward returns only once."""
    spec = tool.to_spec()
    errors = await find_tool_errors(registry, principal.project_id, spec)
    if is_reserved(spec.name):
        errors.append(FieldError("name", "is reserved for a built-in tool"))
    if errors:
        located = [FieldError(tool.locate(one.path), one.message) for one in errors]
        raise e.InvalidRequestError(errors=located)
    secret = signing.make_secret()

    async def register(tx: Tx) -> NewTool:
        made = await tool_registry.add_tool(tx, storage.vault, principal.project_id, spec, secret)
        if made is None:
            raise e.AlreadyExistsError(
                f"A tool named '{spec.name}' already exists. Use PATCH to update it."
            )
        return NewTool.from_row(made, secret=secret)

    headers = {"Location": f"/v1/tools/{spec.name}"}
    shown = await respond_once(storage, request_key, register, status=201, headers=headers)
    registry.forget_tools(principal.project_id)
    return shown


@routes.get("/tools")
async def list_tools(
    principal: ToolsReader, storage: StorageDep, pagination: NamePagination
) -> Page[Tool]:
    """List tools, ordered by name."""
    async with storage.connect() as tx:
        found = await tool_registry.list_tools(tx, principal.project_id, **pagination.by_name)
    return pagination.page(found, Tool.from_row, lambda tool: tool.name)


@routes.get("/tools/{name}")
async def get_tool(principal: ToolsReader, storage: StorageDep, name: ToolPath) -> Tool:
    """Get the current version of a tool."""
    async with storage.connect() as tx:
        found = await tool_registry.get_tool(tx, principal.project_id, name)
    if found is None:
        raise e.ToolNotFoundError
    return Tool.from_row(found)


@routes.patch("/tools/{name}")
async def update_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    name: ToolPath,
    patch: UpdateTool,
) -> Tool:
    """Update a tool. The update creates a new version. Runward closes the pending approvals of the
    previous version and creates new ones."""
    for _ in range(MAX_ROUNDS):
        async with storage.connect() as tx:
            before = await tool_registry.get_tool(tx, principal.project_id, name)
        if before is None:
            raise e.ToolNotFoundError
        changed = await _apply_change(storage, registry, principal, before, patch)
        if changed is not None:
            registry.forget_tools(principal.project_id)
            return Tool.from_row(changed)
    raise e.ConflictError(f"Other requests are updating tool '{name}'. Retry the request.")


async def _apply_change(
    storage: Storage,
    registry: Registry,
    principal: Principal,
    before: RegisteredTool,
    patch: UpdateTool,
) -> RegisteredTool | None:
    """Store the update. None: another client changed the tool after `before` was read, so the check
    must be repeated."""
    if errors := patch.find_errors(before.spec):
        raise e.InvalidRequestError(errors=errors)
    code = await _get_code_spec(storage, registry, principal, before.spec, patch)
    spec = apply_patch(before.spec, patch, code)
    if errors := await find_tool_errors(registry, principal.project_id, spec):
        raise e.InvalidRequestError(errors=errors)
    async with storage.begin() as tx:
        former = await tool_registry.lock_tool(tx, principal.project_id, before.spec.name)
        if former is None or (former.id, former.version) != (before.id, before.version):
            return None
        if code is None:
            return await tool_registry.update_tool(
                tx, storage.vault, principal.project_id, former, spec
            )
        return await plugin_sync.override_settings(
            tx, principal.project_id, code, dump_overrides(patch)
        )


@routes.delete("/tools/{name}", status_code=204)
async def delete_tool(
    principal: ToolsWriter, storage: StorageDep, registry: RegistryDep, name: ToolPath
) -> None:
    """Delete a tool. Runs that use the tool no longer see it. Tools of plugins and MCP servers
    cannot be deleted, only disabled."""
    async with storage.begin() as tx:
        found = await tool_registry.lock_tool(tx, principal.project_id, name)
        if found is not None and found.spec.type in ("plugin", "mcp"):
            whence = "a plugin" if found.spec.type == "plugin" else "an MCP server"
            raise e.ConflictError(
                f"Tool '{name}' comes from {whence} and cannot be deleted. To "
                'disable the tool, send PATCH with {"enabled": false}.'
            )
        if not await tool_registry.delete_tool(tx, principal.project_id, name):
            raise e.ToolNotFoundError
    registry.forget_tools(principal.project_id)


@routes.post(
    "/tools/{name}/rotate_secret",
    response_model=ToolSecret,
    summary="Rotate a tool's signing secret",
)
async def rotate_tool_secret(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    name: ToolPath,
) -> Response:
    """Create a new signing secret for a tool. For 24 hours, Runward signs calls with the new secret
    and with the previous one."""
    secret = signing.make_secret()

    async def rotate(tx: Tx) -> ToolSecret:
        if not await tool_registry.rotate_secret(
            tx, storage.vault, principal.project_id, name, secret
        ):
            raise e.ToolNotFoundError
        return ToolSecret(secret=secret)

    shown = await respond_once(storage, request_key, rotate)
    registry.forget_tools(principal.project_id)
    return shown


async def find_tool_errors(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    """Return the errors of a tool's schemas, rules, headers and target."""
    errors: list[FieldError] = list(check_schema(spec.parameters, strict=spec.strict))
    if spec.output_schema is not None:
        errors += check_schema(
            spec.output_schema, strict=False, at="output_schema", object_root=False
        )
    for field, rule in (("approval.when", spec.approval), ("enabled.when", spec.enabled)):
        if isinstance(rule, CelRule):
            problem = await registry.find_rule_problem(project_id, rule.when)
            if problem is not None:
                errors.append(FieldError(field, problem))
    errors += await check_guards(registry, spec.guardrails, stages=TOOL_STAGES)
    errors += await _check_target(registry, project_id, spec)
    return errors


async def _check_target(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    if spec.type != "hosted" and spec.hosted is not None:
        return [
            FieldError("hosted", "must be omitted, because it applies only to tools of type hosted")
        ]
    if spec.type not in ("webhook", "plugin") and spec.implements is not None:
        return [
            FieldError(
                "implements",
                "must be omitted, because it applies only to tools of type webhook or plugin",
            )
        ]
    match spec.type:
        case "webhook":
            return await _check_webhook(registry, project_id, spec)
        case "hosted":
            return _check_hosted(spec)
        case "agent":
            return _check_agent(spec)
        case "client":
            return [*_check_no_agent(spec), *_check_absent(spec, "url", "headers")]
        case _:
            return []


async def _check_webhook(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    errors = [*await _check_header_values(registry, project_id, spec), *_check_no_agent(spec)]
    if spec.url is None:
        return [*errors, FieldError("url", "is required for a tool of type webhook")]
    try:
        await registry.check_target(spec.url)
    except TargetError as error:
        errors.append(FieldError("url", str(error)))
    return errors


async def _check_header_values(
    registry: Registry, project_id: ProjectId, spec: ToolSpec
) -> list[FieldError]:
    """Check the values of new headers. Stored values were already checked."""
    references = secret_references(spec.headers)
    secrets = await registry.read_secrets(project_id, set(references.values()))
    missing = [
        FieldError(
            path,
            f"names the secret '{name}', which does not exist; create it with PUT "
            f"/v1/secrets/{name}",
        )
        for path, name in references.items()
        if name not in secrets
    ]
    return missing or check_headers(resolve_headers(spec.headers, secrets))


def _check_no_agent(spec: ToolSpec) -> list[FieldError]:
    return (
        [FieldError("agent", "must be omitted, because it applies only to tools of type agent")]
        if spec.agent is not None
        else []
    )


def _check_hosted(spec: ToolSpec) -> list[FieldError]:
    """Check that a hosted tool has no settings that only Runward could apply."""
    errors = [*_check_no_agent(spec), *_check_absent(spec, "url", "headers")]
    if spec.hosted is None:
        return [*errors, FieldError("hosted", "is required for a tool of type hosted")]
    message = "cannot be applied to a tool that the model's provider runs"
    errors += [
        FieldError(name, message) for name in ("guardrails", "output_schema") if getattr(spec, name)
    ]
    twice = sorted(spec.hosted.settings.keys() & spec.hosted.secrets.keys())
    errors += [
        FieldError(f"hosted.secrets.{name}", "must not also be in `hosted.settings`")
        for name in twice
    ]
    if spec.hosted.kind != "mcp" and spec.approval != "never":
        errors.append(
            FieldError("approval", f"{message}; only a hosted tool of kind mcp supports approvals")
        )
    return errors


def _check_agent(spec: ToolSpec) -> list[FieldError]:
    """Check a tool of type `agent`. A run checks at its start whether the agent exists."""
    errors: list[FieldError] = []
    if spec.agent is None:
        errors.append(FieldError("agent", "is required for a tool of type agent"))
    return [*errors, *_check_absent(spec, "url", "headers")]


def _check_absent(spec: ToolSpec, *fields: str) -> list[FieldError]:
    """Check that fields of webhook tools are absent."""
    message = f"must be omitted for a tool of type {spec.type}"
    return [FieldError(name, message) for name in fields if getattr(spec, name)]


async def _get_code_spec(
    storage: Storage, registry: Registry, principal: Principal, spec: ToolSpec, patch: UpdateTool
) -> ToolSpec | None:
    """Return the specification by the plugin's code or the MCP server. If the plugin is not loaded
    and no value must be restored, return the stored one. None: the project defines the tool."""
    if spec.mcp is not None:
        async with storage.connect() as tx:
            server = await mcp_servers.get_server(tx, principal.project_id, spec.mcp.server)
        return mcp_servers.find_listed_spec(server, spec)
    if spec.type != "plugin":
        return None
    code = registry.get_plugin_spec(spec.name)
    if code is None and any(getattr(patch, name) is None for name in patch.model_fields_set):
        raise e.ConflictError(
            f"The plugin of tool '{spec.name}' is not loaded in this API process. Install the "
            "plugin, or add it to RUNWARD_PLUGINS."
        )
    return code or spec


@routes.post("/tools/{name}/test")
async def test_tool(
    principal: ToolsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    access: AccessDep,
    name: ToolPath,
    trial: TestTool,
) -> ToolTestResult:
    """Call a tool once, outside of any run. Runward requires no approval, does not retry, and
    records nothing. The arguments must match the tool's schema. Tools of the types `agent`,
    `client`, and `hosted` cannot be tested this way."""
    async with storage.connect() as tx:
        versions = await tool_registry.read_current_versions(tx, principal.project_id, [name])
    if name not in versions:
        raise e.ToolNotFoundError
    tools = await registry.fetch_tools(principal.project_id, versions.items())
    armed = tools.get(name, versions[name])
    if (message := _UNTESTABLE_TYPES.get(armed.tool.spec.type)) is not None:
        raise e.InvalidRequestError(errors=[FieldError("path.name", message)])
    if problems := armed.tool.arguments.problems(trial.arguments):
        raise e.InvalidRequestError(errors=problems)
    executors = registry.executors
    executor = executors.get(armed.tool.spec.type)
    if executor is None:
        message = f"is of type {armed.tool.spec.type}, which this API process cannot run"
        raise e.InvalidRequestError(errors=[FieldError("path.name", message)])
    started = time.monotonic()
    call = _make_invocation(principal, armed.tool, trial, registry, access, secrets=armed.secrets)
    outcome = bounded_outcome(await executor.invoke(call))
    return ToolTestResult.from_outcome(outcome, seconds=time.monotonic() - started)


def _make_invocation(
    principal: Principal,
    tool: CompiledTool,
    trial: TestTool,
    registry: Registry,
    access: Access,
    secrets: tuple[str, ...],
) -> Invocation:
    return Invocation(
        project_id=principal.project_id,
        run_id=RunId(mint()),
        call_id=CallId("test"),
        call_uuid=mint(),
        tool=tool.spec,
        tool_version=tool.version,
        agent=None,
        arguments=tool.arguments.without_nulls(trial.arguments),
        context=trial.context,
        attempt=1,
        fence=0,
        seconds=tool.spec.timeout_seconds or registry.tool_seconds,
        callback_url=f"{access.public_url}/v1/callbacks/test",
        callback_token="test",  # noqa: S106  # leads nowhere
        secrets=secrets,
    )
