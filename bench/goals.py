"""The goals of the benchmark, and the figures that it compares with them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bench.tables import NOTHING, head, number, row


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure, the least that it must reach (`must`), and the aim."""

    row: str
    measure: str
    must: float
    aim: float
    unit: str = ""

    def verdict(self, found: float) -> str:
        if math.isnan(found):
            return NOTHING
        more_is_better = self.aim > self.must
        for name, limit in (("aim", self.aim), ("must", self.must)):
            if found >= limit if more_is_better else found <= limit:
                return name
        return "**missed**"

    def format(self, value: float) -> str:
        return f"{number(value)}{self.unit}"


_FLOOR: Final = "relative to the floor"
GOALS: Final[Mapping[str, Goal]] = {
    "rate-16": Goal("P1", f"runs/s, c=16, {_FLOOR}", 0.35, 0.5, " x"),
    "rate-64": Goal("P1", f"runs/s, c=64, {_FLOOR}", 0.25, 0.4, " x"),
    "cpu-16": Goal("P2", f"CPU per run, c=16, {_FLOOR}", 3.3, 2.3, " x"),
    "cpu-64": Goal("P2", f"CPU per run, c=64, {_FLOOR}", 4, 3, " x"),
    "approval": Goal(
        "P3", f"time from the approval to the end, p50, c=1, {_FLOOR}", 2.5, 1.6, " x"
    ),
    "writes-1": Goal("P4", "write transactions per run, c=1", 4, 4),
    "writes-64": Goal("P4", "write transactions per run, c=64", 0.6, 0.3),
    "parked-memory": Goal("P5", "resident memory of 10,000 parked runs", 5, 1, " MiB"),
    "parked-bytes": Goal("P5", "database size of a parked run", 3, 2, " KiB"),
    "parked-claim": Goal("P5", "time of a new run, parked runs relative to none", 1.2, 1, " x"),
    "tokens": Goal("P6", "tokens streamed per second and core", 35_000, 50_000),
    "first-token": Goal("P7", "delay added to the first token, p50, c=1", 6, 3, " ms"),
    "reader-memory": Goal("P8", "resident memory of an idle reader", 10, 2, " KiB"),
    "reader-connections": Goal("P8", "database connections in use by idle readers", 0, 0),
    "large-tables": Goal(
        "P9", "runs/s, 1,100,000 runs in the tables relative to none", 0.9, 1, " x"
    ),
    "first-start": Goal("P10", "time until `serve` is ready, first start", 4, 3, " s"),
    "later-start": Goal("P10", "time until `serve` is ready, later start", 1.8, 1.2, " s"),
    "workers": Goal("P11", "CPU per run, 4 workers relative to 1", 1.3, 1, " x"),
    "idle-memory": Goal("P12", "resident memory of an idle `serve`", 120, 90, " MiB"),
    "carried-memory": Goal("P12", "resident memory of an active run", 60, 30, " KiB"),
    "turn-cpu": Goal("P13", "CPU per turn, turn 47 relative to turn 5", 1.2, 1.1, " x"),
    "call-cpu": Goal(
        "P13", "CPU per tool call, 100 calls in a turn relative to 10", 1.2, 1.1, " x"
    ),
    "parse-cpu": Goal("P13", "CPU of a model response of four times the length", 4.4, 4, " x"),
    "hot-updates": Goal("P14", "HOT updates of the table `runs`", 50, 90, " %"),
    "rows-touched": Goal("P14", "rows read per row shown, lists and inbox", 3, 1.5, " x"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. `goal` is a key of GOALS. `detail` shows the values behind the figure."""

    goal: str
    found: float
    detail: str = ""


@dataclass(slots=True)
class Chapter:
    """The results of one part of the benchmark: figures, lines of Markdown for a section, and SVG
    documents by name, which become files in the folder `charts`."""

    figures: list[Figure] = field(default_factory=list[Figure])
    section: list[str] = field(default_factory=list[str])
    charts: dict[str, str] = field(default_factory=dict[str, str])


def table(figures: Sequence[Figure], before: Sequence[Figure], name_before: str) -> Iterator[str]:
    """Compare the figures with all goals. `name_before` is empty if there is no other version."""
    found, earlier = ({one.goal: one for one in side} for side in (figures, before))
    columns = ["before", "after"] if name_before else ["found"]
    yield from head(["#", "measure", "figures", *columns, "must", "aim", "reached"], left=3)
    for key, goal in GOALS.items():
        figure = found.get(key)
        cells = [goal.row, goal.measure, figure.detail if figure else "not measured"]
        if name_before:
            cells.append(goal.format(earlier[key].found) if key in earlier else "")
        cells.append(goal.format(figure.found) if figure else "")
        cells += [goal.format(goal.must), goal.format(goal.aim)]
        yield row([*cells, goal.verdict(figure.found) if figure else ""])
