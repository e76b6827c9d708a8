"""The stored budgets, their table in the documentation, and the comparison with measured counts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.budgets.measure import KINDS, Counts, exceeds

FILE: Final = Path(__file__).with_name("budgets.json")
PAGE: Final = Path(__file__).parents[2] / "docs" / "explanation" / "performance.md"
MIN_RATIO: Final = 0.9
"""A lower count needs a lower budget."""
UPDATE: Final = "`python -m tests.budgets --write`"
ROWS: Final = {
    "statements": "SQL statements",
    "round trips": "round trips to PostgreSQL",
    "write transactions": "transactions that write or notify",
    "rows written": "rows inserted, updated or deleted",
    "bytes to PostgreSQL": "bytes sent to PostgreSQL",
    "tasks": "asyncio tasks",
    "callbacks": "callbacks scheduled with `call_soon`",
    "timers": "timers",
    "greenlet switches": "greenlet switches",
    "lookups of the event loop": "calls of `get_running_loop`",
    "socket writes": "system calls that write to sockets",
    "bytes to clients": "bytes sent to clients",
    "function calls": "calls of Python functions",
    "cyclic garbage": "objects that only a garbage collection frees",
    "copies of the answer in memory": "copies of an answer of 1 MiB in memory at the same time",
    "copies of the answer to PostgreSQL": "times that this answer is sent to PostgreSQL",
}


def read_budgets() -> dict[str, Counts]:
    return json.loads(FILE.read_text())


def write_budgets(measured: Mapping[str, Counts]) -> None:
    """Store the counts as budgets, also in the documentation."""
    kept = {kind: {row: counts[row] for row in ROWS} for kind, counts in measured.items()}
    FILE.write_text(json.dumps(kept, indent=2) + "\n")
    page = PAGE.read_text()
    PAGE.write_text(page.replace(find_table(page), render(kept)))


def find_table(page: str) -> str:
    """Return the table of budgets in the page."""
    begin = page.index("| count |")
    return page[begin : page.index("\n\n", begin)]


def render(budgets: Mapping[str, Counts]) -> str:
    names = [kind.name for kind in KINDS]
    lines = [f"| count | {' | '.join(names)} |", "|---|" + "--:|" * len(names)]
    for row, title in ROWS.items():
        values = (f"{budgets[name][row]:,}" for name in names)
        lines.append(f"| {title} | {' | '.join(values)} |")
    return "\n".join(lines)


def compare(measured: Mapping[str, Counts], budgets: Mapping[str, Counts]) -> list[str]:
    """Return one line for each count that differs from its budget."""
    lines: list[str] = []
    for kind, counts in measured.items():
        for row in ROWS:
            count, budget = counts[row], budgets[kind][row]
            if exceeds(row, count, budget):
                lines.append(f"{kind}: {count:,} {row}, which exceeds the budget of {budget:,}")
            elif count + 1 < budget * MIN_RATIO:
                lines.append(f"{kind}: only {count:,} {row}. The budget is {budget:,}: lower it")
    return lines
