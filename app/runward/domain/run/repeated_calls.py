"""The loop guard, which detects calls that the model repeats."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from runward.domain.ids import CallId
from runward.domain.json import canonical
from runward.domain.run.state import Call, RunState

WARN_AT, STOP_AT = 3, 5
"""Numbers of identical calls in one run: from WARN_AT on, the model is warned. From STOP_AT on, the
call is rejected."""


def count_identical_before(state: RunState, call: Call) -> int:
    """Return how many earlier calls of the run had the same name and arguments. `call`: the run's
    newest call."""
    alike = [one for one in state.calls.values() if one.tool == call.tool and one.raw == call.raw]
    if _have_comparable_digests([*alike, call]):
        return [one.digest for one in alike].count(call.digest)
    return count_repetitions([*alike, call])[call.id]


def find_warned_calls(calls: Collection[Call]) -> frozenset[CallId]:
    """Return the calls whose results warn the model, because they repeat earlier calls. Usually,
    the digests show that there are none."""
    is_edited = any([call.original is not None for call in calls])
    versions = {(call.tool, call.version) for call in calls}
    has_versions = len(versions) > len({tool for tool, _ in versions})
    digests = Counter([call.digest for call in calls])
    if not is_edited and not has_versions and max(digests.values(), default=0) < WARN_AT:
        return frozenset()
    repetitions = count_repetitions(calls)
    return frozenset(id_ for id_, before in repetitions.items() if before + 1 == WARN_AT)


def count_repetitions(calls: Collection[Call]) -> dict[CallId, int]:
    """Return for each call how many earlier ones had the same name and arguments. The arguments are
    those that the model requested, before an approver edited them."""
    by_name: defaultdict[tuple[str, str | None], list[Call]] = defaultdict(list)
    for call in calls:  # in the order of turns and positions
        by_name[call.tool, call.raw].append(call)
    repetitions: dict[CallId, int] = {}
    for alike in by_name.values():
        by_digest = _have_comparable_digests(alike)
        seen = Counter[str]()
        for call in alike:
            arguments = call.digest if by_digest else canonical(call.requested_arguments)
            repetitions[call.id] = seen[arguments]
            seen[arguments] += 1
    return repetitions


def _have_comparable_digests(alike: Sequence[Call]) -> bool:
    """Return whether equal digests mean equal arguments: no approver edited a call, and the tool
    has one version. Large arguments then need not be serialized."""
    version = alike[0].version
    return all([call.original is None and call.version == version for call in alike])
