"""The loop guard: calls that the model repeats."""

from runward.domain.json import is_same_json
from runward.domain.run.state import Call, RunState

WARN_AT, STOP_AT = 3, 5
"""The loop guard: how many identical calls of one run are warned about, and refused."""


def count_identical_before(state: RunState, call: Call) -> int:
    """How many calls of the run before this one had the same name and arguments."""
    return sum(
        (other.turn, other.position) < (call.turn, call.position)
        and (other.tool, other.raw) == (call.tool, call.raw)
        and _same_arguments(other, call)
        for other in state.calls.values()
    )


def _same_arguments(one: Call, other: Call) -> bool:
    """Compare what the model asked for. Two calls of one version that nobody edited have the same
    digest if and only if their arguments are the same; that costs nothing for large ones."""
    edited = one.original is not None or other.original is not None
    if one.version == other.version and not edited:
        return one.digest == other.digest
    return is_same_json(one.requested_arguments, other.requested_arguments)
