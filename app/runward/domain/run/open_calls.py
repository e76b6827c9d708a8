"""Open calls: why they wait, and their results if a worker is lost or the run ends."""

from collections.abc import Callable
from typing import Final

from runward.domain.events.run_data import RunWaitingCall
from runward.domain.events.values import CallReason
from runward.domain.ids import Prefix, format_id
from runward.domain.run import texts
from runward.domain.run.failures import AwaitResolution, classify_unknown_outcome
from runward.domain.run.settle import conclude, put_back, settle
from runward.domain.run.state import Call, CallOutcome, CallPhase, Changes, Result, RunState
from runward.domain.run.tools import CompiledTool

_REPEATABLE_TYPES: Final = frozenset({"agent", "builtin", "client", "hosted"})
"""Types of tools whose attempts have no effect before they are committed, so that a call can be
repeated. The provider runs a hosted tool only after the commit."""


def recover(
    state: RunState, changes: Changes, find_tool: Callable[[Call], CompiledTool | None]
) -> RunState:
    """Recover calls that were in flight when their worker was lost. An idempotent call becomes
    ready again. Any other call may have taken effect and is not repeated."""
    for call in state.open_calls:
        if call.phase is not CallPhase.STARTED or call.fence == state.fence:
            continue
        tool = find_tool(call)
        if tool is not None and (tool.spec.idempotent or tool.spec.type in _REPEATABLE_TYPES):
            state = put_back(state, changes, call)
        else:
            detail = "The worker stopped while the tool call was in progress."
            verdict = (
                classify_unknown_outcome(tool.spec, detail) if tool else AwaitResolution(detail)
            )
            state = conclude(state, changes, call, verdict)
    return state


_ENDINGS: Final = {
    CallReason.RUN_CANCELLED: texts.CANCELLED,
    CallReason.RETURNED_TO_CLIENT: texts.RETURNED_TO_CLIENT,
}


def close_open_calls(state: RunState, changes: Changes, reason: CallReason) -> RunState:
    """Close all open calls of a run that ends. Each call gets a result that states what happened,
    and each pending approval is cancelled."""
    text = _ENDINGS.get(reason, texts.RUN_ENDED)
    for call in state.open_calls:
        sent = call.attempt > 0
        if call.approval_id is not None and call.phase is CallPhase.AWAITING_APPROVAL:
            changes.closed_approvals[call.approval_id] = "cancelled"
        result = Result(
            CallOutcome.CANCELLED,
            f"{text} {texts.UNKNOWN_OUTCOME}" if sent else text,
            reason,
            detail="The tool call may have been sent." if sent else None,
        )
        state = settle(state, changes, call, result)
    return state


def describe_waiting_call(call: Call) -> RunWaitingCall:
    """Return an entry of `waiting_for`, in a `run.waiting` event."""
    match call.phase:
        case CallPhase.AWAITING_APPROVAL:
            assert call.approval_id is not None
            approval_id = format_id(Prefix.APPROVAL, call.approval_id)
            return {
                "type": "approval",
                "approval_id": approval_id,
                "call_id": call.id,
                "tool": call.tool,
            }
        case CallPhase.AWAITING_CALLBACK:
            return {"type": "callback", "call_id": call.id, "tool": call.tool}
        case CallPhase.AWAITING_RESULT | CallPhase.AWAITING_INPUT:
            return {"type": "tool_result", "call_id": call.id, "tool": call.tool}
        case CallPhase.AWAITING_CHILD:
            assert call.child_run_id is not None
            run_id = format_id(Prefix.RUN, call.child_run_id)
            return {
                "type": "child_run",
                "call_id": call.id,
                "tool": call.tool,
                "run_id": run_id,
            }
        case _:
            return {"type": "resolve", "call_id": call.id, "tool": call.tool}
