"""Times at which the service could not be expected to answer or to work."""

from bisect import bisect_right
from collections.abc import Iterable

from tests.checker.evidence import Fault


class Windows:
    """Intervals of time, merged. Each is longer by `before` and `after`."""

    def __init__(self, faults: Iterable[Fault], before: float = 0.0, after: float = 0.0) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []
        spans = sorted((each.at - before, _end(each) + after) for each in faults)
        for start, end in spans:
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def touches(self, start: float, end: float) -> bool:
        """Whether any of them overlaps this time."""
        place = bisect_right(self._starts, end)
        return place > 0 and self._ends[place - 1] >= start

    def outside(self, start: float, end: float) -> float:
        """The longest time without a break between `start` and `end`."""
        longest, since = 0.0, start
        place = max(0, bisect_right(self._starts, start) - 1)
        for begin, over in zip(self._starts[place:], self._ends[place:], strict=True):
            if begin > end:
                break
            longest, since = max(longest, begin - since), max(since, over)
        return max(longest, end - since)


def _end(fault: Fault) -> float:
    return fault.at if fault.until is None else max(fault.at, fault.until)
