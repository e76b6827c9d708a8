"""The results of the benchmark in Markdown: the goals first, then all loads."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.floor import Floor
from bench.goals import Chapter, Figure, table
from bench.measures import Idling, Load, Parking, Starts
from bench.streams import RELAY, FirstToken, Relaying
from bench.tables import head, number, ratio, row

MIB: Final = 1024 * 1024
BUSY_CORES: Final = 0.25
"""CPU that other processes may use before the report contains a warning."""


@dataclass(slots=True)
class Side:
    """The measurements of one version of Runward, except for those that all peers share."""

    name: str
    parking: Parking | None = None
    idling: Idling | None = None
    starts: Starts | None = None
    hot_updates: float | None = None
    """Percent of the updates of the table `runs`."""
    chapters: list[Chapter] = field(default_factory=list[Chapter])


@dataclass(slots=True)
class Findings:
    """All measurements, with every repetition. The report computes the medians."""

    after: Side
    before: Side | None = None
    about: str = ""
    loads: list[Load] = field(default_factory=list[Load])
    approvals: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Milliseconds, by peer."""
    relaying: list[Relaying] = field(default_factory=list[Relaying])
    first_tokens: list[FirstToken] = field(default_factory=list[FirstToken])

    @property
    def sides(self) -> list[Side]:
        return [self.after, *([self.before] if self.before else [])]


def markdown(findings: Findings) -> str:
    before = findings.before
    earlier = list(_figures(findings, before)) if before else []
    lines = ["# Benchmark", "", findings.about, *_warning(findings.loads)]
    lines += ["", "## Goals", "", _LEGEND, ""]
    lines += table(list(_figures(findings, findings.after)), earlier, before.name if before else "")
    if findings.loads:
        lines += ["", "## Runs, by number of clients", ""]
        lines += _loads(findings.loads, [side.name for side in reversed(findings.sides)])
    for side in findings.sides:
        for chapter in side.chapters:
            if chapter.section and side is findings.after:
                lines += ["", *chapter.section]
    lines += ["", "[RIVALS.md](RIVALS.md) compares Runward with other projects."]
    return "\n".join(lines) + "\n"


_LEGEND: Final = (
    "The column `figures` contains the values behind each figure. The last column contains `aim`"
    " or `must` if the figure reaches that value."
)


def _warning(loads: Sequence[Load]) -> Iterator[str]:
    others = [load.others_cores for load in loads]
    if others and (typical := statistics.median(others)) > BUSY_CORES:
        yield ""
        yield (
            f"**The machine was busy.** Other processes used {number(typical)} cores. Therefore,"
            " the rates are too low, the times are too high, and the CPU times are somewhat too"
            " high, for all peers. Compare the ratios of CPU times."
        )


def _figures(findings: Findings, side: Side) -> Iterator[Figure]:
    yield from _throughput(findings.loads, side.name)
    yield from _transactions(findings.loads, side.name)
    if side.name in findings.approvals:
        floor, ours = (
            statistics.median(findings.approvals[name]) for name in (Floor.name, side.name)
        )
        yield Figure("approval", ours / floor, f"{number(ours)} ms; floor {number(floor)} ms")
    if side.parking:
        yield from _parking(side.parking)
    if any(one.peer == side.name for one in findings.relaying):
        yield from _streams(findings.relaying, findings.first_tokens, side.name)
    if idling := side.idling:
        detail = f"{idling.readers:,} idle SSE readers"
        each = max(0.0, idling.resident_bytes / idling.readers / 1024)
        yield Figure("reader-memory", each, detail)
        yield Figure("reader-connections", idling.busy_connections, detail)
    if starts := side.starts:
        yield Figure("first-start", starts.first, "embedded PostgreSQL")
        yield Figure("later-start", starts.later, "embedded PostgreSQL")
    if side.hot_updates is not None:
        yield Figure("hot-updates", side.hot_updates, "all loads above")
    for chapter in side.chapters:
        yield from chapter.figures


def _throughput(loads: Sequence[Load], name: str) -> Iterator[Figure]:
    for at in (16, 64):
        ours, floor = _of(loads, name, at), _of(loads, Floor.name, at)
        if not (ours and floor):
            continue
        rate, limit = (_typical(peer, lambda one: one.runs_per_second) for peer in (ours, floor))
        yield Figure(f"rate-{at}", rate / limit, f"{number(rate)}; floor {number(limit)}")
        cpu, least = (_typical(peer, lambda one: one.cpu) for peer in (ours, floor))
        detail = f"{number(cpu)} ms; floor {number(least)} ms"
        yield Figure(f"cpu-{at}", cpu / least if least else math.nan, detail)


def _transactions(loads: Sequence[Load], name: str) -> Iterator[Figure]:
    for at in (1, 64):
        if ours := _of(loads, name, at):
            found = _typical(ours, lambda one: one.write_transactions)
            floor = _typical(_of(loads, Floor.name, at), lambda one: one.write_transactions)
            yield Figure(f"writes-{at}", found, f"floor {number(floor)}")


def _parking(parking: Parking) -> Iterator[Figure]:
    runs = parking.runs
    each = parking.resident_bytes / runs
    detail = f"{number(parking.resident_bytes / MIB)} MiB for {runs:,} runs"
    yield Figure("parked-memory", max(0.0, each * 10_000 / MIB), detail)
    kib = parking.database_bytes / runs / 1024
    yield Figure("parked-bytes", kib, f"{runs:,} runs")
    detail = (
        f"p50 {number(parking.p50_after)} ms with {runs:,}; {number(parking.p50_before)} ms before"
    )
    yield Figure("parked-claim", parking.p50_after / parking.p50_before, detail)


def _streams(
    relaying: Sequence[Relaying], firsts: Sequence[FirstToken], name: str
) -> Iterator[Figure]:
    def cores(peer: str) -> float:
        return statistics.median([one.per_core_second for one in relaying if one.peer == peer])

    def added(peer: str) -> float:
        return statistics.median([one.added for one in firsts if one.peer == peer])

    own = [one for one in relaying if one.peer == name]
    rate = statistics.median([one.per_second for one in own])
    detail = (
        f"{own[0].streams} streams, {number(rate)} a second; bare relay {number(cores(RELAY))} per"
        " second and core"
    )
    yield Figure("tokens", cores(name), detail)
    since = statistics.median([one.after for one in firsts if one.peer == name])
    detail = (
        f"{number(since)} ms of it after the model sent the token; bare relay"
        f" {number(added(RELAY))} ms"
    )
    yield Figure("first-token", added(name), detail)


COLUMNS: Final[dict[str, Callable[[Load], float]]] = {
    "runs/s": lambda one: one.runs_per_second,
    "p50 ms": lambda one: one.p50,
    "p99 ms": lambda one: one.p99,
    "CPU ms": lambda one: one.cpu,
    "PostgreSQL's share": lambda one: one.postgres_cpu,
    "write transactions": lambda one: one.write_transactions,
    "others' cores": lambda one: one.others_cores,
}
_RATIOS: Final = ("runs/s", "p50 ms", "CPU ms", "PostgreSQL's share")


def _loads(loads: Sequence[Load], names: Sequence[str]) -> Iterator[str]:
    yield (
        "Medians of the repetitions (lowest to highest). CPU and write transactions are per run."
        " `others' cores` is the CPU that other processes on the machine used."
    )
    yield ""
    yield from head(["clients", "who", *COLUMNS], left=2)
    for at in sorted({load.concurrency for load in loads}):
        floor = _of(loads, Floor.name, at)
        for name in (Floor.name, *names):
            ours = _of(loads, name, at)
            yield row([str(at), name, *(_spread(map(read, ours)) for read in COLUMNS.values())])
        for name in names:
            ours = _of(loads, name, at)
            ratios = [
                ratio(_typical(ours, read), _typical(floor, read)) if column in _RATIOS else ""
                for column, read in COLUMNS.items()
            ]
            yield row([str(at), f"{name}, relative to the floor", *ratios])


def _of(loads: Sequence[Load], peer: str, concurrency: int) -> list[Load]:
    return [one for one in loads if (one.peer, one.concurrency) == (peer, concurrency)]


def _typical(loads: Iterable[Load], read: Callable[[Load], float]) -> float:
    return statistics.median(map(read, loads))


def _spread(values: Iterable[float]) -> str:
    found = list(values)
    typical = number(statistics.median(found))
    if len(found) == 1 or math.isnan(found[0]):
        return typical
    return f"{typical} ({number(min(found))} to {number(max(found))})"
