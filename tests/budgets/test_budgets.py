"""Budgets of a run. See `tests.budgets`."""

import sys

import pytest

from tests.budgets import table
from tests.budgets.measure import measure


@pytest.mark.timeout(240)
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions make other calls")
def test_each_kind_of_run_keeps_its_budgets(database_url: str) -> None:
    budgets = table.read_budgets()
    lines = table.compare(measure(database_url, budgets), budgets)
    if lines:
        update = f"If this change is intended, run {table.UPDATE} and commit both files."
        pytest.fail("\n".join([*lines, update]), pytrace=False)


def test_the_page_shows_the_budgets() -> None:
    page = table.PAGE.read_text()
    assert table.find_table(page) == table.render(table.read_budgets()), table.UPDATE


def test_a_higher_count_exceeds_its_budget() -> None:
    budgets = table.read_budgets()
    changed = {kind: dict(counts) for kind, counts in budgets.items()}
    changed["plain answer"]["statements"] += 1
    changed["one webhook call"]["tasks"] -= 10
    exceeded, lowered = table.compare(changed, budgets)
    assert "plain answer" in exceeded and "exceeds the budget" in exceeded
    assert "one webhook call" in lowered and "lower it" in lowered
    assert table.compare(budgets, budgets) == []
