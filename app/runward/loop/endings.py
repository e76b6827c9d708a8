"""How a claim of a run ends, in the words of the store and of the event log."""

from collections.abc import Mapping
from typing import Final

from runward.domain.events.base import MAX_VALUE_BYTES
from runward.domain.events.kinds import RunWaitingEvent
from runward.domain.events.run_data import ErrorSaid, LimitSaid, RunEndedData
from runward.domain.events.values import Reason
from runward.domain.run.bounds import truncate
from runward.domain.run.calls import CallPhase
from runward.domain.run.decide import Finish, Park
from runward.domain.run.open_calls import close_open_calls, describe_waiting_call
from runward.domain.run.state import Changes, RunState
from runward.domain.run.status import RUN_ENDINGS, Move, RunStatus
from runward.store.runs.gate import Ending

_MOVES: Final[Mapping[RunStatus, Move]] = {
    RunStatus.COMPLETED: Move.COMPLETE,
    RunStatus.FAILED: Move.FAIL,
    RunStatus.INCOMPLETE: Move.STOP,
    RunStatus.CANCELLED: Move.CANCEL,
}


def park(state: RunState, changes: Changes, action: Park) -> Ending:
    """Add `run.waiting`, which names what is waited for. A run that goes on without a person is
    deferred instead: while child runs are at work, or if every call waits for its callback."""
    phases = {state.calls[one].phase for one in action.waiting}
    if CallPhase.AWAITING_CHILD in phases or phases == {CallPhase.AWAITING_CALLBACK}:
        return Ending(Move.DEFER)
    waiting_for = [describe_waiting_call(state.calls[call_id]) for call_id in action.waiting]
    changes.add(RunWaitingEvent({"waiting_for": waiting_for}))
    return Ending(Move.PARK)


def finish(state: RunState, changes: Changes, action: Finish) -> Ending:
    """Settles what is open and adds the run's last event."""
    results = (call.result for call in state.calls.values())
    escalated = any(result.escalate for result in results if result is not None)
    cancelled = action.status is RunStatus.CANCELLED
    close_open_calls(state, changes, Reason.RUN_CANCELLED if cancelled else Reason.RUN_ENDED)
    failed = action.status is RunStatus.FAILED
    shown, full = truncate(action.output, MAX_VALUE_BYTES)
    data: RunEndedData = {"output": shown}
    if full is not None:
        data["truncated"] = True
    error: ErrorSaid | None = None
    incomplete: LimitSaid | None = None
    if action.code is not None and failed:
        error = data["error"] = {"code": action.code, "message": action.message}
    elif action.code is not None:
        incomplete = {"reason": action.code, "message": action.message}
        data["incomplete_details"] = incomplete
    changes.add(RUN_ENDINGS[action.status](data))
    return Ending(
        _MOVES[action.status],
        output=action.output,
        parsed=action.parsed,
        error=error,
        incomplete_details=incomplete,
        refused_stage=action.refused,
        escalated=state.config.kind != "loop" and escalated,
    )
