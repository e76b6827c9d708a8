"""From a request to an accepted run: everything it names is checked, then it is one commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from sqlalchemy.exc import DBAPIError

from app.api.idempotency import Once
from app.api.models.start_run import StartRun
from app.domain import errors as e
from app.domain.agents import AgentConfig, Limits, NamedTool
from app.domain.errors import FieldError
from app.domain.ids import ProjectId, RunId
from app.domain.run import RunStatus
from app.domain.schema import check_schema
from app.domain.scopes import Principal
from app.domain.state import Changes, RunState, Segment, SegmentKind
from app.llm.catalog import UnknownModelError
from app.store import codec, idempotency, registry, views
from app.store.accept import Accepted
from app.store.db import sqlstate
from app.store.ids import mint
from app.store.runs import NewRun
from app.store.views import RunView
from app.wiring import Services

UNIQUE_VIOLATION: Final = "23505"


@dataclass(frozen=True, slots=True)
class Answered:
    """`replayed`: the key was used before; the run is as it is now."""

    run: RunView
    replayed: bool


async def accept(services: Services, who: Principal, asked: StartRun, what: Once) -> Answered:
    """After this the run and its first event are committed. Raises AppErrors."""
    if what.key is not None and (kept := await _replay(services, what)) is not None:
        return kept
    try:
        return await _accept_new(services, who, asked, what)
    except DBAPIError as error:  # the same key at the same time: the other one was first
        if what.key is None or sqlstate(error) != UNIQUE_VIOLATION:
            raise
        kept = await _replay(services, what)
        if kept is None:
            raise
        return kept


async def _accept_new(services: Services, who: Principal, asked: StartRun, what: Once) -> Answered:
    """With room in this process the run is leased to it at once: one commit less."""
    config = await _config(services, who.project_id, asked)
    lease = services.reserve_slot()
    new = _new_run(who, asked, config, what, lease=lease)
    try:
        accepted = await services.accept(new)
    except BaseException:
        if lease:
            services.free_slot()
        raise
    if lease:
        services.adopt(_state(new, accepted))
    else:
        services.wake_worker()
    return Answered(_view(new, accepted), replayed=False)


async def _replay(services: Services, what: Once) -> Answered | None:
    """The run that was started under the key, as it is now."""
    assert what.key is not None
    async with services.database.pool.begin() as tx:
        kept = await idempotency.read(tx, what.project_id, what.key)
        if kept is None:
            await idempotency.drop_expired(tx, what.project_id, what.key)
            return None
        what.check(kept)
        assert kept.resource_id is not None
        run = await views.get_run(tx, what.project_id, RunId(kept.resource_id))
    if run is None:
        raise e.RunNotFoundError
    return Answered(run, replayed=True)


async def _config(services: Services, project_id: ProjectId, asked: StartRun) -> AgentConfig:
    """What the run is to be, with every name in it resolved."""
    if asked.agent is None:
        config = asked.config()
    else:
        async with services.autocommit.connect() as tx:
            agent = await registry.get_agent(tx, project_id, asked.agent)
        if agent is None:
            raise e.UnknownAgentError(
                f"There is no agent '{asked.agent}'.",
                errors=[FieldError("agent", "is not registered")],
            )
        config = agent.config.model_copy(
            update={"limits": merged(agent.config.limits, asked.limits)}
        )
    check_models(services, config)
    missing = await services.toolbox.missing(project_id, config.tools)
    if missing:
        raise e.UnknownToolError(
            f"Not registered: {', '.join(missing)}. Register a tool with POST /v1/tools.",
            errors=[
                FieldError(f"tools.{config.tools.index(name)}", "is not registered")
                for name in missing
            ],
        )
    return config


def merged(base: Limits, given: Limits) -> Limits:
    """The agent's limits, with what the run itself says in their place."""
    return base.model_copy(update={name: getattr(given, name) for name in given.model_fields_set})


def check_models(services: Services, config: AgentConfig) -> None:
    """Raises for models, settings and schemas that no run could use."""
    for model in config.models:
        try:
            wrong = services.models.check_settings(model, config.model_settings)
        except UnknownModelError as error:
            text = str(error)
            raise e.UnknownModelError(text, errors=[FieldError("model", text)]) from None
        if wrong:
            raise e.InvalidRequestError(
                errors=[FieldError("model_settings", line) for line in wrong]
            )
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


def _new_run(
    who: Principal,
    asked: StartRun,
    config: AgentConfig,
    what: Once,
    *,
    lease: bool,
) -> NewRun:
    changes = Changes()
    models: list[JsonValue] = list(config.models)
    changes.add(
        "run.created",
        agent=asked.agent,
        model=models[0] if isinstance(config.model, str) else models,
        tools=list[JsonValue](config.tools),
    )
    if lease:
        changes.add("run.started")
    segment = Segment(SegmentKind.INPUT, 0, asked.agent, asked.messages())
    changes.segments.append(segment)
    return NewRun(
        project_id=who.project_id,
        id=RunId(mint()),
        agent=asked.agent,
        config=config,
        context=asked.context,
        metadata=asked.metadata,
        created_by=who.key_id,
        changes=changes,
        lease=lease,
        idempotency=None if what.key is None else (what.key, what.route, what.body_digest),
    )


def _state(new: NewRun, accepted: Accepted) -> RunState:
    return RunState(
        project_id=new.project_id,
        id=new.id,
        fence=1,
        version=0,
        agent=new.agent,
        config=new.config,
        pinned=accepted.tool_versions,
        context=new.context,
        segments=tuple(new.changes.segments),
        seconds_left=new.config.limits.deadline_seconds,
    )


def _view(new: NewRun, accepted: Accepted) -> RunView:
    return RunView(
        id=new.id,
        status=RunStatus.IN_PROGRESS if new.lease else RunStatus.QUEUED,
        agent=new.agent,
        config=codec.config_to_json(new.config),
        turn=0,
        usage=dict.fromkeys(views.USAGE, 0),
        output=None,
        output_parsed=None,
        error=None,
        incomplete_details=None,
        context=new.context,
        metadata=new.metadata,
        last_seq=len(new.changes.events),
        created_at=accepted.at,
        started_at=accepted.at if new.lease else None,
        ended_at=None,
    )
