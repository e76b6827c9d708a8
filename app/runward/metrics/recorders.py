"""Counters and histograms for the event loop.

prometheus_client's own classes lock and call six to ten functions for each increment, and they keep
every label value that they ever saw. These classes call one function, and limit the values. Only
the exposition is prometheus_client's. Increments of other threads can be lost.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

Labels: TypeAlias = tuple[str, ...]

MAX_VALUES: Final = 50
"""Maximum number of values of each label in a process. Projects choose the names of agents, tools
and models."""
OTHER: Final = "other"
"""Replaces all further values."""


class Counter(Collector):
    """A counter. `initial`: the labels of the series that exist from the start, so that a rate
    includes their first increment. Without labels, the only series exists from the start."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), initial: Iterable[Labels] = ()
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._limit = LabelLimit(labels)
        self._values: dict[Labels, float] = dict.fromkeys(initial if labels else [()], 0.0)
        REGISTRY.register(self)

    def count(self, *labels: str, by: float = 1.0) -> None:
        if labels not in self._values:
            labels = self._limit.apply(labels)
            self._values.setdefault(labels, 0.0)
        self._values[labels] += by

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, value in list(self._values.items()):
            family.add_metric(labels, value)
        yield family


class Histogram(Collector):
    """A histogram of seconds. `bounds`: the upper bounds of the buckets, ascending."""

    def __init__(
        self, name: str, text: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._name, self._text, self._labels, self._bounds = name, text, labels, bounds
        self._limit = LabelLimit(labels)
        self._series: dict[Labels, list[float]] = {} if labels else {(): self._make_series()}
        REGISTRY.register(self)

    def _make_series(self) -> list[float]:
        """Return the count of each bucket, of the bucket without a bound, and the sum."""
        return [0.0] * (len(self._bounds) + 2)

    def observe(self, seconds: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            labels = self._limit.apply(labels)
            series = self._series.setdefault(labels, self._make_series())
        series[bisect_left(self._bounds, seconds)] += 1
        series[-1] += seconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        names = [*map(str, self._bounds), "+Inf"]
        for labels, series in list(self._series.items()):
            *counts, total = series
            buckets = list(zip(names, accumulate(counts), strict=True))
            family.add_metric(labels, buckets, sum_value=total)
        yield family


class LabelLimit:
    """Limits the values of each label."""

    def __init__(self, labels: Sequence[str]) -> None:
        self._known: list[set[str]] = [set() for _ in labels]

    def apply(self, labels: Labels) -> Labels:
        """Return the labels, with `OTHER` for each value above the limit."""
        return tuple(map(self._apply_one, self._known, labels))

    @staticmethod
    def _apply_one(known: set[str], value: str) -> str:
        if len(known) < MAX_VALUES:
            known.add(value)
        return value if value in known else OTHER
