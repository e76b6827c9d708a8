"""From a request to an accepted run: everything it names is checked, then it is one commit."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.exc import DBAPIError

from app.api.idempotency import Once
from app.api.models.start_run import StartRun
from app.api.resolving import Resolved, resolve
from app.domain import errors as e
from app.domain.ids import Prefix, RunId, SessionId, parse
from app.domain.run import RunStatus
from app.domain.scopes import Principal
from app.domain.sessions import OnConflict
from app.domain.state import Changes, Place, RunState, Segment, SegmentKind, created
from app.store import codec, idempotency, outside, sessions, views
from app.store.accept import Accepted
from app.store.db import sqlstate
from app.store.ids import mint
from app.store.runs import ACCEPT, NewRun, accept_values
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
    resolved = await resolve(services, who.project_id, asked)
    if asked.session_id is not None:
        return await accept_in_session(services, _new_run(who, asked, resolved, what), asked)
    lease = services.reserve_slot()
    new = replace(_new_run(who, asked, resolved, what), lease=lease)
    if lease:
        new.changes.add("run.started")
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


async def accept_in_session(services: Services, new: NewRun, asked: StartRun) -> Answered:
    """One run of a session at a time: this one starts, waits, is refused, or ends the others."""
    assert asked.session_id is not None
    value = parse(Prefix.SESSION, asked.session_id)
    if value is None:
        raise e.SessionNotFoundError
    session_id = SessionId(value)
    wish = None if asked.on_conflict is None else OnConflict(asked.on_conflict)
    for _ in range(sessions.MAX_ROUNDS):
        async with services.database.pool.begin() as tx:
            taken = await sessions.take_place(tx, new.project_id, session_id, wish)
            if not taken.previous:
                place = Place(session_id, taken.seq)
                new = replace(new, place=place, waits=taken.waits)
                values = accept_values([new], services.lease)
                row = (await tx.execute(ACCEPT, values)).one()
                break
        for run_id in taken.previous:
            with suppress(e.RunEndedError):
                async with services.database.pool.begin() as tx:
                    await outside.cancel(tx, new.project_id, run_id, after_turn=False)
    else:
        raise e.SessionBusyError
    services.wake_worker()
    return Answered(_view(new, Accepted(row.at, row.tool_versions)), replayed=False)


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


def _new_run(
    who: Principal,
    asked: StartRun,
    resolved: Resolved,
    what: Once,
) -> NewRun:
    config, changes = resolved.config, Changes()
    created(changes, asked.agent, config)
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
        agent_version=resolved.version,
        team=resolved.team,
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
        team=new.team,
        created_by=new.created_by,
        seconds_left=new.config.limits.deadline_seconds,
    )


def _view(new: NewRun, accepted: Accepted) -> RunView:
    return RunView(
        id=new.id,
        status=RunStatus.IN_PROGRESS if new.lease else RunStatus.QUEUED,
        agent=new.agent,
        config=codec.config_to_json(new.config),
        turn=new.turn,
        usage=dict.fromkeys(views.USAGE, 0),
        session_id=new.place.session_id if new.place else None,
        continued_from=new.continued_from,
        parent_run_id=None,
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
