"""Accept a run, or a run that continues another: everything that the request names is checked, then
one commit starts the run."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.exc import DBAPIError

from runward.api.http.idempotency import IdempotentRequest
from runward.api.runs.cancel import cancel
from runward.api.runs.request_models import ContinueRun, StartRun, build_messages
from runward.api.runs.resolution import ResolvedAgent, resolve_agent
from runward.domain import errors as e
from runward.domain.events.kinds import RunStartedEvent
from runward.domain.events.run_data import RunOrigin
from runward.domain.ids import Prefix, RunId, SessionId, format_id, parse_id
from runward.domain.registry.scopes import Principal
from runward.domain.run.bounds import check_room, count_json_bytes
from runward.domain.run.items import Item
from runward.domain.run.sessions import OnConflict
from runward.domain.run.state import Changes, Place, RunState, Segment, SegmentKind, add_run_created
from runward.domain.run.status import RunStatus
from runward.services import Registry, RunQueue, Storage
from runward.store import codec
from runward.store.access import idempotency
from runward.store.postgres.db import Tx, mint, sqlstate
from runward.store.runs import continuation, sessions, views
from runward.store.runs.accept import ACCEPT, AcceptedRun, NewRun, accept_values
from runward.store.runs.views import RunView

UNIQUE_VIOLATION: Final = "23505"


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """`replayed`: the key was used before; the run is as it is now. Else its `created_by` is not
    looked up: it is who asks."""

    run: RunView
    replayed: bool


async def accept(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: StartRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """After this the run and its first event are committed. Raises AppErrors."""
    return await accept_once(
        storage,
        request_key,
        lambda: _accept_new(storage, registry, queue, principal, body, request_key),
    )


async def accept_once(
    storage: Storage, request_key: IdempotentRequest, start: Callable[[], Awaitable[AcceptResult]]
) -> AcceptResult:
    """`start` accepts a run and keeps the key beside it."""
    if request_key.key is not None and (kept := await _replay(storage, request_key)) is not None:
        return kept
    try:
        return await start()
    except (DBAPIError, e.SessionBusyError) as error:
        lost = isinstance(error, e.SessionBusyError) or sqlstate(error) == UNIQUE_VIOLATION
        if request_key.key is None or not lost:
            raise  # else the same key at the same time: the other one may have been first
        kept = await _replay(storage, request_key)
        if kept is None:
            raise
        return kept


async def _accept_new(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: StartRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    resolved = await resolve_agent(storage, registry, principal.project_id, body)
    new = request_key.with_key(build_new_run(principal, body, resolved, body.to_messages()))
    if body.session_id is not None:
        value = parse_id(Prefix.SESSION, body.session_id)
        if value is None:
            raise e.SessionNotFoundError
        on_conflict = None if body.on_conflict is None else OnConflict(body.on_conflict)
        return await accept_in_session(storage, queue, new, SessionId(value), on_conflict)
    return await accept_immediately(queue, new)


async def accept_immediately(queue: RunQueue, new: NewRun) -> AcceptResult:
    """A run that waits for no other. With room in this process it is leased to it at once: one
    commit less."""
    lease = queue.reserve_place()
    new = replace(new, lease=lease)
    if lease:
        new.changes.add(RunStartedEvent({}))
    try:
        accepted = await queue.accept(new)
    except BaseException:
        if lease:
            queue.release_place()
        raise
    if lease:
        queue.start_accepted(_build_state(new, accepted))
    else:
        queue.wake_worker()
    return AcceptResult(_build_view(new, accepted), replayed=False)


async def _do_nothing(_tx: Tx, _new: NewRun) -> None:
    pass


async def accept_in_transaction(
    storage: Storage,
    queue: RunQueue,
    new: NewRun,
    after_accept: Callable[[Tx, NewRun], Awaitable[None]],
) -> AcceptResult:
    """`after_accept` is done in the commit that accepts the run."""
    async with storage.write() as tx:
        row = (await tx.execute(ACCEPT, accept_values([new], queue.lease))).one()
        await after_accept(tx, new)
    queue.wake_worker()
    return AcceptResult(_build_view(new, AcceptedRun(row.at, row.tool_versions)), replayed=False)


async def accept_in_session(
    storage: Storage,
    queue: RunQueue,
    new: NewRun,
    session_id: SessionId,
    on_conflict: OnConflict | None = None,
    *,
    after_accept: Callable[[Tx, NewRun], Awaitable[None]] = _do_nothing,
) -> AcceptResult:
    """One run of a session at a time: this one starts, waits, is refused, or ends the others.
    `after_accept` is done in the commit that accepts it."""
    for _ in range(sessions.MAX_CANCEL_ROUNDS):
        async with storage.write() as tx:
            taken = await sessions.take_slot(tx, new.state.project_id, session_id, on_conflict)
            if taken.previous and await _is_key_used(tx, new):
                raise e.SessionBusyError  # the one in the way is this very request's run
            if not taken.previous:
                state = replace(new.state, place=Place(session_id, taken.seq))
                new = replace(new, state=state, waits=taken.waits)
                values = accept_values([new], queue.lease)
                row = (await tx.execute(ACCEPT, values)).one()
                await after_accept(tx, new)
                break
        for run_id in taken.previous:
            with suppress(e.RunEndedError):
                await cancel(storage, queue, new.state.project_id, run_id)
    else:
        raise e.SessionBusyError
    queue.wake_worker()
    return AcceptResult(_build_view(new, AcceptedRun(row.at, row.tool_versions)), replayed=False)


async def _is_key_used(tx: Tx, new: NewRun) -> bool:
    """Whether the request's key has been used: the session's lock has been waited for."""
    if new.idempotency is None:
        return False
    return await idempotency.read(tx, new.state.project_id, new.idempotency[0]) is not None


async def _replay(storage: Storage, request_key: IdempotentRequest) -> AcceptResult | None:
    """The run that was started under the key, as it is now."""
    assert request_key.key is not None
    async with storage.write() as tx:
        kept = await idempotency.read(tx, request_key.project_id, request_key.key)
        if kept is None:
            await idempotency.delete_expired(tx, request_key.project_id, request_key.key)
            return None
        request_key.check(kept)
        assert kept.resource_id is not None
        run = await views.get_run(tx, request_key.project_id, RunId(kept.resource_id))
    if run is None:
        raise e.RunNotFoundError
    return AcceptResult(run, replayed=True)


def build_new_run(
    principal: Principal,
    body: StartRun,
    resolved: ResolvedAgent,
    items: tuple[Item, ...],
    continued_from: RunId | None = None,
) -> NewRun:
    """`items`: what it begins with. Raises ConflictError if no run can hold them."""
    if continued_from is not None:  # else they are no larger than the request
        check_room(items)
    config, changes = resolved.config, Changes()
    origin: RunOrigin = {}
    if continued_from:
        origin = {"continued_from": format_id(Prefix.RUN, continued_from)}
    add_run_created(changes, body.agent, config, origin)
    segment = Segment(SegmentKind.INPUT, 0, body.agent, items)
    changes.segments.append(segment)
    state = RunState(
        project_id=principal.project_id,
        id=RunId(mint()),
        agent=body.agent,
        config=config,
        context=body.context,
        created_by=principal.key_id,
        team=resolved.team,
    )
    return NewRun(
        state,
        changes,
        metadata=body.metadata,
        agent_version=resolved.version,
        continued_from=continued_from,
    )


def _build_state(new: NewRun, accepted: AcceptedRun) -> RunState:
    """As the run would be loaded."""
    return replace(
        new.state,
        fence=1,
        pinned=accepted.tool_versions,
        last_seq=len(new.changes.events),
        segments=tuple(new.changes.segments),
        seconds_left=new.state.config.limits.deadline_seconds,
        stored_bytes=count_json_bytes(new.changes.segments),
    )


def _build_view(new: NewRun, accepted: AcceptedRun) -> RunView:
    state = new.state
    return RunView(
        id=state.id,
        status=RunStatus.IN_PROGRESS if new.lease else RunStatus.QUEUED,
        agent=state.agent,
        config=codec.config_to_json(state.config),
        created_by=None,
        turn=state.turn,
        usage=dict.fromkeys(views.USAGE_FIELDS, 0),
        session_id=state.place.session_id if state.place else None,
        continued_from=new.continued_from,
        parent_run_id=None,
        output=None,
        output_parsed=None,
        error=None,
        incomplete_details=None,
        context=state.context,
        metadata=new.metadata,
        last_seq=len(new.changes.events),
        created_at=accepted.at,
        started_at=accepted.at if new.lease else None,
        ended_at=None,
    )


async def accept_continuation(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    run_id: RunId,
    body: ContinueRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """After this the new run is committed. Raises AppErrors."""

    async def start() -> AcceptResult:
        async with storage.read() as tx:
            messages = () if body.input is None else build_messages(body.input)
            found = await continuation.prepare(
                tx, principal.project_id, run_id, turns=body.max_turns, messages=messages
            )
        new = request_key.with_key(
            replace(found.run, state=replace(found.run.state, created_by=principal.key_id))
        )
        accepted = await _accept(storage, queue, new, found.session_id)
        return replace(accepted, run=replace(accepted.run, agent=found.agent))

    return await accept_once(storage, request_key, start)


async def _accept(
    storage: Storage, queue: RunQueue, new: NewRun, session_id: SessionId | None
) -> AcceptResult:
    """Raises AppErrors."""
    if session_id is None:
        return await accept_in_transaction(storage, queue, new, continuation.copy_history)
    try:
        return await accept_in_session(
            storage, queue, new, session_id, after_accept=continuation.copy_history
        )
    except e.SessionNotFoundError:
        raise e.ConflictError("The session of this run has been deleted.") from None
