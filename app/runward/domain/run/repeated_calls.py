"""The loop guard, which detects calls that the model repeats."""

from runward.domain.json import is_same_json
from runward.domain.run.state import Call, RunState

WARN_AT, STOP_AT = 3, 5
"""Numbers of identical calls in one run: from WARN_AT on, the model is warned. From STOP_AT on, the
call is rejected."""


def count_identical_before(state: RunState, call: Call) -> int:
    """Return how many earlier calls of the run had the same name and arguments."""
    return sum(
        (other.turn, other.position) < (call.turn, call.position)
        and (other.tool, other.raw) == (call.tool, call.raw)
        and _same_arguments(other, call)
        for other in state.calls.values()
    )


def _same_arguments(call: Call, other: Call) -> bool:
    """Return whether the model requested the same arguments in both calls. For two calls of one
    tool version that no approver edited, equal digests mean equal arguments, so large arguments
    need not be compared."""
    edited = call.original is not None or other.original is not None
    if call.version == other.version and not edited:
        return call.digest == other.digest
    return is_same_json(call.requested_arguments, other.requested_arguments)
