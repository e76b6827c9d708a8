"""A search over tools, and which of many tools a model is shown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import MAX_VISIBLE_TOOLS
from runward.domain.run.state import Call, CallOutcome, CallPhase, Result, RunState
from runward.domain.run.tool_search import (
    MAX_FOUND,
    list_loaded_tools,
    must_search,
    search,
    visible_registered_tools,
)
from runward.domain.run.tools import CompiledTool
from tests.support.operations import counted_scans
from tests.unit.domain_cases import call, state, tool


def spec(name: str, description: str = "", *properties: str) -> ToolSpec:
    schemas: JsonObject = {one: {"type": "string"} for one in properties}
    parameters: JsonObject = {"type": "object", "properties": schemas}
    return ToolSpec(name=name, description=description, parameters=parameters, strict=False)


def named(*specs: ToolSpec) -> dict[str, ToolSpec]:
    return {one.name: one for one in specs}


SHOP = named(
    spec("refund_order", "Gives a customer money back.", "order", "amount"),
    spec("getInvoiceLines", "The lines of an invoice.", "invoice_id"),
    spec("list_entries", "All entries of a ledger, with the customer's name."),
    spec("ship", "Sends a parcel to an address.", "orderNumber"),
    spec("erstatten", "退款订单 Überweisungen an Kunden"),
    spec("s3_upload", "Puts a file into a bucket."),
    spec("noop", "Does nothing."),
)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("refund", "refund_order"),
        ("REFUNDING orders", "refund_order"),
        ("money", "refund_order"),
        ("invoices", "getInvoiceLines"),
        ("lines", "getInvoiceLines"),
        ("ledger entry", "list_entries"),
        ("address", "ship"),
        ("addresses", "ship"),
        ("order number", "ship"),
        ("parc", "ship"),
        ("退款", "erstatten"),
        ("überweisung", "erstatten"),
        ("upload to s3", "s3_upload"),
        ("please load `ship`, thanks to all customers", "ship"),
        ("list_entries or refunds of orders", "list_entries"),
    ],
)
def test_a_tool_is_found_by_what_it_is_called_takes_and_does(query: str, first: str) -> None:
    assert search(query, SHOP, 5)[0]["name"] == first


@pytest.mark.parametrize("query", ["", "  ", "?!", "zebra", "_"])
def test_a_query_that_nothing_fits_finds_nothing(query: str) -> None:
    assert search(query, SHOP, 5) == []
    assert search("refund", {}, 5) == []


def test_a_word_in_the_name_counts_more_than_one_in_the_description() -> None:
    tools = named(spec("a", "pay, pay and pay"), spec("b", "", "pay"), spec("pay"))
    assert [one["name"] for one in search("pay", tools, 5)] == ["pay", "a", "b"]


def test_a_tool_s_whole_name_wins() -> None:
    tools = named(spec("pay_pay", "pay"), spec("pay"), spec("Pay-out"))
    assert search("call `pay` now", tools, 5)[0]["name"] == "pay"
    assert search("Pay-out", tools, 5)[0]["name"] == "Pay-out"


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    common = [spec(f"order_{i}", "Works on an order.") for i in range(10)]
    tools = named(*common, spec("x", "Escalates."))
    assert search("escalate order", tools, 5)[0]["name"] == "x"


def test_what_is_found_is_short_and_bounded() -> None:
    huge = spec("huge", "word " * 3000, *(f"{i:03}{'p' * 200}" for i in range(100)))
    [found] = search("word", named(huge), 5)
    assert found.keys() == {"name", "description", "parameters"}
    assert len(compact(found)) < 1500
    many = named(*(spec(f"word_{i}") for i in range(100)))
    assert len(search("word", many, 1000)) == MAX_FOUND
    assert [one["name"] for one in search("word", many, 2)] == ["word_0", "word_1"]


def test_a_tool_without_declared_parameters_has_none_to_show() -> None:
    bare = ToolSpec(name="bare", parameters={"type": "object"})
    assert search("bare", {"bare": bare}, 1) == [
        {"name": "bare", "description": "", "parameters": []}
    ]


@given(st.text(max_size=80), st.integers(1, 10))
def test_any_query_gives_the_same_answer_twice(query: str, limit: int) -> None:
    once = search(query, SHOP, limit)
    assert once == search(query, SHOP, limit)
    assert len(once) <= limit
    assert {str(one["name"]) for one in once} <= SHOP.keys()


# Which tools are shown.


def many(count: int) -> dict[str, CompiledTool]:
    made = [tool(f"tool_{i}", description=f"Does thing {i}. " + "x" * 200) for i in range(count)]
    return {one.name: one for one in made}


def found(*names: str, turn: int = 1, position: int = 0, **fields: Any) -> Call:
    tools: list[JsonObject] = [{"name": name} for name in names]
    output: JsonObject = {"tools": [*tools, "?", {"name": 7}], "note": "…"}
    values: dict[str, Any] = {"result": Result(CallOutcome.COMPLETED, output), "version": 0}
    values |= {"tool": "search_tools", "turn": turn, "position": position} | fields
    return call(f"s{turn}.{position}", CallPhase.SETTLED, **values)


def called(name: str, turn: int = 1, position: int = 0, version: int | None = 1) -> Call:
    id_ = f"c{turn}.{position}"
    return call(id_, CallPhase.SETTLED, tool=name, version=version, turn=turn, position=position)


def names_shown(
    run: RunState, enabled: dict[str, CompiledTool], room: int = MAX_VISIBLE_TOOLS - 1
) -> list[str]:
    return list(visible_registered_tools(run, enabled, room))


def test_up_to_64_tools_are_all_shown() -> None:
    few = many(MAX_VISIBLE_TOOLS)
    assert not must_search(state(), few)
    assert visible_registered_tools(state(), few, 0) == few


def test_an_agent_with_more_tools_is_shown_none_before_it_searched() -> None:
    assert must_search(state(), many(MAX_VISIBLE_TOOLS + 1))
    assert names_shown(state(), many(MAX_VISIBLE_TOOLS + 1)) == []


def test_an_agent_may_ask_to_search_fewer_tools_too() -> None:
    run = state([found("tool_1")], config={"tools": ["tool_0", "tool_1", "search_tools"]})
    assert must_search(run, many(2))
    assert names_shown(run, many(2)) == ["tool_1"]


def deferring(shown: int, deferred: int) -> dict[str, CompiledTool]:
    hidden = [tool(f"rare_{i}", defer=True) for i in range(deferred)]
    return many(shown) | {one.name: one for one in hidden}


def test_a_deferred_tool_is_shown_after_a_search_found_it_and_others_from_the_start() -> None:
    tools = deferring(2, 3)
    assert must_search(state(), tools)
    assert names_shown(state(), tools) == ["tool_0", "tool_1"]
    run = state([found("rare_1", "tool_0")])
    assert names_shown(run, tools) == ["tool_0", "tool_1", "rare_1"]
    chosen = state(config={"tool_choice": {"name": "rare_2"}})
    assert names_shown(chosen, tools) == ["tool_0", "tool_1", "rare_2"]


def test_deferred_tools_do_not_hide_others_and_found_ones_always_fit() -> None:
    tools = deferring(MAX_VISIBLE_TOOLS, 30)
    assert len(names_shown(state(), tools)) == MAX_VISIBLE_TOOLS
    run = state([found(*(f"rare_{i}" for i in range(30)))])
    assert len(names_shown(run, tools)) == MAX_VISIBLE_TOOLS + MAX_FOUND
    assert len(names_shown(run, deferring(2, 30), room=10)) == 2 + MAX_FOUND
    assert len(names_shown(run, deferring(MAX_VISIBLE_TOOLS + 1, 30))) == 30


def test_what_was_found_or_called_or_must_be_called_is_shown_in_the_agent_s_order() -> None:
    run = state(
        [found("tool_80", "tool_3"), called("tool_70", turn=2), called("tool_9", 2, 1, None)],
        config={"tool_choice": {"name": "tool_77"}},
    )
    assert list_loaded_tools(run) == ("tool_77", "tool_70", "tool_80", "tool_3")
    assert names_shown(run, many(100)) == ["tool_3", "tool_70", "tool_77", "tool_80"]


def test_a_tool_that_is_not_enabled_any_more_takes_no_room() -> None:
    run = state([found("gone", "gone_too", "tool_5", "tool_6")])
    assert names_shown(run, many(100), room=1) == ["tool_5"]


def test_when_there_is_no_room_the_latest_stay() -> None:
    run = state([found("tool_1", "tool_2"), found("tool_3", "tool_4", turn=2)])
    assert names_shown(run, many(100), room=3) == ["tool_1", "tool_3", "tool_4"]
    assert names_shown(run, many(100), room=0) == []


@pytest.mark.parametrize(
    "result",
    [
        None,
        Result(CallOutcome.FAILED, "no"),
        Result(CallOutcome.COMPLETED, {"tools": "a hook said so"}),
        Result(CallOutcome.COMPLETED, None),
    ],
)
def test_a_search_without_a_usable_result_loads_nothing(result: Result | None) -> None:
    run = state([replace(found("tool_1"), result=result)])
    assert list_loaded_tools(run) == ()


def test_with_500_tools_the_prompt_s_tools_stay_bounded() -> None:
    """However often the model searches."""
    tools = many(500)
    specs = {name: one.spec for name, one in tools.items()}
    run = state()
    for turn in range(1, 31):
        hits = search(f"thing {turn * 16}", specs, MAX_FOUND)
        assert len(hits) == MAX_FOUND
        run = run.with_call(found(*(str(hit["name"]) for hit in hits), turn=turn))
        prompt = [one.spec for one in visible_registered_tools(run, tools).values()]
        assert len(prompt) <= MAX_VISIBLE_TOOLS - 1
        assert {one.name for one in prompt} >= {str(hit["name"]) for hit in hits}
        assert (
            len(compact([[one.name, one.description, one.parameters] for one in prompt])) < 20_000
        )


def test_a_query_of_many_unknown_words_does_not_read_every_word_for_each_of_them() -> None:
    words = [f"{letter}{other}x" for letter in "abcdefghij" for other in "klmnopqrstuvwxyz"]
    tools = named(*(spec(f"tool_{n}", " ".join(words), *words) for n in range(20)))
    search("to be indexed", tools, MAX_FOUND)
    query = " ".join(f"{letter}{n}" for letter in "абвгдеж" for n in range(40))
    with counted_scans() as scanned:
        assert search(query, tools, MAX_FOUND) == []
    assert scanned[0] < 100_000
