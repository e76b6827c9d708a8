"""Checks of a call right before its start. Its tool may have changed since the approval."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from runward.domain.events.values import ApprovalStatus, CallReason
from runward.domain.run import texts
from runward.domain.run.approvals import require_approval
from runward.domain.run.failures import AwaitResolution, classify_unknown_outcome
from runward.domain.run.settle import conclude, settle
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    compute_call_digest,
)
from runward.domain.run.tools import CompiledTool

TOOL_GONE: Final = "The tool was disabled or deleted before the call could be sent again."
ARGUMENTS_REFUSED: Final = (
    "The tool was updated before the call could be sent again, and its schema "
    "rejects the arguments."
)


def recheck(
    state: RunState,
    changes: Changes,
    call: Call,
    current_tools: Mapping[str, CompiledTool],
    mint: Callable[[], UUID],
    former_tool: CompiledTool | None = None,
) -> RunState:
    """Check a call before its start, and return the new state of the run. `current_tools`: the
    current versions of the enabled tools.

    If nothing changed, the state is returned unchanged. If the tool is gone, the call gets a
    result. If the approval no longer matches, or the tool's approval rule became stricter, a new
    approval is requested. `former_tool`: the version that the model saw. Its settings apply if the
    tool is gone and an attempt may have taken effect.
    """
    tool = current_tools.get(call.tool)
    if tool is None and call.attempt > 0:
        verdict = (
            classify_unknown_outcome(former_tool.spec, TOOL_GONE)
            if former_tool
            else AwaitResolution(TOOL_GONE)
        )
        return conclude(state, changes, call, verdict)
    if tool is None:
        result = Result(CallOutcome.FAILED, texts.tool_gone(call.tool), CallReason.UNKNOWN_TOOL)
        return settle(state, changes, call, result)
    if call.approved_digest is None and not _rule_became_stricter(call, tool, former_tool):
        return state
    digest = compute_call_digest(
        call.tool, tool.version, tool.spec.url, call.arguments, tool.definition
    )
    if digest == call.approved_digest:
        return state
    if call.approval_id is not None:
        changes.closed_approvals[call.approval_id] = ApprovalStatus.SUPERSEDED
    again = replace(
        call,
        phase=CallPhase.READY,
        version=tool.version,
        digest=digest,
        approval_id=None,
        approved_digest=None,
    )
    problems = tool.arguments.problems(again.arguments)
    if problems and call.attempt > 0:
        return conclude(
            state, changes, again, classify_unknown_outcome(tool.spec, ARGUMENTS_REFUSED)
        )
    if problems:
        text = texts.invalid_arguments(call.tool, problems)
        return settle(
            state, changes, again, Result(CallOutcome.FAILED, text, CallReason.INVALID_ARGUMENTS)
        )
    return require_approval(state, changes, again, tool, mint)


def _rule_became_stricter(call: Call, tool: CompiledTool, former_tool: CompiledTool | None) -> bool:
    """Return whether the tool's approval rule changed to one that may require an approval for
    this call, before its first attempt. A new rule is not evaluated: it counts as requiring an
    approval."""
    if call.attempt > 0 or former_tool is None:
        return False
    return tool.spec.approval not in ("never", former_tool.spec.approval)
