"""The tools that Runward brings along: when they are shown, and what they answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import EXCEED_BUDGET, RESERVED_NAMES, ToolSpec, is_reserved
from runward.domain.run import texts
from runward.domain.run.builtins import (
    BUILTINS,
    MAX_OUTPUT,
    MAX_READ_BYTES,
    READ_BYTES,
    builtin_tools,
    invoke,
    visible_tools,
)
from runward.domain.run.config import MAX_VISIBLE_TOOLS
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.settle import make_completed_result
from runward.domain.run.state import Call, CallOutcome, CallPhase, Result, RunState
from runward.domain.run.tools import is_enabled, needs_approval
from runward.domain.schema.strict import strict_form
from tests.unit.domain_cases import call, state, tool

TEXT = "".join(f"Zeile {i}: häßlich €\n" for i in range(5000))


def finished(output: JsonValue, max_bytes: int = 256, id_: str = "c1") -> Call:
    return call(id_, CallPhase.SETTLED, result=make_completed_result(output, max_bytes))


def ask(
    name: str,
    run: RunState | None = None,
    tools: dict[str, ToolSpec] | None = None,
    **arguments: JsonValue,
) -> Outcome:
    """With arguments that the tool's schema has let pass."""
    assert BUILTINS[name].arguments.problems(arguments) == []

    def history(query: str, limit: int) -> JsonValue:
        return {"asked": query, "limit": limit}

    return invoke(name, arguments, run or state(), tools=tools or {}, search_history=history)


def answer(name: str, run: RunState | None = None, **arguments: Any) -> JsonObject:
    done = ask(name, run, **arguments)
    assert isinstance(done, Done)
    assert isinstance(done.output, dict)
    return done.output


def refusal(name: str, run: RunState | None = None, **arguments: Any) -> str:
    failed = ask(name, run, **arguments)
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.permanent) == (FailureKind.ERROR, True)
    assert failed.message is not None
    return failed.message


# What they are.


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_a_built_in_tool_may_always_be_called_again(name: str) -> None:
    one = BUILTINS[name]
    assert (one.name, one.version, one.spec.type) == (name, 0, "builtin")
    assert one.spec.idempotent
    assert is_enabled(one)
    assert not needs_approval(one)
    assert strict_form(one.spec.parameters)["additionalProperties"] is False


def test_their_names_and_those_of_handoffs_are_reserved() -> None:
    assert {*BUILTINS, EXCEED_BUDGET} == RESERVED_NAMES
    assert all(map(is_reserved, RESERVED_NAMES))
    assert is_reserved("transfer_to_billing")
    assert not is_reserved("transfer")
    assert not is_reserved("read_results")


# When they are shown.


def test_read_result_is_offered_as_soon_as_a_result_was_cut() -> None:
    assert builtin_tools(state(), {}) == {}
    assert builtin_tools(state([call(), finished("short", id_="c2")]), {}) == {}
    assert list(builtin_tools(state([call(), finished(TEXT, id_="c2")]), {})) == ["read_result"]


def test_an_agent_may_name_any_of_them() -> None:
    run = state(config={"tools": ["search_history", "lookup", "read_result"]})
    assert list(builtin_tools(run, {})) == ["read_result", "search_history"]


def test_with_more_than_64_tools_search_tools_is_offered() -> None:
    tools = {f"t{i}": tool(f"t{i}") for i in range(MAX_VISIBLE_TOOLS)}
    assert builtin_tools(state(), tools) == {}
    assert list(builtin_tools(state(), {**tools, "more": tool("more")})) == ["search_tools"]


def test_registered_tools_come_first_then_those_made_for_the_agent_then_the_built_in() -> None:
    run = state([finished(TEXT)], config={"tools": ["lookup", "search_history"]})
    others = {"transfer_to_b": tool("transfer_to_b")}
    names = list(visible_tools(run, {"lookup": tool()}, others))
    assert names == ["lookup", "transfer_to_b", "read_result", "search_history"]
    assert list(visible_tools(state(), {"lookup": tool()})) == ["lookup"]


def test_a_searching_agent_is_shown_64_tools_in_all() -> None:
    tools = {f"t{i}": tool(f"t{i}") for i in range(200)}
    found: list[JsonValue] = [{"name": name} for name in tools]
    search = Result(CallOutcome.COMPLETED, {"tools": found})
    run = state([call("s", CallPhase.SETTLED, tool="search_tools", version=0, result=search)])
    others = {f"transfer_to_{i}": tool(f"transfer_to_{i}") for i in range(16)}
    names = list(visible_tools(run, tools, others))
    assert len(names) == MAX_VISIBLE_TOOLS
    assert names[-17:] == [*others, "search_tools"]
    crowd = {f"step_{i}": tool(f"step_{i}") for i in range(100)}
    assert list(visible_tools(run, tools, crowd)) == [*crowd, "search_tools"]


# read_result.


def test_a_cut_result_can_be_read_whole_piece_by_piece() -> None:
    run = state([finished(TEXT)])
    pieces: list[str] = []
    offset: JsonValue = 0
    while offset is not None:
        piece = answer("read_result", run, call_id="c1", offset=offset)
        assert piece["offset"] == offset
        assert piece["bytes"] == len(TEXT.encode())
        assert len(str(piece["text"]).encode()) <= READ_BYTES
        pieces.append(str(piece["text"]))
        offset = piece["next_offset"]
    assert "".join(pieces) == TEXT


@given(
    st.text(min_size=1, max_size=60), st.integers(0, 300), st.integers(min_value=16, max_value=40)
)
def test_no_piece_cuts_a_character_and_reading_always_gets_on(
    text: str, offset: int, limit: int
) -> None:
    raw = text.encode()
    run = state([finished(text, 256)])
    piece = answer("read_result", run, call_id="c1", offset=offset, limit=limit)
    begin = piece["offset"]
    assert isinstance(begin, int)
    assert max(0, min(offset, len(raw)) - 3) <= begin <= offset
    shown_text = str(piece["text"]).encode()
    assert raw[begin : begin + len(shown_text)] == shown_text
    end = begin + len(shown_text)
    assert piece["next_offset"] == (end if end < len(raw) else None)
    assert end == len(raw) or begin + limit - 3 <= end <= begin + limit


def test_a_result_that_is_no_text_is_read_as_json() -> None:
    rows: JsonValue = [{"id": i} for i in range(200)]
    piece = answer("read_result", state([finished(rows)]), call_id="c1", limit=MAX_READ_BYTES)
    assert piece["text"] == compact(rows)
    assert piece["next_offset"] is None


def test_a_result_that_was_not_cut_can_be_read_too() -> None:
    piece = answer("read_result", state([finished("short")]), call_id="c1")
    assert piece == {"text": "short", "offset": 0, "bytes": 5, "next_offset": None}


def test_reading_can_begin_where_a_text_occurs() -> None:
    run = state([finished(TEXT)])
    first = answer("read_result", run, call_id="c1", find="Zeile 1", limit=16)
    assert str(first["text"]).startswith("Zeile 1: h")
    assert isinstance(first["offset"], int)
    after = first["offset"] + 1
    second = answer("read_result", run, call_id="c1", find="Zeile 1", offset=after, limit=16)
    assert str(second["text"]).startswith("Zeile 10: h")
    refused = refusal("read_result", run, call_id="c1", find="Zeile 0", offset=after)
    assert refused == texts.NOT_IN_RESULT


def test_numbers_may_be_written_as_json_allows() -> None:
    piece = answer("read_result", state([finished("abcdef")]), call_id="c1", offset=2.0)
    assert piece["text"] == "cdef"


def test_beyond_the_end_there_is_nothing() -> None:
    piece = answer("read_result", state([finished("short")]), call_id="c1", offset=10**30)
    assert piece == {"text": "", "offset": 5, "bytes": 5, "next_offset": None}


def test_only_finished_calls_of_the_run_can_be_read() -> None:
    run = state([call("open", CallPhase.STARTED), finished("x", id_="done")])
    assert refusal("read_result", run, call_id="open") == texts.no_result("open")
    assert refusal("read_result", run, call_id="other") == texts.no_result("other")


def test_what_is_read_is_never_cut_again() -> None:
    run = state([finished("\x01" * 200_000)])
    piece = answer("read_result", run, call_id="c1", limit=MAX_READ_BYTES)
    assert len(compact(piece).encode()) < MAX_OUTPUT
    assert make_completed_result(piece, BUILTINS["read_result"].spec.max_output_bytes).full is None


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"call_id": ""},
        {"call_id": "c1", "offset": -1},
        {"call_id": "c1", "limit": 0},
        {"call_id": "c1", "limit": MAX_READ_BYTES + 1},
        {"call_id": "c1", "find": ""},
        {"call_id": "c1", "other": 1},
    ],
)
def test_arguments_beyond_the_limits_are_refused(arguments: JsonObject) -> None:
    assert BUILTINS["read_result"].arguments.problems(arguments)


# The two searches.


def test_search_history_asks_the_history() -> None:
    assert answer("search_history", query="refund") == {"asked": "refund", "limit": 10}
    assert answer("search_history", query="refund", limit=3) == {"asked": "refund", "limit": 3}


def test_search_tools_says_what_can_be_called_now() -> None:
    tools = {name: tool(name, description="Pays.").spec for name in ("pay", "pay_back", "ship")}
    found = answer("search_tools", tools=tools, query="pay")
    assert found == {
        "tools": [
            {"name": "pay", "description": "Pays.", "parameters": []},
            {"name": "pay_back", "description": "Pays.", "parameters": []},
            {"name": "ship", "description": "Pays.", "parameters": []},
        ],
        "note": texts.TOOLS_FOUND,
    }
    one = answer("search_tools", tools=tools, query="ship", limit=1)["tools"]
    assert isinstance(one, list)
    assert len(one) == 1


def test_search_tools_says_what_to_do_when_it_finds_nothing() -> None:
    assert answer("search_tools", query="pay") == {"tools": [], "note": texts.NO_TOOL_FOUND}
