"""Resolve the names in a request: find agents with all agents that they can hand over to, and check
the configuration of the run."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from runward.api.registry.agent_checks import (
    check_agent,
    check_budgets,
    check_hosted_tools,
    check_prices,
    list_tool_paths,
)
from runward.api.registry.guards import ensure_guards
from runward.api.registry.inline_tools import select_tools
from runward.api.runs.request_models import StartRun
from runward.api.webhooks.checks import ensure_webhook_target
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.run.builtins import BUILTINS
from runward.domain.run.config import (
    MAX_TOOLS,
    AgentConfig,
    Limits,
    SelectionTooLargeError,
    add_webhook,
    list_patterns,
    select_names,
)
from runward.domain.run.family import Member, list_tool_names
from runward.domain.run.notifications import RunWebhook
from runward.services import Registry, Storage
from runward.store.postgres.db import Tx
from runward.store.registry import agents
from runward.store.registry.agents import TeamTooLargeError
from runward.store.registry.tool_registry import expand_team
from runward.store.webhooks import endpoints


@dataclass(frozen=True, slots=True)
class ResolvedAgent:
    """An agent and its team. `team`: all agents to which the run can be handed over, directly or
    indirectly."""

    config: AgentConfig
    version: int | None = None
    team: Mapping[str, Member] = field(default_factory=dict[str, Member])


async def resolve_agent(
    storage: Storage, registry: Registry, project_id: ProjectId, body: StartRun
) -> ResolvedAgent:
    """Return the agent with its team. Raises AppErrors for unknown names."""
    tools = await select_tools(storage, registry, project_id, body.tools)
    config, version = tools.apply_to(body.to_config()), None
    paths = tools.paths
    models = await registry.get_models(project_id)
    await ensure_guards(registry, body.guardrails, body.hooks)
    if body.agent is not None:
        agent = await registry.find_agent(project_id, body.agent)
        if agent is None:
            raise e.UnknownAgentError(
                f"This project has no agent named '{body.agent}'.",
                errors=[FieldError("agent", "is not registered")],
            )
        limits = merge_limits(agent.config.limits, body.limits)
        config = agent.config.model_copy(update={"limits": limits})
        paths = list_tool_paths(config)
        version = agent.version
    team: dict[str, Member] = {}
    missing: list[str] = []
    if config.handoffs or config.agents or list_patterns(config):
        async with storage.connect() as tx:
            team, missing = await _find_team(tx, project_id, config)
            config, team = await _expand_patterns(tx, project_id, config, paths, team)
    check_agent(models, config)
    if missing:
        raise e.UnknownAgentError(
            f"These agents are not registered: {', '.join(missing)}. Register an "
            "agent with POST /v1/agents.",
            errors=[
                FieldError(_format_path(config, name), "is not registered") for name in missing
            ],
        )
    if body.agent is not None and team:
        assert version is not None
        team[body.agent] = Member(config, version)
    await _check_tools(registry, project_id, config, paths, team)
    await check_prices(registry, config, (member.config for member in team.values()))
    await check_budgets(storage, registry, project_id, body.agent, config)
    if body.webhook is not None:
        config = await _prepare_webhook(storage, registry, project_id, config, body.webhook)
    return ResolvedAgent(config, version, team)


async def _prepare_webhook(
    storage: Storage,
    registry: Registry,
    project_id: ProjectId,
    config: AgentConfig,
    webhook: RunWebhook,
) -> AgentConfig:
    """Return the configuration with the webhook, whose project has a cursor for notifications from
    now on. Raises InvalidRequestError."""
    await ensure_webhook_target(registry, webhook.url, "webhook.url")
    async with storage.connect() as tx:
        await endpoints.add_cursor(tx, project_id)
    return add_webhook(config, webhook)


async def _find_team(
    tx: Tx, project_id: ProjectId, config: AgentConfig
) -> tuple[dict[str, Member], list[str]]:
    """Return the team, and the names of agents that do not exist. Raises InvalidRequestError."""
    try:
        team, missing = await agents.find_team(tx, project_id, config.handoffs)
    except TeamTooLargeError:
        wrong = f"lead to more than {agents.MAX_TEAM_SIZE} agents, which is the maximum"
        raise e.InvalidRequestError(errors=[FieldError("handoffs", wrong)]) from None
    return team, missing + await agents.find_missing(tx, project_id, config.agents)


async def _expand_patterns(
    tx: Tx,
    project_id: ProjectId,
    config: AgentConfig,
    paths: dict[str, str],
    team: Mapping[str, Member],
) -> tuple[AgentConfig, dict[str, Member]]:
    """Return the configurations with the tools that their patterns select. `paths` receives the
    places of these tools. Raises InvalidRequestError."""
    try:
        expanded, members, names = await expand_team(tx, project_id, config, team)
    except SelectionTooLargeError:
        wrong = f"must select at most {MAX_TOOLS} tools"
        raise e.InvalidRequestError(errors=[FieldError("tools", wrong)]) from None
    found = {
        pattern: selected
        for one in (config, *(member.config for member in team.values()))
        for pattern, selected in select_names(list_patterns(one), names).items()
    }
    if empty := [pattern for pattern, selected in found.items() if not selected]:
        wrong = "selects no registered tool"
        raise e.InvalidRequestError(
            errors=[FieldError(paths.get(one, "handoffs"), wrong) for one in empty]
        )
    for pattern in list_patterns(config):
        for name in found[pattern]:
            paths.setdefault(name, paths[pattern])
    return expanded, members


def _format_path(config: AgentConfig, name: str) -> str:
    if name in config.agents:
        return f"agents.{config.agents.index(name)}"
    if name in config.handoffs:
        return f"handoffs.{config.handoffs.index(name)}"
    return "handoffs"


async def _check_tools(
    registry: Registry,
    project_id: ProjectId,
    config: AgentConfig,
    paths: Mapping[str, str],
    team: Mapping[str, Member],
) -> None:
    names = [name for name in list_tool_names(config, team) if name not in BUILTINS]
    missing = await registry.list_unregistered(project_id, names)
    if missing:
        raise e.UnknownToolError(
            f"These tools are not registered: {', '.join(missing)}. Register a tool "
            "with POST /v1/tools.",
            errors=[
                FieldError(paths.get(name, "handoffs"), "is not registered") for name in missing
            ],
        )
    await check_hosted_tools(registry, project_id, config, paths)
    for member in team.values():
        await check_hosted_tools(registry, project_id, member.config)


def merge_limits(base: Limits, limits: Limits) -> Limits:
    """Return the run's limits. For limits that the run does not set, return those of the agent."""
    return base.model_copy(update={name: getattr(limits, name) for name in limits.model_fields_set})
