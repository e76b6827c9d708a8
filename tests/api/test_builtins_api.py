"""Runward's own tools, over HTTP: reading what was cut, searching tools and history."""

import json
from typing import Final

import pytest

from runward.domain.run import texts
from tests.api.project import Project, call, result_of
from tests.hostile.mcp_peer import McpPeer, listing
from tests.support.models.chat_server import Call, calls, text
from tests.support.services.client import Json
from tests.support.tools.server import Behaviour

ROWS: Final = "\n".join(f"row {n}: " + "ä" * 20 for n in range(2000))
MANY: Final = 500
OBJECT: Final = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def asks(number: int, name: str, **arguments: object) -> Call:
    return call(number, name, json.dumps(arguments))


# -- read_result ----------------------------------------------------------------------------------


def test_a_cut_result_is_read_whole_with_a_tool_that_appears_then(project: Project) -> None:
    project.tool("rows", Behaviour("raw", value=ROWS), max_output_bytes=1024)
    run = project.run(
        calls(call(1, "rows")),
        calls(asks(2, "read_result", call_id="c1", find="row 1000:", limit=64)),
        calls(asks(3, "read_result", call_id="c1", offset=10_000_000)),
        text("done"),
        tools=["rows"],
    )
    assert run["output"] == "done"
    first, second, *_ = project.asked()
    assert (first.tool_names, second.tool_names) == (["rows"], ["rows", "read_result"])
    cut = dict(second.results)["c1"]
    assert cut.startswith(texts.cut_result("c1"))
    assert "bytes omitted" in cut
    assert len(cut.encode()) < 1500
    piece = json.loads(result_of(project.asked(), "c2"))
    at = ROWS.encode().index(b"row 1000:")
    assert (piece["offset"], piece["bytes"]) == (at, len(ROWS.encode()))
    assert piece["text"].encode() == ROWS.encode()[at : piece["next_offset"]]
    end = json.loads(result_of(project.asked(), "c3"))
    assert (end["text"], end["next_offset"]) == ("", None)
    assert len(project.hits("rows")) == 1


def test_reading_a_result_is_a_call_in_the_ledger(project: Project) -> None:
    project.tool("rows", Behaviour("raw", value=ROWS), max_output_bytes=1024)
    run = project.run(
        calls(call(1, "rows")),
        calls(asks(2, "read_result", call_id="nobody's")),
        text("done"),
        tools=["rows"],
    )
    _, ledger = project.client.tool_calls(run["id"])
    assert (ledger["tool"], ledger["outcome"]) == ("read_result", "failed")
    assert ledger["output"] == texts.no_result("nobody's")


def test_read_result_is_unknown_while_nothing_was_cut(project: Project) -> None:
    run = project.run(calls(asks(1, "read_result", call_id="c1")), text("done"))
    [ledger] = project.client.tool_calls(run["id"])
    assert ledger["reason"] == "unknown_tool"


# -- search_tools ---------------------------------------------------------------------------------


def register_many(project: Project, peer: McpPeer) -> list[str]:
    """Return the tools of an MCP server, which one request registers, and one that can refund."""
    words = "Shows report number {} on quarterly figures. " + "More words. " * 20
    reports: list[Json] = [
        {"name": f"number_{n}", "description": words.format(n), "inputSchema": OBJECT}
        for n in range(MANY - 1)
    ]
    peer.answers["reports", "tools/list"] = listing(*reports)
    server = {"name": "reports", "url": peer.url_of("reports")}
    made = project.client.call("POST", "/v1/mcp_servers", server)
    project.tool("refund", description="Gives a customer the money for an order back.")
    return [*made["tool_names"], "refund"]


def numbers(n: int) -> str:
    """Twenty reports that no other `n` has."""
    return " ".join(str(number) for number in range(20 * n, 20 * n + 20))


def bytes_of_tools(body: Json) -> int:
    return len(json.dumps(body.get("tools", [])))


@pytest.mark.timeout(120)
def test_of_500_tools_a_model_is_shown_those_that_it_searched_for(project: Project) -> None:
    with McpPeer() as peer:
        names = register_many(project, peer)
    assert len(names) == MANY
    run = project.run(
        calls(call(1, "refund")),
        calls(asks(2, "search_tools", query="money back for an order", limit=3)),
        calls(call(3, "refund")),
        calls(*(asks(10 + n, "search_tools", query=numbers(n), limit=20) for n in range(8))),
        text("done"),
        tools=names,
    )
    assert run["output"] == "done"
    first, second, third, fourth, last = project.asked()
    assert first.tool_names == ["search_tools"]
    assert dict(second.results)["c1"] == texts.search_first("refund")
    found = json.loads(dict(third.results)["c2"])
    assert found["note"] == texts.TOOLS_FOUND
    assert found["tools"][0] == {
        "name": "refund",
        "description": "Gives a customer the money for an order back.",
        "parameters": ["x"],
    }
    assert "refund" in third.tool_names
    assert dict(fourth.results)["c3"] == "refund(1)"
    assert len(project.hits("refund")) == 1
    assert len(last.tool_names) == 64
    assert max(bytes_of_tools(request.body) for request in project.asked()) < 40_000


def test_an_agent_may_ask_to_search_a_few_tools(project: Project) -> None:
    for name in ("pay", "ship"):
        project.tool(name)
    run = project.run(
        calls(asks(1, "search_tools", query="ship")),
        text("done"),
        tools=["pay", "ship", "search_tools"],
    )
    assert run["output"] == "done"
    shown = [request.tool_names for request in project.asked()]
    assert shown == [["search_tools"], ["ship", "search_tools"]]


def test_a_deferred_tool_is_found_by_a_search_only(project: Project) -> None:
    project.tool("pay")
    project.tool("ship", defer=True)
    run = project.run(
        calls(asks(1, "ship")),
        calls(asks(2, "search_tools", query="ship")),
        calls(asks(3, "ship", x="1")),
        text("done"),
        tools=["pay", "ship"],
    )
    assert run["output"] == "done"
    shown = [request.tool_names for request in project.asked()]
    few = ["pay", "search_tools"]
    assert shown == [few, few, ["pay", "ship", "search_tools"], ["pay", "ship", "search_tools"]]
    assert len(project.hits("ship")) == 1
    assert result_of(project.asked(), "c1") == texts.search_first("ship")


def test_a_search_that_finds_nothing_says_what_to_do(project: Project) -> None:
    project.tool("pay")
    project.run(
        calls(asks(1, "search_tools", query="zebra")), text("done"), tools=["pay", "search_tools"]
    )
    assert json.loads(result_of(project.asked(), "c1")) == {
        "tools": [],
        "note": texts.NO_TOOL_FOUND,
    }


# -- search_history -------------------------------------------------------------------------------


def test_an_agent_searches_what_was_said_in_the_session_before(project: Project) -> None:
    session = project.client.call("POST", "/v1/sessions", {})["id"]
    project.run(text("Noted."), input="My customer number is QX-4711.", session_id=session)
    asks_first = calls(asks(1, "search_history", query="customer number"))
    run = project.run(
        model=project.script(asks_first, text("QX-4711"), name="later"),
        tools=["search_history"],
        history={"max_exchanges": 0},
        session_id=session,
    )
    assert run["output"] == "QX-4711"
    first, last = project.asked("later")
    assert "QX-4711" not in json.dumps(first.messages)
    assert "QX-4711" in dict(last.results)["c1"]


def test_a_run_without_a_session_has_no_history_to_search(project: Project) -> None:
    project.run(
        calls(asks(1, "search_history", query="number")), text("done"), tools=["search_history"]
    )
    assert json.loads(result_of(project.asked(), "c1")) == {"results": [], "found": 0}


# -- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["read_result", "search_history", "search_tools", "transfer_to_billing"]
)
def test_a_reserved_name_cannot_be_registered(name: str, project: Project) -> None:
    body = {"name": name, "url": "https://tools.example/x", "parameters": OBJECT}
    problem = project.client.refused(422, "invalid_request", "POST", "/v1/tools", body)
    assert problem["errors"][0]["path"] == "name"
