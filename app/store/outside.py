"""What others than the lease's holder do to a run: decide, resolve, call back, cancel, expire.

Each locks the run, decides in the domain under that lock, and writes once. The run moves on by
itself: where it waited, it is queued in the same transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.domain import approvals as rules
from app.domain import errors as e
from app.domain.approvals import ApprovalStatus, Approve, Decision, Edit, Reject
from app.domain.calls import Call, CallOutcome, CallPhase, Reason
from app.domain.errors import FieldError
from app.domain.events import MAX_PER_RUN
from app.domain.ids import ApprovalId, CallId, Prefix, ProjectId, RunId, show
from app.domain.items import Item
from app.domain.json import JsonObject, same
from app.domain.resolve import (
    Callback,
    Progress,
    Resolution,
    call_back,
    checks_results,
    keep,
    resolve,
    says_the_same,
)
from app.domain.run import MOVES, TERMINAL, Move, RunStatus, ending_event
from app.domain.settle import close_open_calls, conclude, timed_out
from app.domain.state import Changes, RunState, Segment, SegmentKind
from app.domain.toolbox import Tool, compile_tool
from app.store import approvals, codec, family, registry, runs, sweep, views
from app.store.approvals import Approval
from app.store.callback_tokens import CallRef
from app.store.db import Tx
from app.store.ids import mint
from app.store.vault import Vault

_GONE: Final = "The deadline passed while the run waited."


async def decide(
    tx: Tx, vault: Vault, project_id: ProjectId, approval_id: ApprovalId, what: Decision, by: str
) -> Approval:
    """Exactly one decision wins; the same again is answered like the first. Raises AppErrors."""
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None:
        raise e.ApprovalNotFoundError
    status, state = await _locked(tx, project_id, asked.run_id)
    asked = await approvals.get(tx, project_id, approval_id)
    assert asked is not None
    if asked.status is not ApprovalStatus.PENDING or asked.expired:
        return _second(asked, what)
    if what.digest is not None and what.digest != asked.digest:
        raise e.DigestMismatchError
    if what.decision not in asked.allowed_decisions:
        raise e.DecisionNotAllowedError
    _check_remember(what, state)
    call = state.calls[CallId(asked.call_id)]
    tool = await _tool_of(tx, vault, state, call)
    if isinstance(what, Edit) and (problems := tool.arguments.problems(what.arguments)):
        raise e.InvalidRequestError(
            errors=[FieldError(problem.path, problem.message) for problem in problems]
        )
    changes = Changes()
    _, decided = rules.decide(state, changes, call, tool, what, by)
    if isinstance(what, Approve | Reject) and what.remember is not None:
        remembered = rules.remembered(what, call, state.agent)
        session = state.place.session_id if state.place else None
        await approvals.remember(tx, project_id, state.id, remembered, what.remember, session)
    closed = approvals.closed_rows(state.id, decided, by)
    await _go_on(tx, status, state, changes, closed=closed)
    after = await approvals.get(tx, project_id, approval_id)
    assert after is not None
    return after


def _check_remember(what: Decision, state: RunState) -> None:
    """Only a run that has a place in a session can have something remembered for it: a child run
    passes nothing on."""
    remember = what.remember if isinstance(what, Approve | Reject) else None
    if remember is None or remember.scope == "run":
        return
    if state.place is None or state.place.number is None:
        raise e.InvalidRequestError(
            errors=[FieldError("remember.scope", "must be run: this run belongs to no session")]
        )


def _second(asked: Approval, what: Decision) -> Approval:
    """The one that won, where it was the same; else the error that names it."""
    again = rules.as_kept(what)
    if asked.decision is not None and same(asked.decision, again):
        return asked
    status = asked.status if asked.status is not ApprovalStatus.PENDING else ApprovalStatus.EXPIRED
    won: JsonObject = {
        "id": show(Prefix.APPROVAL, asked.id),
        "status": status,
        "decision": asked.decision,
        "decided_by": asked.decided_by,
    }
    raise e.ApprovalAlreadyDecidedError(
        f"This approval is {status} already.", extra={"approval": won}
    )


async def resolve_call(
    tx: Tx, vault: Vault, project_id: ProjectId, run_id: RunId, call_id: CallId, how: Resolution
) -> None:
    """Settle a call whose outcome nobody knows. Raises AppErrors."""
    status, state = await _locked(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None:
        raise e.CallNotFoundError
    if call.phase is not CallPhase.AWAITING_RESOLUTION:
        raise e.CallNotWaitingError
    changes = Changes()
    resolve(state, changes, call, await _tool_of(tx, vault, state, call), how)
    if not changes.events:
        changes.add("tool_call.progress", call_id=call.id, status="retried_by_person")
    await _go_on(tx, status, state, changes)


@dataclass(frozen=True, slots=True)
class Late:
    """The call has ended without this answer; it was kept, and changes nothing."""


@dataclass(frozen=True, slots=True)
class TooEarly:
    """The tool calls back before its 202 has arrived: ask again in a moment."""


async def take_callback(
    tx: Tx, vault: Vault, ref: CallRef, said: Callback, *, checked: bool = False
) -> Late | TooEarly | None:
    """The first result wins, the same again is fine, another is a conflict. `checked`: the
    project has guardrails or hooks that see results; then, or where the run's own agent or tool
    has some, the answer is only kept, for the loop to show it to them. Raises AppErrors."""
    try:
        status, state = await _locked(tx, ref.project_id, ref.run_id)
    except e.RunNotFoundError:
        raise e.CallbackNotFoundError from None
    call = next((call for call in state.calls.values() if call.uuid == ref.call), None)
    if call is None:
        raise e.CallbackNotFoundError
    if call.phase is CallPhase.STARTED:
        return TooEarly()
    if call.phase is not CallPhase.AWAITING_CALLBACK:
        return await _late(tx, vault, state, call, said)
    if call.received is not None:
        return _again(call.received, said)
    tool = await _tool_of(tx, vault, state, call)
    await _take(tx, status, state, call, tool, said, checked=checked)
    return None


async def _take(
    tx: Tx,
    status: RunStatus,
    state: RunState,
    call: Call,
    tool: Tool,
    said: Callback,
    *,
    checked: bool,
) -> None:
    if isinstance(said, Progress) and state.last_seq >= MAX_PER_RUN:
        raise e.TooManyRequestsError("This run has as many events as it may.")
    changes = Changes()
    if not isinstance(said, Progress) and (checked or checks_results(state, tool)):
        keep(changes, call, said)
    else:
        call_back(state, changes, call, tool, said)
    if isinstance(said, Progress):
        await runs.change(tx, state, changes)
    else:
        await _go_on(tx, status, state, changes)


def _again(received: JsonObject, said: Callback) -> None:
    """An answer is here already."""
    if not isinstance(said, Progress) and not same(received, said.model_dump(mode="json")):
        raise e.ResultAlreadyGivenError


async def _late(tx: Tx, vault: Vault, state: RunState, call: Call, said: Callback) -> Late | None:
    if call.result is not None and call.result.outcome in (
        CallOutcome.COMPLETED,
        CallOutcome.FAILED,
    ):
        if isinstance(said, Progress):
            return None
        if says_the_same(call, await _tool_of(tx, vault, state, call), said):
            return None
        raise e.ResultAlreadyGivenError
    body = said.model_dump(mode="json")
    await views.keep_late_callback(tx, state.project_id, state.id, call.id, body, mint())
    return Late()


async def cancel(tx: Tx, project_id: ProjectId, run_id: RunId, *, after_turn: bool) -> None:
    """After this nothing new starts, in this run or below it. A run that is worked on ends with
    its turn, if so asked. Cancelling twice is fine; raises RunEndedError where it has ended
    otherwise."""
    below = await _lock_tree(tx, project_id, run_id)
    status, state = await _locked(tx, project_id, run_id)
    if status is RunStatus.CANCELLED:
        return
    if status in TERMINAL:
        raise e.RunEndedError(f"This run is {status} already.")
    works = status is RunStatus.IN_PROGRESS or (status is RunStatus.QUEUED and below)
    if after_turn and works:
        await runs.change(tx, state, Changes(), cancel_requested=True)
        return
    for child in reversed(below):
        await _cancel_one(tx, project_id, child)
    await _end(tx, state, Reason.RUN_CANCELLED, Move.CANCEL, void_lease=True)


async def cancel_below(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """The run has ended: nobody waits for its child runs any more. True: there were some."""
    below = await _lock_tree(tx, project_id, run_id)
    return any([await _cancel_one(tx, project_id, child) for child in reversed(below)])


async def _lock_tree(tx: Tx, project_id: ProjectId, run_id: RunId) -> list[RunId]:
    """The open runs below this one, the older first; they and this one are locked. While all of
    them are, none can start another."""
    below: list[RunId] = []
    while True:
        await runs.lock_all(tx, project_id, run_id, *below)
        found = await runs.open_below(tx, project_id, run_id)
        if set(found) <= set(below):
            return found
        below = found


async def _cancel_one(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    found = await runs.load(tx, project_id, run_id)
    if found is None or found[0] in TERMINAL:
        return False
    await _end(tx, found[1], Reason.RUN_CANCELLED, Move.CANCEL, void_lease=True)
    return True


async def add_input(tx: Tx, project_id: ProjectId, run_id: RunId, messages: Sequence[Item]) -> None:
    """Another message for an open run; the model sees it with its next turn. It waits as long as
    calls of the turn before have no result. Raises AppErrors."""
    _, state = await _locked_open(tx, project_id, run_id)
    if state.lineage is not None:
        raise e.ConflictError("A child run takes no messages; send them to the run above it.")
    if state.last_seq >= MAX_PER_RUN:
        raise e.TooManyRequestsError("This run has as many events as it may.")
    changes = Changes()
    segment = Segment(SegmentKind.INPUT, state.turn, state.agent, tuple(messages))
    changes.segments.append(segment)
    changes.add("input.received", turn=state.turn, messages=len(messages))
    await runs.change(tx, state, changes)


# What time does. Each gives False where somebody else was faster.


async def expire_approval(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> bool:
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None:
        return False
    status, state = await _locked(tx, project_id, asked.run_id)
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None or asked.status is not ApprovalStatus.PENDING or not asked.expired:
        return False
    changes = Changes()
    rules.expire(state, changes, state.calls[CallId(asked.call_id)])
    await _go_on(tx, status, state, changes)
    return True


async def expire_callback(
    tx: Tx, vault: Vault, project_id: ProjectId, run_id: RunId, call_id: CallId
) -> bool:
    """A call that was accepted with 202 and whose time has passed."""
    status, state = await _locked(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None or call.phase is not CallPhase.AWAITING_CALLBACK or call.received is not None:
        return False
    if not await sweep.is_overdue(tx, project_id, run_id, call_id):
        return False  # a person had it sent again
    tool = await _tool_of(tx, vault, state, call)
    changes = Changes()
    verdict = timed_out(tool.spec, call, "No callback came in time.")
    conclude(state, changes, call, verdict)
    await _go_on(tx, status, state, changes)
    return True


async def expire_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """A run whose deadline has passed while it was queued or waited."""
    status, state = await _locked(tx, project_id, run_id)
    if status not in MOVES[Move.EXPIRE].sources:
        return False
    if state.seconds_left is None or state.seconds_left > 0:
        return False
    details: JsonObject = {"reason": "deadline", "message": _GONE}
    await _end(tx, state, Reason.RUN_ENDED, Move.EXPIRE, incomplete=details)
    return True


async def quarantine(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """A run that was claimed too often without progress takes its workers down: it ends here."""
    status, state = await _locked(tx, project_id, run_id)
    if status is not RunStatus.QUEUED:
        return False
    error: JsonObject = {
        "code": "crash_loop",
        "message": f"The run was claimed {runs.MAX_CLAIMS} times without making progress.",
    }
    await _end(tx, state, Reason.RUN_ENDED, Move.FAIL, error=error)
    return True


async def _end(
    tx: Tx,
    state: RunState,
    reason: Reason,
    move: Move,
    *,
    error: JsonObject | None = None,
    incomplete: JsonObject | None = None,
    void_lease: bool = False,
) -> None:
    """Settle what is open, add the last event, and let those go on who waited for the run."""
    changes = Changes()
    state = close_open_calls(state, changes, reason)
    told = {"error": error, "incomplete_details": incomplete}
    data = {key: value for key, value in told.items() if value is not None}
    changes.add(ending_event(MOVES[move].target), **data)
    await runs.change(
        tx, state, changes, move=move, error=error, incomplete=incomplete, void_lease=void_lease
    )
    await family.ended(tx, state.project_id, state.lineage)
    if state.place is not None:
        kept = codec.kept_of(state, None)
        await family.leave(tx, state.project_id, state.id, state.place, kept)


async def _go_on(
    tx: Tx,
    status: RunStatus,
    state: RunState,
    changes: Changes,
    *,
    closed: Sequence[dict[str, Any]] = (),
) -> None:
    """Somebody settled what the run waited for: it is queued, and nothing above it is idle."""
    wakes = Move.WAKE if status in MOVES[Move.WAKE].sources else None
    await runs.change(tx, state, changes, move=wakes, closed=closed)
    if wakes is not None and state.lineage is not None:
        await family.rouse(tx, state.project_id, state.lineage.ancestors)


async def _locked_open(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState]:
    status, state = await _locked(tx, project_id, run_id)
    if status in TERMINAL:
        raise e.RunEndedError(f"This run is {status} already.")
    return status, state


async def _locked(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState]:
    found = await runs.lock(tx, project_id, run_id)
    if found is None:
        raise e.RunNotFoundError
    return found


async def _tool_of(tx: Tx, vault: Vault, state: RunState, call: Call) -> Tool:
    """The version that the call was made for. It exists: versions are never deleted."""
    assert call.version is not None
    wanted = [(call.tool, call.version)]
    [found] = await registry.read_versions(tx, vault, state.project_id, wanted)
    return compile_tool(found.spec, found.version)
