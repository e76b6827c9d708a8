"""The figures as Markdown: first against what is to be reached, then in full."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.floor import Floor
from bench.measures import Idling, Load, Parking, Starts
from bench.service import Service
from bench.streams import RELAY, FirstToken, Relaying

COMPARED_AT: Final = 16
"""Clients, where one figure has to stand for all."""
MIB: Final = 1024 * 1024
NOTHING: Final = "-"
BUSY_CORES: Final = 0.25
"""What others may use of the machine before the figures need a warning."""
NOT_MEASURED: Final = {
    "P9": "throughput with 1,000,000 finished runs in the tables",
}


@dataclass(slots=True)
class Findings:
    """One sitting. Repeats are kept apart: medians are taken here."""

    about: str
    loads: list[Load] = field(default_factory=list[Load])
    approvals: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    """Milliseconds, by peer."""
    relaying: list[Relaying] = field(default_factory=list[Relaying])
    first_tokens: list[FirstToken] = field(default_factory=list[FirstToken])
    parking: Parking | None = None
    idling: Idling | None = None
    starts: Starts | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """`found` against what it must and should be; `shown` says how it came about."""

    number: str
    measure: str
    shown: str
    found: float
    must: float
    aim: float
    unit: str = ""

    def line(self) -> str:
        cells = [self.number, self.measure, self.shown, self._with_unit(self.found)]
        cells += [self._with_unit(self.must), self._with_unit(self.aim), self._verdict()]
        return _row(cells)

    def _with_unit(self, value: float) -> str:
        return f"{number(value)}{self.unit}"

    def _verdict(self) -> str:
        if math.isnan(self.found):
            return NOTHING
        more_is_better = self.aim > self.must
        for name, limit in (("aim", self.aim), ("must", self.must)):
            if self.found >= limit if more_is_better else self.found <= limit:
                return name
        return "**missed**"


def markdown(findings: Findings) -> str:
    lines = ["# Benchmark", "", findings.about, *_warning(findings.loads), ""]
    lines += ["## Against what is to be reached", ""]
    lines += _head(["#", "measure", "figures", "found", "must", "aim", "reached"], left=3)
    lines += [target.line() for target in _targets(findings)]
    lines += [_row([key, what, "not measured yet"]) for key, what in NOT_MEASURED.items()]
    if findings.loads:
        lines += ["", "## Runs, by number of clients", "", *_loads(findings.loads)]
    return "\n".join(lines) + "\n"


def _warning(loads: Sequence[Load]) -> Iterator[str]:
    others = [load.others_cores for load in loads]
    if others and (typical := _median(others)) > BUSY_CORES:
        yield ""
        yield (
            f"**The machine was not free:** others used {number(typical)} cores. Rates and times"
            " are then far too low and high, CPU is somewhat too high on both sides; the CPU ratio"
            " is the figure to trust."
        )


def _targets(findings: Findings) -> Iterator[Target]:
    if findings.loads:
        yield from _throughput(findings.loads)
    if findings.approvals:
        floor, ours = (_median(findings.approvals[name]) for name in (Floor.name, Service.name))
        shown = f"{number(ours)} ms; floor {number(floor)} ms"
        yield Target("P3", "approve to finished, p50, c=1", shown, ours / floor, 4, 1.6, " x")
    if findings.loads:
        yield from _transactions(findings.loads)
    if findings.parking:
        yield from _parking(findings.parking)
    if findings.relaying:
        yield from _relayed(findings.relaying, findings.first_tokens)
    if idling := findings.idling:
        shown = f"{idling.readers:,} idle SSE readers"
        each = idling.resident_bytes / idling.readers / 1024
        yield Target("P8", "resident memory a reader", shown, each, 60, 20, " KiB")
        held = idling.busy_connections
        yield Target("P8", "database connections in use", shown, held, 0, 0)
    if starts := findings.starts:
        shown = "embedded PostgreSQL"
        yield Target("P10", "`serve` to ready, first start", shown, starts.first, 8, 4, " s")
        yield Target("P10", "`serve` to ready, later start", shown, starts.later, 4, 1.5, " s")


def _throughput(loads: Sequence[Load]) -> Iterator[Target]:
    at = _compared_at(loads)
    ours, floor = _of(loads, Service.name, at), _of(loads, Floor.name, at)
    rate, limit = (_typical(side, lambda one: one.runs_per_second) for side in (ours, floor))
    shown = f"{number(rate)}; floor {number(limit)}"
    yield Target("P1", f"runs/s, c={at}, SSE", shown, rate / limit, 0.15, 0.45, " x")
    cpu, least = (_typical(side, lambda one: one.cpu) for side in (ours, floor))
    shown = f"{number(cpu)} ms; floor {number(least)} ms"
    yield Target("P2", f"CPU a run, c={at}, with PostgreSQL", shown, cpu / least, 8, 2.5, " x")


def _transactions(loads: Sequence[Load]) -> Iterator[Target]:
    for at, must, aim in ((1, 6, 5), (64, 1, 0.3)):
        if ours := _of(loads, Service.name, at):
            found = _typical(ours, lambda one: one.write_transactions)
            floor = _typical(_of(loads, Floor.name, at), lambda one: one.write_transactions)
            shown = f"floor {number(floor)}"
            yield Target("P4", f"write transactions a run, c={at}", shown, found, must, aim)


def _parking(parking: Parking) -> Iterator[Target]:
    runs = parking.runs
    each = parking.resident_bytes / runs
    shown = f"{number(parking.resident_bytes / MIB)} MiB for {runs:,} runs"
    all_of_them = max(0.0, each * 10_000 / MIB)
    yield Target("P5", "resident memory of 10,000 parked runs", shown, all_of_them, 30, 5, " MiB")
    kib = parking.database_bytes / runs / 1024
    yield Target("P5", "bytes a parked run in the database", f"{runs:,} runs", kib, 6, 2, " KiB")
    shown = f"p50 {number(parking.p50_after)} ms; before {number(parking.p50_before)} ms"
    ratio = parking.p50_after / parking.p50_before
    yield Target("P5", f"a new run beside {runs:,} parked ones", shown, ratio, 1.5, 1.0, " x")


def _relayed(relaying: Sequence[Relaying], firsts: Sequence[FirstToken]) -> Iterator[Target]:
    def cores(name: str) -> float:
        return _median([one.per_core_second for one in relaying if one.peer == name])

    def added(name: str) -> float:
        return _median([one.added for one in firsts if one.peer == name])

    own = [one for one in relaying if one.peer == Service.name]
    streams, rate = own[0].streams, _median([one.per_second for one in own])
    shown = f"{number(rate)} a second; bare relay {number(cores(RELAY))} a core"
    measure = f"tokens relayed per second and core, {streams} streams"
    yield Target("P6", measure, shown, cores(Service.name), 8_000, 50_000)
    since = _median([one.after for one in firsts if one.peer == Service.name])
    shown = f"{number(since)} ms of it after it; bare relay {number(added(RELAY))} ms"
    measure = "first token, added to the model's own time, p50, c=1"
    yield Target("P7", measure, shown, added(Service.name), 10, 3, " ms")


_COLUMNS: Final[dict[str, Callable[[Load], float]]] = {
    "runs/s": lambda one: one.runs_per_second,
    "p50 ms": lambda one: one.p50,
    "p99 ms": lambda one: one.p99,
    "CPU ms": lambda one: one.cpu,
    "of it PostgreSQL": lambda one: one.postgres_cpu,
    "write transactions": lambda one: one.write_transactions,
    "others' cores": lambda one: one.others_cores,
}
_RATIOS: Final = ("runs/s", "p50 ms", "CPU ms", "of it PostgreSQL")


def _loads(loads: Sequence[Load]) -> Iterator[str]:
    yield "Medians (least to most) of the repeats; CPU and write transactions are per run."
    yield ""
    yield from _head(["clients", "who", *_COLUMNS], left=2)
    for at in sorted({load.concurrency for load in loads}):
        floor, ours = _of(loads, Floor.name, at), _of(loads, Service.name, at)
        for name, side in ((Floor.name, floor), (Service.name, ours)):
            yield _row([str(at), name, *(_spread(map(read, side)) for read in _COLUMNS.values())])
        ratios = [
            _ratio(_typical(ours, read), _typical(floor, read)) if name in _RATIOS else ""
            for name, read in _COLUMNS.items()
        ]
        yield _row([str(at), "ratio", *ratios])


def _of(loads: Sequence[Load], peer: str, concurrency: int) -> list[Load]:
    return [one for one in loads if (one.peer, one.concurrency) == (peer, concurrency)]


def _compared_at(loads: Sequence[Load]) -> int:
    measured = {one.concurrency for one in loads}
    return COMPARED_AT if COMPARED_AT in measured else max(measured)


def _typical(loads: Iterable[Load], read: Callable[[Load], float]) -> float:
    return _median([read(load) for load in loads])


def _ratio(value: float, floor: float) -> str:
    """A short run may use less CPU time than the clock of a process shows: zero."""
    return f"{number(value / floor)} x" if floor else NOTHING


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _spread(values: Iterable[float]) -> str:
    found = list(values)
    typical = number(statistics.median(found))
    if len(found) == 1 or math.isnan(found[0]):
        return typical
    return f"{typical} ({number(min(found))} to {number(max(found))})"


def number(value: float) -> str:
    """Three digits, more or less."""
    if math.isnan(value):
        return NOTHING
    if value == int(value) and abs(value) < 100:
        return str(int(value))
    return (
        f"{value:,.0f}"
        if abs(value) >= 100
        else f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
    )


def _head(names: Sequence[str], *, left: int) -> list[str]:
    return [_row(names), _row(["---"] * left + ["--:"] * (len(names) - left))]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
