"""The loop guard, which detects calls that the model repeats."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from runward.domain.ids import CallId
from runward.domain.json import canonical
from runward.domain.run.state import Call, RunState

WARN_AT, STOP_AT = 3, 5
"""Numbers of identical calls in one run: from WARN_AT on, the model is warned. From STOP_AT on, the
call is rejected."""


def count_identical_before(state: RunState, call: Call) -> int:
    """Return how many earlier calls of the run had the same name and arguments."""
    name = (call.tool, call.raw)
    alike = (one for one in state.calls.values() if (one.tool, one.raw) == name)
    return count_repetitions([*alike, call])[call.id]


def count_repetitions(calls: Iterable[Call]) -> dict[CallId, int]:
    """Return for each call how many earlier ones had the same name and arguments. The arguments are
    those that the model requested, before an approver edited them."""
    by_name: defaultdict[tuple[str, str | None], list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda one: (one.turn, one.position)):
        by_name[call.tool, call.raw].append(call)
    repetitions: dict[CallId, int] = {}
    for alike in by_name.values():
        # If no approver edited a call, and the tool has one version, equal digests mean equal
        # arguments. Large arguments then need not be serialized.
        by_digest = all(c.original is None and c.version == alike[0].version for c in alike)
        seen = Counter[str]()
        for call in alike:
            arguments = call.digest if by_digest else canonical(call.requested_arguments)
            repetitions[call.id] = seen[arguments]
            seen[arguments] += 1
    return repetitions
