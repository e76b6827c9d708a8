"""Before a call starts: is it still the call that was shown, and that was approved?"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from runward.domain.run import texts
from runward.domain.run.approvals import ApprovalStatus
from runward.domain.run.calls import Call, CallOutcome, CallPhase, Reason, Result, call_digest
from runward.domain.run.plan import require_approval
from runward.domain.run.settle import AwaitResolution, conclude, settle, unknown
from runward.domain.run.state import Changes, RunState
from runward.domain.run.tools import CompiledTool

GONE: Final = "The tool was disabled or deleted before the call could be sent again."
REFUSED: Final = (
    "The tool was changed before the call could be sent again, and refuses its arguments."
)


def recheck(
    state: RunState,
    changes: Changes,
    call: Call,
    now: Mapping[str, CompiledTool],
    mint: Callable[[], UUID],
    made_for: CompiledTool | None = None,
) -> RunState:
    """`now`: the tools that are enabled, in their current versions. A call that may start comes
    back as it was; one whose tool is gone is settled; one whose approval binds to something
    else is asked about again, and so is one whose tool has another approval policy by now.
    `made_for`: the tool's version that the call was made for, whose policy holds if the tool is
    gone and an attempt may have taken effect."""
    tool = now.get(call.tool)
    if tool is None and call.attempt > 0:
        verdict = unknown(made_for.spec, GONE) if made_for else AwaitResolution(GONE)
        return conclude(state, changes, call, verdict)
    if tool is None:
        result = Result(CallOutcome.FAILED, texts.tool_gone(call.tool), Reason.UNKNOWN_TOOL)
        return settle(state, changes, call, result)
    if call.approved_digest is None and not _asks_since(call, tool, made_for):
        return state
    digest = call_digest(call.tool, tool.version, tool.spec.url, call.arguments)
    if digest == call.approved_digest:
        return state
    if call.approval_id is not None:
        changes.closed_approvals[call.approval_id] = ApprovalStatus.VOID
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
        return conclude(state, changes, again, unknown(tool.spec, REFUSED))
    if problems:
        text = texts.invalid_arguments(call.tool, [(p.path, p.message) for p in problems])
        return settle(
            state, changes, again, Result(CallOutcome.FAILED, text, Reason.INVALID_ARGUMENTS)
        )
    return require_approval(state, changes, again, tool, mint)


def _asks_since(call: Call, tool: CompiledTool, made_for: CompiledTool | None) -> bool:
    """Whether the tool's approval policy was changed, to one that may ask about this call, before
    the first attempt. A new rule is not evaluated again: a person is asked."""
    if call.attempt > 0 or made_for is None:
        return False
    return tool.spec.approval not in ("never", made_for.spec.approval)
