"""Approvals: when a call requires one, and the effects of its decision."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never
from uuid import UUID

from runward.domain.events.base import bounded_field
from runward.domain.events.call_data import ApprovalDecidedData
from runward.domain.events.kinds import ToolCallApprovalDecidedEvent, ToolCallApprovalRequestedEvent
from runward.domain.events.values import ApprovalStatus, CallReason
from runward.domain.ids import ApprovalId, Prefix, format_id
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject
from runward.domain.registry.tools import EXCEED_BUDGET
from runward.domain.run import texts
from runward.domain.run.decisions import (
    STATUS_AFTER,
    ApproveDecision,
    Decision,
    EditDecision,
    RejectDecision,
    RespondDecision,
    encode_decision,
)
from runward.domain.run.remembered_decisions import (
    covers,
    find_remembered_decision,
    remember_decision,
)
from runward.domain.run.settle import make_completed_result, settle
from runward.domain.run.state import (
    ALL_DECISIONS,
    APPROVE_OR_REJECT,
    ApprovalRequest,
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    compute_call_digest,
)
from runward.domain.run.tools import CompiledTool


@immutable
class DecisionRecord:
    """The decision of an approval. It is stored with the approval, so that a second decision can be
    compared with it."""

    approval_id: ApprovalId
    status: ApprovalStatus
    decision: JsonObject
    call: Call


def require_approval(
    state: RunState, changes: Changes, call: Call, tool: CompiledTool, mint: Callable[[], UUID]
) -> RunState:
    """Request an approval, unless a remembered decision covers the call or an identical call was
    declined earlier in the run."""
    if _was_declined_before(state, call):
        text = texts.DECLINED_BEFORE
        declined = Result(CallOutcome.REJECTED, text, CallReason.DECLINED_BEFORE)
        return settle(state, changes, call, declined)
    remembered = find_remembered_decision(state.remembered, call, state.agent)
    if remembered is not None and remembered.decision == "reject":
        text = remembered.message or tool.spec.reject_message or texts.NOT_APPROVED
        return settle(state, changes, call, Result(CallOutcome.REJECTED, text, CallReason.DECLINED))
    if remembered is not None:
        changes.add(
            ToolCallApprovalDecidedEvent(
                {"call_id": call.id, "decision": "approve", "remembered": True}
            )
        )
        call = replace(call, phase=CallPhase.READY, approved_digest=call.digest)
        changes.put_call(call)
        return state.with_call(call)
    approval_id = ApprovalId(mint())
    call = replace(call, phase=CallPhase.AWAITING_APPROVAL, approval_id=approval_id)
    changes.put_call(call)
    changes.approvals.append(
        ApprovalRequest(
            approval_id,
            call,
            state.agent,
            tool.spec.url,
            tool.spec.approval_expires_seconds,
            allowed_decisions=APPROVE_OR_REJECT
            if tool.spec.hosted is not None or tool.name == EXCEED_BUDGET
            else ALL_DECISIONS,
        )
    )
    changes.add(
        ToolCallApprovalRequestedEvent(
            {
                "approval_id": format_id(Prefix.APPROVAL, approval_id),
                "call_id": call.id,
                "tool": call.tool,
                "tool_version": tool.version,
                **bounded_field("arguments", call.arguments),
                "digest": call.digest,
                "expires_in_seconds": tool.spec.approval_expires_seconds,
            }
        )
    )
    return state.with_call(call)


def _was_declined_before(state: RunState, call: Call) -> bool:
    return any(
        other.digest == call.digest
        and other.result is not None
        and other.result.reason in (CallReason.DECLINED, CallReason.DECLINED_BEFORE)
        for other in state.calls.values()
    )


def decide(
    state: RunState,
    changes: Changes,
    call: Call,
    tool: CompiledTool | None,
    decision: Decision,
    approver: str,
    *,
    expired_ids: Collection[ApprovalId] = (),
) -> tuple[RunState, list[DecisionRecord]]:
    """Apply a decision to `call`, and return all decided approvals. With `remember`, the decision
    also covers the pending calls of the same kind, except those whose approvals have
    `expired_ids`. `tool`: the tool of the call. An ApproveDecision needs none."""
    state, first = _decide_call(state, changes, call, tool, decision, approver)
    decided = [first]
    if isinstance(decision, ApproveDecision | RejectDecision) and decision.remember is not None:
        memory = remember_decision(decision, call, state.agent)
        for other in state.open_calls:
            waits = (
                other.phase is CallPhase.AWAITING_APPROVAL and other.approval_id not in expired_ids
            )
            if waits and covers(memory, other):
                state, one = _decide_call(state, changes, other, tool, decision, approver)
                decided.append(one)
    return state, decided


def _decide_call(
    state: RunState,
    changes: Changes,
    call: Call,
    tool: CompiledTool | None,
    decision: Decision,
    approver: str,
) -> tuple[RunState, DecisionRecord]:
    assert call.approval_id is not None
    status = STATUS_AFTER[decision.decision]
    body: JsonObject = encode_decision(decision)
    event: ApprovalDecidedData = {
        "approval_id": format_id(Prefix.APPROVAL, call.approval_id),
        "call_id": call.id,
        "tool": call.tool,
        "decision": decision.decision,
        "status": status,
        "decided_by": approver,
    }
    if isinstance(decision, EditDecision | RejectDecision) and decision.message:
        event["message"] = decision.message
    match decision:
        case ApproveDecision():
            call = replace(call, phase=CallPhase.READY, approved_digest=call.digest)
        case EditDecision():
            assert tool is not None
            arguments = tool.arguments.without_nulls(decision.arguments)
            new_digest = _compute_digest(call, tool, arguments)
            call = replace(
                call,
                phase=CallPhase.READY,
                original=call.requested_arguments,
                arguments=arguments,
                digest=new_digest,
                approved_digest=new_digest,
            )
            event = {**event, **bounded_field("arguments", arguments), "digest": new_digest}
        case RejectDecision() | RespondDecision():
            pass
        case _:
            assert_never(decision)
    changes.add(ToolCallApprovalDecidedEvent(event))
    changes.put_call(call)
    state = state.with_call(call)
    if isinstance(decision, RejectDecision | RespondDecision):
        assert tool is not None
        state = settle(state, changes, call, _make_result(decision, tool))
    elif call.tool == EXCEED_BUDGET:
        state = settle(state, changes, call, Result(CallOutcome.COMPLETED, "approved"))
    assert call.approval_id is not None
    return state, DecisionRecord(call.approval_id, status, body, state.calls[call.id])


def _make_result(decision: RejectDecision | RespondDecision, tool: CompiledTool) -> Result:
    """Return the result of a call that is not sent."""
    if isinstance(decision, RejectDecision):
        text = decision.message or tool.spec.reject_message or texts.NOT_APPROVED
        return Result(CallOutcome.REJECTED, text, CallReason.DECLINED)
    completed = make_completed_result(decision.output, tool.spec.max_output_bytes)
    return replace(completed, reason=CallReason.RESPONDED)


def _compute_digest(call: Call, tool: CompiledTool, arguments: JsonObject) -> str:
    return compute_call_digest(call.tool, call.version, tool.spec.url, arguments, tool.definition)


def expire(state: RunState, changes: Changes, call: Call) -> RunState:
    """Expire an approval. The call's result tells the model that nobody decided in time."""
    assert call.approval_id is not None
    changes.closed_approvals[call.approval_id] = ApprovalStatus.EXPIRED
    result = Result(CallOutcome.REJECTED, texts.NOBODY_ANSWERED, CallReason.APPROVAL_EXPIRED)
    return settle(state, changes, call, result)
