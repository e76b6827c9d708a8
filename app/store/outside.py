"""What others than the lease's holder do to a run: decide, resolve, call back, cancel, expire.

Each locks the run, decides in the domain under that lock, and writes once. The run moves on by
itself: where it waited, it is queued in the same transaction.
"""

from dataclasses import dataclass
from typing import Final

from app.domain import approvals as rules
from app.domain import errors as e
from app.domain.approvals import ApprovalStatus, Approve, Decision, Edit, Reject
from app.domain.calls import Call, CallOutcome, CallPhase, Reason
from app.domain.errors import FieldError
from app.domain.events import MAX_PER_RUN
from app.domain.ids import ApprovalId, CallId, Prefix, ProjectId, RunId, show
from app.domain.json import JsonObject, same
from app.domain.resolve import (
    Callback,
    Progress,
    Resolution,
    call_back,
    resolve,
    says_the_same,
)
from app.domain.run import MOVES, TERMINAL, Move, RunStatus, ending_event
from app.domain.settle import close_open_calls, conclude, timed_out
from app.domain.state import Changes, RunState
from app.domain.toolbox import Tool, compile_tool
from app.store import approvals, registry, runs, sweep, views
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
    _check_remember(what)
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
        await approvals.remember(tx, project_id, state.id, remembered, what.remember)
    closed = approvals.closed_rows(state.id, decided, by)
    await runs.change(tx, state, changes, move=_wake(status), closed=closed)
    after = await approvals.get(tx, project_id, approval_id)
    assert after is not None
    return after


def _check_remember(what: Decision) -> None:
    """There are no sessions in this version, so nothing can be remembered for one."""
    if isinstance(what, Approve | Reject) and what.remember and what.remember.scope == "session":
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
    await runs.change(tx, state, changes, move=_wake(status))


@dataclass(frozen=True, slots=True)
class Late:
    """The call has ended without this answer; it was kept, and changes nothing."""


@dataclass(frozen=True, slots=True)
class TooEarly:
    """The tool calls back before its 202 has arrived: ask again in a moment."""


async def take_callback(
    tx: Tx, vault: Vault, ref: CallRef, said: Callback
) -> Late | TooEarly | None:
    """The first result wins, the same again is fine, another is a conflict. Raises AppErrors."""
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
    if isinstance(said, Progress) and state.last_seq >= MAX_PER_RUN:
        raise e.TooManyRequestsError("This run has as many events as it may.")
    changes = Changes()
    call_back(state, changes, call, await _tool_of(tx, vault, state, call), said)
    done = not isinstance(said, Progress)
    await runs.change(tx, state, changes, move=_wake(status) if done else None)
    return None


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
    """After this nothing new starts. A run that somebody is working on ends with its turn, if
    so asked. Cancelling twice is fine; raises RunEndedError where it has ended otherwise."""
    status, state = await _locked(tx, project_id, run_id)
    if status is RunStatus.CANCELLED:
        return
    if status in TERMINAL:
        raise e.RunEndedError(f"This run is {status} already.")
    changes = Changes()
    if after_turn and status is RunStatus.IN_PROGRESS:
        await runs.change(tx, state, changes, cancel_requested=True)
        return
    close_open_calls(state, changes, Reason.RUN_CANCELLED)
    changes.add(ending_event(RunStatus.CANCELLED))
    await runs.change(tx, state, changes, move=Move.CANCEL, void_lease=True)


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
    await runs.change(tx, state, changes, move=_wake(status))
    return True


async def expire_callback(
    tx: Tx, vault: Vault, project_id: ProjectId, run_id: RunId, call_id: CallId
) -> bool:
    """A call that was accepted with 202 and whose time has passed."""
    status, state = await _locked(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None or call.phase is not CallPhase.AWAITING_CALLBACK:
        return False
    if not await sweep.is_overdue(tx, project_id, run_id, call_id):
        return False  # a person had it sent again
    tool = await _tool_of(tx, vault, state, call)
    changes = Changes()
    verdict = timed_out(tool.spec, call, "No callback came in time.")
    conclude(state, changes, call, verdict)
    await runs.change(tx, state, changes, move=_wake(status))
    return True


async def expire_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """A run whose deadline has passed while it was queued or waited."""
    status, state = await _locked(tx, project_id, run_id)
    if status not in MOVES[Move.EXPIRE].sources:
        return False
    if state.seconds_left is None or state.seconds_left > 0:
        return False
    changes = Changes()
    close_open_calls(state, changes, Reason.RUN_ENDED)
    details: JsonObject = {"reason": "deadline", "message": _GONE}
    changes.add(ending_event(RunStatus.EXPIRED), incomplete_details=details)
    await runs.change(tx, state, changes, move=Move.EXPIRE, incomplete=details)
    return True


async def quarantine(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """A run that was claimed too often without progress takes its workers down: it ends here."""
    status, state = await _locked(tx, project_id, run_id)
    if status is not RunStatus.QUEUED:
        return False
    changes = Changes()
    close_open_calls(state, changes, Reason.RUN_ENDED)
    error: JsonObject = {
        "code": "crash_loop",
        "message": f"The run was claimed {runs.MAX_CLAIMS} times without making progress.",
    }
    changes.add(ending_event(RunStatus.FAILED), error=error)
    await runs.change(tx, state, changes, move=Move.FAIL, error=error)
    return True


async def _locked(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState]:
    found = await runs.lock(tx, project_id, run_id)
    if found is None:
        raise e.RunNotFoundError
    return found


def _wake(status: RunStatus) -> Move | None:
    return Move.WAKE if status in MOVES[Move.WAKE].sources else None


async def _tool_of(tx: Tx, vault: Vault, state: RunState, call: Call) -> Tool:
    """The version that the call was made for. It exists: versions are never deleted."""
    assert call.version is not None
    wanted = [(call.tool, call.version)]
    [found] = await registry.read_versions(tx, vault, state.project_id, wanted)
    return compile_tool(found.spec, found.version)
