"""Accept runs: in their own transaction, in a session, once for an idempotency key, or as the
continuation of another run."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy.exc import DBAPIError
from structlog.contextvars import bind_contextvars

from runward.api.http.idempotency import IdempotentRequest
from runward.api.runs.cancel import cancel
from runward.api.runs.input_models import build_items
from runward.api.runs.request_models import ContinueRun
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id
from runward.domain.registry.scopes import Principal
from runward.domain.run.config import add_trace
from runward.domain.run.sessions import ConflictMode, Place
from runward.domain.run.status import RunStatus
from runward.services import Registry, RunQueue, Storage
from runward.store import codec
from runward.store.access import idempotency, limits
from runward.store.access.audit import AuditActor
from runward.store.postgres.db import Tx, sqlstate
from runward.store.runs import continuation, sessions, views
from runward.store.runs.queue import AcceptedRun, AgentChangedError, NewRun, insert_run
from runward.store.runs.views import RunView
from runward.tracing import write_trace

UNIQUE_VIOLATION: Final = "23505"
MAX_AGENT_READS: Final = 5
"""Maximum number of times that a request reads its agent, if the agent keeps changing."""


@dataclass(frozen=True, slots=True)
class AcceptResult:
    """An accepted run. `replayed`: the key was used before, and the run is in its current state. If
    not, `created_by` is the principal of the request."""

    run: RunView
    replayed: bool


async def accept_once(
    storage: Storage,
    principal: Principal,
    request_key: IdempotentRequest,
    start: Callable[[], Awaitable[AcceptResult]],
) -> AcceptResult:
    """Accept a run once. `start` accepts the run and stores the key in the same transaction. All
    further log lines of the request contain the ID of the run. Raises TooManyRequestsError if the
    queue of the project is full."""
    accepted = await _accept_once(storage, principal, request_key, start)
    bind_contextvars(run=format_id(Prefix.RUN, accepted.run.id))
    return accepted


async def _accept_once(
    storage: Storage,
    principal: Principal,
    request_key: IdempotentRequest,
    start: Callable[[], Awaitable[AcceptResult]],
) -> AcceptResult:
    if request_key.key is not None and (kept := await _replay(storage, request_key)) is not None:
        return kept
    await _ensure_queue_room(storage, principal)
    try:
        return await start()
    except (DBAPIError, e.SessionBusyError) as error:
        lost = isinstance(error, e.SessionBusyError) or sqlstate(error) == UNIQUE_VIOLATION
        if request_key.key is None or not lost:
            raise  # Another request with the same key may have been committed first.
        kept = await _replay(storage, request_key)
        if kept is None:
            raise
        return kept


async def _ensure_queue_room(storage: Storage, principal: Principal) -> None:
    """Raises TooManyRequestsError."""
    of_project, of_key = principal.limits.queued_runs, principal.key_limits.queued_runs
    if (of_project, of_key) == (None, None):
        return
    async with storage.connect() as tx:
        if of_key is not None:
            await limits.ensure_queue_room(tx, principal.project_id, of_key, principal.key_id)
        if of_project is not None:
            await limits.ensure_queue_room(tx, principal.project_id, of_project)


def with_current_agent(
    registry: Registry, project_id: ProjectId, start: Callable[[], Awaitable[AcceptResult]]
) -> Callable[[], Awaitable[AcceptResult]]:
    """Return `start`, which finds an agent and accepts its run, with retries. If the cached agent
    was outdated, each retry reads the agent again."""

    async def retry() -> AcceptResult:
        for _ in range(MAX_AGENT_READS):
            try:
                return await start()
            except AgentChangedError:
                registry.forget_agents(project_id)
        raise e.ConflictError("The agent was changed several times meanwhile. Send the run again.")

    return retry


async def _replay(storage: Storage, request_key: IdempotentRequest) -> AcceptResult | None:
    """Return the current state of the run that was started with the key."""
    assert request_key.key is not None
    async with storage.begin() as tx:
        kept = await idempotency.read(tx, request_key.project_id, request_key.key)
        if kept is None:
            await idempotency.delete_expired(tx, request_key.project_id, request_key.key)
            return None
        request_key.check(kept)
        assert kept.resource_id is not None
        run = await views.get_run(tx, request_key.project_id, RunId(kept.resource_id))
    if run is None:
        raise not_found.RunNotFoundError
    return AcceptResult(run, replayed=True)


async def _do_nothing(_tx: Tx, _new: NewRun) -> None:
    pass


async def accept_in_transaction(
    storage: Storage,
    queue: RunQueue,
    new: NewRun,
    after_accept: Callable[[Tx, NewRun], Awaitable[None]],
) -> AcceptResult:
    """Accept a run. `after_accept` runs in the same transaction."""
    async with storage.begin() as tx:
        accepted = await insert_run(tx, new, queue.lease)
        await after_accept(tx, new)
    queue.wake_worker(new.id)
    return AcceptResult(build_view(new, accepted), replayed=False)


async def accept_in_session(
    storage: Storage,
    queue: RunQueue,
    new: NewRun,
    session_id: SessionId,
    on_conflict: ConflictMode | None = None,
    *,
    actor: AuditActor | None = None,
    after_accept: Callable[[Tx, NewRun], Awaitable[None]] = _do_nothing,
) -> AcceptResult:
    """Accept a run in a session, in which one run executes at a time. The run starts, waits, is
    rejected, or cancels the other runs. `actor`: see `cancel`. `after_accept` runs in the same
    transaction."""
    for _ in range(sessions.MAX_CANCEL_ROUNDS):
        async with storage.begin() as tx:
            taken = await sessions.take_slot(tx, new.state.project_id, session_id, on_conflict)
            if taken.previous and await _is_key_used(tx, new):
                raise e.SessionBusyError  # The open run is the run of this request.
            if not taken.previous:
                state = replace(new.state, place=Place(session_id, taken.seq))
                new = replace(new, state=state, waits=taken.waits)
                accepted = await insert_run(tx, new, queue.lease)
                await after_accept(tx, new)
                break
        for run_id in taken.previous:
            with suppress(e.RunEndedError):
                await cancel(storage, queue, new.state.project_id, run_id, actor=actor)
    else:
        raise e.SessionBusyError
    queue.wake_worker(new.id)
    return AcceptResult(build_view(new, accepted), replayed=False)


async def _is_key_used(tx: Tx, new: NewRun) -> bool:
    """Return whether the request's key has been used while the request waited for the session's
    lock."""
    if new.idempotency is None:
        return False
    return await idempotency.read(tx, new.state.project_id, new.idempotency[0]) is not None


def build_view(new: NewRun, accepted: AcceptedRun) -> RunView:
    """Return the run as its row would be read, without its principal."""
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
        schedule_id=new.schedule_id,
        parent_run_id=None,
        output=None,
        output_parsed=None,
        error=None,
        incomplete_details=None,
        context=state.context,
        metadata=new.metadata,
        last_seq=len(new.changes.events),
        priority=new.priority or 0,
        start_at=new.start_at,
        created_at=accepted.at,
        started_at=accepted.at if new.lease else None,
        ended_at=None,
        erase_at_end=new.erase_at_end,
        erased_at=None,
    )


async def accept_continuation(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    run_id: RunId,
    body: ContinueRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """Accept the continuation of a run. When this returns, the new run is committed. Raises
    AppErrors."""

    async def start() -> AcceptResult:
        async with storage.connect() as tx:
            messages = () if body.input is None else build_items(body.input)
            found = await continuation.prepare(
                tx, principal.project_id, run_id, turns=body.max_turns, messages=messages
            )
        state = replace(found.run.state, created_by=principal.key_id)
        if trace := write_trace():
            state = replace(state, config=add_trace(state.config, trace))
        new = request_key.with_key(replace(found.run, state=state))
        accepted = await _accept(storage, queue, principal, new, found.session_id)
        return replace(accepted, run=replace(accepted.run, agent=found.agent))

    return await accept_once(storage, principal, request_key, start)


async def _accept(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    new: NewRun,
    session_id: SessionId | None,
) -> AcceptResult:
    """Accept a run. Raises AppErrors."""
    copy, actor = continuation.copy_history, AuditActor.from_principal(principal)
    if session_id is None:
        return await accept_in_transaction(storage, queue, new, copy)
    try:
        return await accept_in_session(
            storage, queue, new, session_id, actor=actor, after_accept=copy
        )
    except not_found.SessionNotFoundError:
        raise e.ConflictError("The session of this run has been deleted.") from None
