"""Numbers and tables in Markdown."""

import math
from collections.abc import Sequence

NOTHING = "-"


def number(value: float) -> str:
    """Return a number with about three digits, or a dash for NaN."""
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


def ratio(value: float, base: float) -> str:
    """Return `value / base`. A short load may use less CPU time than the kernel counts: zero."""
    return f"{number(value / base)} x" if base else NOTHING


def head(names: Sequence[str], *, left: int) -> list[str]:
    """Return the first two lines of a table. The first `left` columns are aligned to the left."""
    return [row(names), row(["---"] * left + ["--:"] * (len(names) - left))]


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
