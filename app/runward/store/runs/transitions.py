"""Changes of runs that are not made by the holder of the lease: resolutions, callbacks, messages,
cancellations and expirations. Decisions about approvals are in `decisions`.

Each function locks the run, applies the change under that lock, and writes once. If the run was
waiting, it is queued in the same transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.events.base import MAX_PER_RUN
from runward.domain.events.kinds import InputReceivedEvent, ToolCallProgressEvent
from runward.domain.events.run_data import IncompleteDetails, RunError
from runward.domain.events.values import ApprovalStatus, CallReason, RunErrorCode
from runward.domain.ids import ApprovalId, CallId, Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject, is_same_json
from runward.domain.run import approvals as rules
from runward.domain.run.abandoned import Closed, find_abandoned, merge_closed
from runward.domain.run.bounds import check_room
from runward.domain.run.envelopes import find_envelope_errors
from runward.domain.run.failures import classify_timeout
from runward.domain.run.items import Item
from runward.domain.run.resolve import (
    Callback,
    CallbackCompleted,
    CallbackFailed,
    CallbackInputRequired,
    CallbackProgress,
    Resolution,
    apply_callback,
    apply_resolution,
    dump_answer,
    is_repeated_request,
    keep_answer,
    matches_result,
    needs_loop,
)
from runward.domain.run.settle import MAX_INPUT_REQUESTS, conclude, count_input_requests
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.status import MOVES, TERMINAL, Move, RunStatus
from runward.domain.run.tools import CompiledTool
from runward.metrics.definitions import QUARANTINED_RUNS
from runward.store.access import audit
from runward.store.access.audit import AuditActor, AuditChange
from runward.store.access.vault import CallRef, Vault
from runward.store.postgres.db import Tx, mint
from runward.store.runs import approvals, decisions, queries, queue, sweep, views
from runward.store.runs.locked_run import end_run, load_tool, lock_open_run, lock_run, resume_run

_CALLBACK_PHASES: Final = frozenset({CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_INPUT})
_DEADLINE_MESSAGE: Final = "The deadline of the run passed while the run was waiting."
_TIMEOUT_MESSAGES: Final = {
    CallPhase.AWAITING_CALLBACK: "The callback did not arrive before the timeout.",
    CallPhase.AWAITING_RESULT: "The result did not arrive before the timeout.",
}


async def resolve_call(
    tx: Tx,
    vault: Vault,
    project_id: ProjectId,
    run_id: RunId,
    call_id: CallId,
    resolution: Resolution,
) -> None:
    """Record the outcome of a call whose outcome is unknown, or retry the call. Raises
    AppErrors."""
    status, state = await lock_run(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None:
        raise not_found.CallNotFoundError
    if call.phase is not CallPhase.AWAITING_RESOLUTION:
        raise e.CallNotWaitingError
    changes = Changes()
    apply_resolution(state, changes, call, await load_tool(tx, vault, state, call), resolution)
    if not changes.events:
        changes.add(ToolCallProgressEvent({"call_id": call.id, "status": "retried_by_person"}))
    await resume_run(tx, status, state, changes)


@dataclass(frozen=True, slots=True)
class LateCallback:
    """A callback for a call that has ended without this result. The callback is stored and has no
    effect."""


@dataclass(frozen=True, slots=True)
class EarlyCallback:
    """A callback that arrives before the tool's 202 response, or before a retry of the call. The
    caller must try again after a moment."""


async def take_callback(
    tx: Tx, vault: Vault, ref: CallRef, callback: Callback, *, project_has_checks: bool = False
) -> LateCallback | EarlyCallback | None:
    """Apply a tool's callback. The first result counts. If the tool sends the same result again, it
    is accepted. `project_has_checks`: whether the project has guardrails or hooks that check
    results. If the project, the run's agent or the tool has such checks, the result is only stored,
    and the loop passes it to them. Returns None if the callback was applied or repeated. Raises
    AppErrors, such as ResultAlreadyGivenError for a different result."""
    try:
        status, state = await lock_run(tx, ref.project_id, ref.run_id)
    except not_found.RunNotFoundError:
        raise not_found.CallbackNotFoundError from None
    call = next((call for call in state.calls.values() if call.uuid == ref.call), None)
    if call is None:
        raise not_found.CallbackNotFoundError
    if is_repeated_request(call, callback, ref.attempt):
        return None
    if call.phase is CallPhase.STARTED or (call.phase is CallPhase.READY and call.attempt > 0):
        return EarlyCallback()
    if call.phase not in _CALLBACK_PHASES:
        return await _answer_late(tx, vault, state, call, callback)
    if call.received is not None:
        return _check_repeated(call.received, callback)
    tool = await load_tool(tx, vault, state, call)
    await _apply_callback(
        tx, status, state, call, tool, callback, project_has_checks=project_has_checks
    )
    return None


async def _apply_callback(
    tx: Tx,
    status: RunStatus,
    state: RunState,
    call: Call,
    tool: CompiledTool,
    callback: Callback,
    *,
    project_has_checks: bool,
) -> None:
    final = isinstance(callback, CallbackCompleted | CallbackFailed)
    if not final and state.last_seq >= MAX_PER_RUN:
        raise e.TooManyRequestsError("This run has reached its maximum number of events.")
    if isinstance(callback, CallbackInputRequired):
        if call.phase is CallPhase.AWAITING_INPUT:
            raise e.ConflictError(
                "This tool call already has an open input request. Wait for its answer."
            )
        if count_input_requests(call) >= MAX_INPUT_REQUESTS:
            raise e.ConflictError(
                f"This tool call has already sent {MAX_INPUT_REQUESTS} input requests, which is "
                "the maximum."
            )
        check_room(callback, stored=state.stored_bytes)
    changes = Changes()
    if isinstance(callback, CallbackCompleted) and (
        errors := find_envelope_errors(callback, tool.spec)
    ):
        raise e.InvalidRequestError(errors=errors)
    if isinstance(callback, CallbackCompleted | CallbackFailed) and (
        project_has_checks or needs_loop(state, tool)
    ):
        check_room(callback, stored=state.stored_bytes)
        keep_answer(changes, call, callback)
    else:
        apply_callback(state, changes, call, tool, callback)
    if isinstance(callback, CallbackProgress):
        await queries.change_run(tx, state, changes)
    else:
        await resume_run(tx, status, state, changes)


def _check_repeated(received: JsonObject, callback: Callback) -> None:
    """Raise ResultAlreadyGivenError if the callback contains a result that differs from the stored
    one."""
    if not isinstance(callback, CallbackProgress) and not is_same_json(
        received, dump_answer(callback)
    ):
        raise e.ResultAlreadyGivenError


async def _answer_late(
    tx: Tx, vault: Vault, state: RunState, call: Call, callback: Callback
) -> LateCallback | None:
    if call.result is not None and call.result.outcome in (
        CallOutcome.COMPLETED,
        CallOutcome.FAILED,
    ):
        if isinstance(callback, CallbackProgress):
            return None
        if isinstance(callback, CallbackInputRequired):
            raise e.ResultAlreadyGivenError
        if matches_result(call, await load_tool(tx, vault, state, call), callback):
            return None
        raise e.ResultAlreadyGivenError
    body = dump_answer(callback)
    await views.store_late_callback(tx, state.project_id, state.id, call.id, body, mint())
    return LateCallback()


async def cancel(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    *,
    after_turn: bool,
    reason: CallReason = CallReason.RUN_CANCELLED,
    actor: AuditActor | None = None,
) -> Closed:
    """Cancel the run and its child runs, so that nothing new starts in them. `after_turn`: if a
    worker executes the run, let it finish its turn first. `reason`: the reason of its open calls.
    `actor`: the one for whom the audit log records it. A repeated cancellation has no effect.
    Raises RunEndedError if the run has ended with another status."""
    below = await _lock_tree(tx, project_id, run_id)
    status, state = await lock_run(tx, project_id, run_id)
    if status is RunStatus.CANCELLED:
        return Closed()
    if status in TERMINAL:
        raise e.RunEndedError(f"This run has already ended with status {status}.")
    works = status is RunStatus.IN_PROGRESS or (status is RunStatus.QUEUED and below)
    if after_turn and works:
        await queries.change_run(tx, state, Changes(), cancel_requested=True)
        await _record_cancellation(tx, project_id, run_id, actor)
        return Closed()
    closed = [await _cancel_one(tx, project_id, child) for child in reversed(below)]
    own = await end_run(tx, state, reason, Move.CANCEL, void_lease=True)
    await _record_cancellation(tx, project_id, run_id, actor)
    return merge_closed([*(one for one in closed if one), own])


async def _record_cancellation(
    tx: Tx, project_id: ProjectId, run_id: RunId, actor: AuditActor | None
) -> None:
    if actor is not None:
        change = AuditChange(
            AuditAction.RUN_CANCELLED, format_id(Prefix.RUN, run_id), run_id=run_id
        )
        await audit.append(tx, project_id, actor, change)


async def cancel_descendants(tx: Tx, project_id: ProjectId, run_id: RunId) -> Closed | None:
    """Cancel the open child runs of a run that has ended. Returns None if there are none."""
    below = await _lock_tree(tx, project_id, run_id)
    closed = [await _cancel_one(tx, project_id, child) for child in reversed(below)]
    return merge_closed(one for one in closed if one) if any(closed) else None


async def _lock_tree(tx: Tx, project_id: ProjectId, run_id: RunId) -> list[RunId]:
    """Lock this run and the open runs below it, and return the latter, older ones first. While all
    are locked, none of them can start another run. One statement locks all of them in the order of
    their IDs, like all other functions. A child's ID may be lower than its parent's, because clocks
    of processes differ."""
    while True:
        below = await queries.list_open_descendants(tx, project_id, run_id)
        async with tx.begin_nested() as locks:
            await queries.lock_runs(tx, project_id, run_id, *below)
            found = await queries.list_open_descendants(tx, project_id, run_id)
            if set(found) <= set(below):
                return found
            # A child run was started. Its ID may be lower than its parent's.
            await locks.rollback()


async def _cancel_one(tx: Tx, project_id: ProjectId, run_id: RunId) -> Closed | None:
    found = await queries.load(tx, project_id, run_id)
    if found is None or found[0] in TERMINAL:
        return None
    return await end_run(tx, found[1], CallReason.RUN_CANCELLED, Move.CANCEL, void_lease=True)


async def add_input(tx: Tx, project_id: ProjectId, run_id: RunId, messages: Sequence[Item]) -> None:
    """Add messages to an open run. The model reads them in its next turn, after all calls of the
    current turn have results. Raises AppErrors."""
    _, state = await lock_open_run(tx, project_id, run_id)
    if state.lineage is not None:
        raise e.ConflictError(
            "A child run does not accept messages. Send the message to its parent run."
        )
    if state.last_seq >= MAX_PER_RUN:
        raise e.TooManyRequestsError("This run has reached its maximum number of events.")
    check_room(messages, stored=state.stored_bytes)
    changes = Changes()
    changes.segments.append(Segment(SegmentKind.INPUT, state.turn, state.agent, tuple(messages)))
    changes.add(InputReceivedEvent({"turn": state.turn, "messages": len(messages)}))
    await queries.change_run(tx, state, changes)


async def expire_approval(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> Closed | None:
    """Reject the call whose approval has expired, or cancel an approval for which no call waits any
    more. Returns None if the approval is already closed or has not expired."""
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None:
        return None
    status, state = await lock_run(tx, project_id, asked.run_id)
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None or asked.status is not ApprovalStatus.PENDING:
        return None
    if decisions.is_abandoned(asked, state):
        await approvals.cancel(tx, project_id, approval_id)
        return Closed()
    if not asked.expired:
        return None
    changes = Changes()
    rules.expire(state, changes, state.calls[CallId(asked.call_id)])
    await resume_run(tx, status, state, changes)
    return Closed()


async def expire_callback(
    tx: Tx, vault: Vault, project_id: ProjectId, run_id: RunId, call_id: CallId
) -> Closed | None:
    """Time out a call that waits for a callback or for the result of a client tool. Returns None if
    the call no longer waits or is not overdue."""
    status, state = await lock_run(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None or call.phase not in _TIMEOUT_MESSAGES or call.received is not None:
        return None
    if not await sweep.is_overdue(tx, project_id, run_id, call_id):
        return None  # The call was sent again.
    tool = await load_tool(tx, vault, state, call)
    changes = Changes()
    verdict = classify_timeout(tool.spec, call, _TIMEOUT_MESSAGES[call.phase])
    conclude(state, changes, call, verdict)
    await resume_run(tx, status, state, changes)
    return Closed(find_abandoned(state, changes))


async def expire_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> Closed | None:
    """End a run whose deadline passed while it was queued or waiting. Returns None if the run is
    not overdue or in another status."""
    status, state = await lock_run(tx, project_id, run_id)
    overdue = state.seconds_left is not None and state.seconds_left <= 0
    if not overdue or status not in MOVES[Move.EXPIRE].sources:
        return None
    details: IncompleteDetails = {"reason": "deadline", "message": _DEADLINE_MESSAGE}
    return await end_run(tx, state, CallReason.RUN_ENDED, Move.EXPIRE, incomplete=details)


async def quarantine(tx: Tx, project_id: ProjectId, run_id: RunId) -> Closed | None:
    """End a run that was claimed too often without progress, because it crashes its workers.
    Returns None if a claim was reverted or the run made progress after the sweep found it."""
    status, state = await lock_run(tx, project_id, run_id)
    if status is not RunStatus.QUEUED or not await sweep.is_crash_loop(tx, project_id, run_id):
        return None
    message = (
        f"Runward stopped this run because it made no progress: {queue.MAX_CLAIMS} "
        "workers stopped while they executed it, or workers lost its lease "
        f"{queue.MAX_LOST_LEASES} times."
    )
    error: RunError = {"code": RunErrorCode.CRASH_LOOP, "message": message}
    closed = await end_run(tx, state, CallReason.RUN_ENDED, Move.FAIL, error=error)
    QUARANTINED_RUNS.count("crash_loop")
    return closed
