"""What a request names becomes what a run is: agents with all that they may hand over to, and a
check of everything that no run could use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.api.guards import ensure_guards
from app.api.models.start_run import StartRun
from app.domain import errors as e
from app.domain.agents import AgentConfig, Limits, NamedTool
from app.domain.builtins import BUILTINS
from app.domain.errors import FieldError
from app.domain.ids import ProjectId
from app.domain.schema import check_schema
from app.domain.state import Member, tool_names_of
from app.llm.abilities import refused_settings
from app.llm.base import Abilities
from app.llm.catalog import Models, UnknownModelError
from app.llm.settings import check_settings
from app.store import agents
from app.store.agents import TeamTooLargeError
from app.wiring import Services


@dataclass(frozen=True, slots=True)
class Resolved:
    """`team`: everyone whom the run may be handed over to, and back to."""

    config: AgentConfig
    version: int | None = None
    team: Mapping[str, Member] = field(default_factory=dict[str, Member])


async def resolve(services: Services, project_id: ProjectId, asked: StartRun) -> Resolved:
    """Raises AppErrors for names that lead nowhere."""
    config, version = asked.config(), None
    models = await services.engine.models.of(project_id)
    await ensure_guards(services, asked.guardrails, asked.hooks)
    async with services.autocommit.connect() as tx:
        if asked.agent is not None:
            agent = await agents.get_agent(tx, project_id, asked.agent)
            if agent is None:
                raise e.UnknownAgentError(
                    f"There is no agent '{asked.agent}'.",
                    errors=[FieldError("agent", "is not registered")],
                )
            limits = merged(agent.config.limits, asked.limits)
            config = agent.config.model_copy(update={"limits": limits})
            version = agent.version
        check_agent(models, config)
        try:
            team, missing = await agents.find_team(tx, project_id, config.handoffs)
        except TeamTooLargeError:
            wrong = f"lead to more than {agents.MAX_TEAM} agents"
            raise e.InvalidRequestError(errors=[FieldError("handoffs", wrong)]) from None
        missing += await agents.missing_of(tx, project_id, config.agents)
    if missing:
        raise e.UnknownAgentError(
            f"Not registered: {', '.join(missing)}. Register an agent with POST /v1/agents.",
            errors=[FieldError(_place(config, name), "is not registered") for name in missing],
        )
    if asked.agent is not None and team:
        assert version is not None
        team[asked.agent] = Member(config, version)
    await _check_tools(services, project_id, config, team)
    return Resolved(config, version, team)


def _place(config: AgentConfig, name: str) -> str:
    if name in config.agents:
        return f"agents.{config.agents.index(name)}"
    if name in config.handoffs:
        return f"handoffs.{config.handoffs.index(name)}"
    return "handoffs"


async def _check_tools(
    services: Services, project_id: ProjectId, config: AgentConfig, team: Mapping[str, Member]
) -> None:
    names = [name for name in tool_names_of(config, team) if name not in BUILTINS]
    missing = await services.toolbox.missing(project_id, names)
    if missing:
        raise e.UnknownToolError(
            f"Not registered: {', '.join(missing)}. Register a tool with POST /v1/tools.",
            errors=[
                FieldError(
                    f"tools.{config.tools.index(name)}" if name in config.tools else "handoffs",
                    "is not registered",
                )
                for name in missing
            ],
        )
    for member in (config, *(one.config for one in team.values())):
        await check_hosted(services, project_id, member)


async def check_hosted(services: Services, project_id: ProjectId, config: AgentConfig) -> None:
    """Raises if none of an agent's models can be given one of its tools. What only some of them
    cannot be given is told when they are asked."""
    names = [name for name in config.tools if name not in BUILTINS]
    known = await services.toolbox.known(project_id, names)
    kinds = {name: kind for name in names if (kind := known.get(name)) is not None}
    if not kinds:
        return
    models = await services.engine.models.of(project_id)
    hosted = [models.resolve(model)[0].abilities.hosted for model in config.models]
    errors = [
        FieldError(
            f"tools.{config.tools.index(name)}",
            f"is run by the model's vendor, and none of the models here runs {kind}; "
            "GET /v1/capabilities says which vendors do",
        )
        for name, kind in kinds.items()
        if not any(kind in theirs for theirs in hosted)
    ]
    if errors:
        raise e.InvalidRequestError(errors=errors)


def merged(base: Limits, given: Limits) -> Limits:
    """The agent's limits, with what the run itself says in their place."""
    return base.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def check_agent(models: Models, config: AgentConfig) -> None:
    """Raises for what no run could use: models, settings, schemas, choices. What only some of the
    models can be told is told when they are asked."""
    _check_kind(config)
    try:
        can = [models.resolve(model)[0].abilities for model in config.models]
    except UnknownModelError as error:
        text = str(error)
        raise e.UnknownModelError(text, errors=[FieldError("model", text)]) from None
    if wrong := check_settings(config.model_settings) or _unheard_of(config, can):
        raise e.InvalidRequestError(errors=[FieldError("model_settings", line) for line in wrong])
    if config.output_schema is not None:
        problems: Sequence[FieldError] = check_schema(
            config.output_schema, strict=False, at="output_schema", object_root=False
        )
        if problems:
            raise e.InvalidRequestError(errors=problems)
    choice = config.tool_choice
    if isinstance(choice, NamedTool) and choice.name not in config.tools:
        raise e.InvalidRequestError(
            errors=[FieldError("tool_choice.name", "must be one of the run's tools")]
        )


def _unheard_of(config: AgentConfig, can: Sequence[Abilities]) -> list[str]:
    """The settings that none of the models has."""
    settings = config.model_settings
    losses = [{loss.what for loss in refused_settings(settings, one)} for one in can]
    everywhere = set[str]().union(*losses).intersection(*losses)
    vendors = ", ".join(dict.fromkeys(one.vendor for one in can))
    return [
        f"{what.removeprefix('model_settings.')}: is a setting that {vendors} does not have"
        for what in sorted(everywhere)
    ]


def _check_kind(config: AgentConfig) -> None:
    """An agent has a model, a workflow has agents, and none has what is the other's. A run of one
    call has neither, and nobody can ask for one in these words."""
    if config.kind == "call":
        return
    errors: list[FieldError] = []
    if config.kind == "llm":
        if config.model is None:
            errors.append(FieldError("model", "is needed for an agent of kind llm"))
        if config.agents:
            errors.append(FieldError("agents", "are run by a workflow; the kind here is llm"))
    else:
        if not config.agents:
            errors.append(FieldError("agents", f"are needed for an agent of kind {config.kind}"))
        errors += [
            FieldError(name, f"must be left out: the kind is {config.kind}")
            for name in ("model", "tools", "handoffs")
            if getattr(config, name)
        ]
    if errors:
        raise e.InvalidRequestError(errors=errors)
