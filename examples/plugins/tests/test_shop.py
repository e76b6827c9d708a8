"""Tests of a plugin's tools, which need no server, database or model."""

import asyncio

import pytest
from runward_shop import convert, describe, no_card_numbers, refund, report, ship
from runward_shop.orders import Stock

from runward.tools import GuardContext, Reject
from runward.tools.testing import approval_of, run_tool_sync, schema_of


def test_a_plain_function_is_a_tool() -> None:
    assert run_tool_sync(convert, {"amount": 10, "currency": "USD"}).output == 11.0
    shown = schema_of(convert)["properties"]
    assert shown["currency"]["description"] == "What to convert it to."


def test_arguments_that_do_not_fit_never_reach_the_function() -> None:
    result = run_tool_sync(convert, {"amount": 10, "currency": "DKK"})
    assert "arguments.currency" in result.message


@pytest.mark.parametrize(
    ("amount", "tier", "asked"),
    [(50, None, False), (200, None, True), (200, "gold", False), (600, "gold", True)],
)
def test_large_refunds_need_a_person(amount: int, tier: str | None, *, asked: bool) -> None:
    arguments = {"order": "ord_1", "amount": amount}
    assert asyncio.run(approval_of(refund, arguments, context={"tier": tier})) is asked


def test_a_refund_has_a_reference() -> None:
    result = run_tool_sync(refund, {"order": "ord_1", "amount": 5})
    assert result.output["reference"].startswith("re_")


def test_shipping_tells_its_progress_and_remembers() -> None:
    result = run_tool_sync(ship, {"orders": ["a", "b"]}, state={"shipped": ["z"]})
    assert result.progress == ((0.5, "1 of 2"), (1.0, "2 of 2"))
    assert result.state == {"shipped": ["z", "a", "b"]}
    assert run_tool_sync(ship, {"orders": []}).message.startswith("There is nothing to ship")


def test_an_agent_writes_the_description() -> None:
    told = {"title": "Tea", "text": "Black tea."}
    result = run_tool_sync(describe, {"article": "tea"}, agents={"writer": told})
    assert result.output == told


def test_the_stock_is_an_object() -> None:
    result = run_tool_sync(Stock({"tea": 1}), {"article": "tea"})
    assert result.output == {"article": "tea", "count": 1}


def test_the_report_runs_in_a_process_of_its_own() -> None:
    assert run_tool_sync(report, {"days": 3}).output == "5 euros in 3 days"


def test_card_numbers_are_stopped() -> None:
    ctx = GuardContext("input", "run_1", None, "ship", "c1", {})
    verdict = no_card_numbers(ctx, {"arguments": {"orders": ["4111111111111111"]}})
    assert isinstance(verdict, Reject)
    assert no_card_numbers(ctx, {"arguments": {"orders": ["a"]}}) is None
