"""The table of the comparison with rivals."""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.floor import Floor
from bench.measures import MS, Load
from bench.processes import THIS
from bench.report import BUSY_CORES
from bench.tables import NOTHING, head, number, ratio, row

COMPARED_AT: Final = 16
"""Clients for which the table contains CPU times."""
FIRST_COLUMN: Final = "system"
_BUSY: Final = (
    " Therefore, the rates are too low and the times are too high. Compare the CPU times and the"
    " write transactions."
)
_COLUMNS: Final = (
    "runs/s, c=1",
    "c=16",
    "c=64",
    "CPU per run, c=16",
    "relative to the floor",
    "run p50, c=1",
    "approval to end, p50, c=1",
    "write transactions per run, c=1",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One repetition of one peer. `approvals` contains seconds."""

    title: str
    loads: list[Load]
    approvals: list[float]


@dataclass(slots=True)
class Comparison:
    versions: dict[str, str]
    results: list[Result] = field(default_factory=list[Result])
    missing: dict[str, str] = field(default_factory=dict[str, str])
    """The reasons why rivals were not measured, by title."""
    about: str = ""


def markdown(comparison: Comparison) -> str:
    others = statistics.median(
        load.others_cores for result in comparison.results for load in result.loads
    )
    lines = [
        "# Comparison with other projects",
        "",
        "`make bench-rivals` measures the same run in Runward and in other projects. The page"
        " [Performance comparison](../docs/explanation/performance-comparison.md) describes each"
        " of them.",
        "",
        f"{comparison.about} The table contains the best repetition of each figure. Meanwhile,"
        f" other processes on the machine used {number(others)} cores."
        + (_BUSY if others > BUSY_CORES else ""),
        "",
        *_table(comparison),
    ]
    return "\n".join(lines) + "\n"


def rows(text: str) -> list[str]:
    """Return the lines of the table in a page. The list is empty if it has no such table."""
    lines = text.splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith(f"| {FIRST_COLUMN} |")]
    if not starts:
        return []
    end = starts[0]
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    return lines[starts[0] : end]


def update(page: str, results: str) -> str:
    """Replace the table of a page with the table of the results."""
    if not rows(page):
        raise ValueError("The page has no table of results.")
    return page.replace("\n".join(rows(page)), "\n".join(rows(results)))


def _table(comparison: Comparison) -> Iterator[str]:
    yield from head([FIRST_COLUMN, *_COLUMNS], left=1)
    measured = {result.title for result in comparison.results}
    floor = _cpu(comparison, Floor.name)
    for title in (Floor.name, THIS.name, *comparison.versions):
        version = comparison.versions.get(title, "")
        name = f"{title} {version}".strip()
        if title in measured:
            yield row([name, *_cells(comparison, title, floor)])
        else:
            reason = comparison.missing.get(title, "not measured")
            yield row([name, reason, *[""] * (len(_COLUMNS) - 1)])


def _cells(comparison: Comparison, title: str, floor: float) -> Iterator[str]:
    for clients in (1, 16, 64):
        yield number(max(_values(comparison, title, clients, lambda one: one.runs_per_second)))
    cpu = _cpu(comparison, title)
    yield f"{number(cpu)} ms"
    yield ratio(cpu, floor)
    yield f"{number(min(_values(comparison, title, 1, lambda one: one.p50)))} ms"
    took = [
        statistics.median(result.approvals)
        for result in comparison.results
        if result.title == title and result.approvals
    ]
    yield f"{number(min(took) * MS)} ms" if took else NOTHING
    yield number(min(_values(comparison, title, 1, lambda one: one.write_transactions)))


def _cpu(comparison: Comparison, title: str) -> float:
    return min(_values(comparison, title, COMPARED_AT, lambda one: one.cpu))


def _values(
    comparison: Comparison, title: str, clients: int, read: Callable[[Load], float]
) -> Sequence[float]:
    return [
        read(load)
        for result in comparison.results
        if result.title == title
        for load in result.loads
        if load.concurrency == clients
    ]
