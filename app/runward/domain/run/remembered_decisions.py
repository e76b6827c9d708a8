"""Decisions that also cover later calls of the same tool."""

from dataclasses import replace

from runward.domain.json import compute_digest
from runward.domain.run.decisions import ApproveDecision, RejectDecision, RememberedDecision
from runward.domain.run.state import Call, RunState


def remember_decision(
    decision: ApproveDecision | RejectDecision, call: Call, agent: str | None
) -> RememberedDecision:
    assert decision.remember is not None and call.version is not None
    exact = decision.remember.exact_arguments
    return RememberedDecision(
        decision=decision.decision,
        tool=call.tool,
        version=call.version,
        agent=agent,
        arguments_digest=compute_digest(call.arguments) if exact else None,
        message=decision.message if isinstance(decision, RejectDecision) else None,
    )


def find_remembered_decision(
    remembered: tuple[RememberedDecision, ...], call: Call, agent: str | None
) -> RememberedDecision | None:
    """Return the latest remembered decision that covers `call`, or None."""
    covering = (one for one in reversed(remembered) if one.agent == agent and covers(one, call))
    return next(covering, None)


def covers(memory: RememberedDecision, call: Call) -> bool:
    """Return whether the decision is for the call's tool version and, if the decision requires it,
    for its arguments."""
    same_tool = (memory.tool, memory.version) == (call.tool, call.version)
    return same_tool and memory.arguments_digest in (None, compute_digest(call.arguments))


def forget_expired(state: RunState, seconds: float) -> RunState:
    """Return the run without the decisions that have expired in the `seconds` since it was
    loaded."""
    if not state.remembered:
        return state
    valid = (
        one for one in state.remembered if one.seconds_left is None or one.seconds_left > seconds
    )
    return replace(state, remembered=tuple(valid))
