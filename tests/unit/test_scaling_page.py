"""The page about scaling: its figures are those of the benchmark, and its example follows from
them."""

import math
import re
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path("docs/explanation/scaling.md").read_text("utf-8")
RESULTS: Final = Path("bench/RESULTS.md").read_text("utf-8")
AFTER: Final = 4
"""The column of the goals with the figure of this version. Two columns before it, there are the
values behind the figure."""
FIGURES: Final = {
    "runs per second of one `serve` process, 16 clients": [("P1", "c=16", 2)],
    "runs per second of one `serve` process, 64 clients": [("P1", "c=64", 2)],
    "CPU time of a run: `serve` and PostgreSQL, 16 clients": [("P2", "c=16", 2)],
    "CPU time of a run: PostgreSQL alone, 16 clients": [("16", "Runward", 6)],
    "CPU time of a run: PostgreSQL alone, 64 clients": [("64", "Runward", 6)],
    "CPU time of a run with separate processes: API, 1 worker, PostgreSQL": [
        ("1 workers", "", column) for column in (2, 3, 4)
    ],
    "CPU time of a run with 4 workers: API, workers, PostgreSQL": [
        ("4 workers", "", column) for column in (2, 3, 4)
    ],
    "write transactions of a run, 1 and 64 clients": [("P4", "c=1", AFTER), ("P4", "c=64", AFTER)],
    "tokens streamed to clients, per second and core of `serve`": [("P6", "tokens", AFTER)],
    "memory of an idle `serve` process": [("P12", "idle `serve`", AFTER)],
    "memory of an active run, and of an idle event stream": [
        ("P12", "active run", AFTER),
        ("P8", "memory of an idle reader", AFTER),
    ],
}
"""The first cell, the second cell or a part of it, and the column of each figure."""


def read_cells(text: str) -> list[list[str]]:
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) > 1]


def read_numbers(text: str) -> list[float]:
    found = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", text)
    return [float(number.replace(",", "")) for number in found]


WORKERS: Final = RESULTS.partition("## Several workers")[2].partition("\n## ")[0]
ROWS: Final = [
    *read_cells(RESULTS.replace(WORKERS, "")),
    *([f"{count} workers", *row] for count, *row in read_cells(WORKERS)),
]
CELLS: Final = {row[0]: row[-1] for row in read_cells(PAGE)}


def find(first: str, second: str, column: int) -> float:
    found = [row for row in ROWS if row[0] == first and second in row[1]]
    [row] = [row for row in found if row[1] == second] or found
    return read_numbers(row[column])[0]


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_is_that_of_the_benchmark(figure: str) -> None:
    assert read_numbers(CELLS[figure]) == [find(*place) for place in FIGURES[figure]]


def test_the_example_follows_from_the_figures() -> None:
    rate, seconds, tokens, busy, pool = 100, 20, 500, 0.6, 16
    [api, worker, postgres] = [find("1 workers", "", column) / 1000 for column in (2, 3, 4)]
    [gigabytes] = read_numbers(re.findall(r"real runs, ([\d.]+) GB", RESULTS)[0])
    kilobytes = round(gigabytes * 1e6 / 1_100_000, 1)
    streaming = rate * tokens / find("P6", "tokens", AFTER) / busy
    apis = max(2, math.ceil(rate * api / busy + streaming))
    workers = math.ceil(rate * seconds / 256)
    of_processes = (apis + workers) * find("P12", "idle `serve`", AFTER)
    of_run = find("P12", "active run", AFTER) + find("P8", "memory of an idle reader", AFTER)
    memory = (of_processes + rate * seconds * of_run / 1024) / 1024
    assert {name: CELLS[name] for name in EXAMPLE} == {
        "cores for streamed tokens": f"{streaming:.1f}",
        "API processes": f"{apis}",
        "workers, by CPU": f"{max(2, math.ceil(rate * worker / busy))}",
        "workers, by active runs": f"{workers}",
        "cores of PostgreSQL": f"{math.ceil(rate * postgres / busy)}",
        "connections, at most": f"{(apis + workers) * (pool + 2)}",
        "memory of all processes, at most": f"{memory:.1f} GiB",
        "disk space per day": f"{rate * 86_400 * kilobytes / 1e6:.0f} GB",
    }
    assert CELLS["disk space of a finished or parked run, with indexes"] == f"{kilobytes} KB"
    of_primary = 32 * busy / round(postgres, 4)
    for text in (
        f"at about {1 / api:.0f} runs per second",
        f"output of about {find('P6', 'tokens', AFTER) // tokens:.0f} runs",
        f"the worker at about {1 / worker:.0f}",
        f"about {of_primary:,.0f} runs per second, or {of_primary * 86_400 / 1e6:.0f} million",
    ):
        assert text in " ".join(PAGE.split())


EXAMPLE: Final = (
    *("cores for streamed tokens", "API processes", "workers, by CPU", "workers, by active runs"),
    *("cores of PostgreSQL", "connections, at most", "memory of all processes, at most"),
    "disk space per day",
)
