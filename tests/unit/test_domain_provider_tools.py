"""What only one provider understands: its own data of an item, what it ran by itself, and the tools
that it knows by kind."""

import json
from typing import Any

import pytest

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.json import JsonObject
from runward.domain.registry.provider_tools import (
    EXECUTORS,
    MCP_REQUEST,
    add_setting,
    default_hosted_approval,
    hosted_parameters,
)
from runward.domain.registry.tools import HostedTool
from runward.domain.run import texts
from runward.domain.run.config import HistoryLimits
from runward.domain.run.conversation import build_conversation
from runward.domain.run.history import search, trimmed_history
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    Native,
    Reasoning,
    TextPart,
    ToolCall,
)
from runward.domain.run.open_calls import recover
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.state import APPROVE_OR_REJECT, CallPhase, Changes
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import (
    call,
    event,
    only,
    output_of,
    phase_of,
    reason_of,
    state,
    take_response,
    tool,
    turn_with,
    types,
    wants,
)

NATIVE = Native("openai-responses", {"type": "mcp_approval_request", "id": "mcpr_1"})
FOUND = HostedCall("ws_1", "find", "web_search", "v", {"q": "otters"}, {"hits": 2}, {"id": "ws_1"})
LOST = HostedCall("ws_2", "find", "web_search", "v", {}, "Nobody is there.", {}, is_error=True)
LOOKUP = tool()
CRM = tool("crm", type="hosted", url=None, hosted={"kind": "mcp"}, approval="always",
           parameters=MCP_REQUEST)  # fmt: skip
FREE = tool("crm", type="hosted", url=None, hosted={"kind": "mcp"}, parameters=MCP_REQUEST)
SEARCH = tool("find", type="hosted", url=None, hosted={"kind": "web_search"})
ASKED = '{"server_label":"crm","name":"find","arguments":{}}'


def test_items_stay_in_the_order_in_which_the_model_made_them() -> None:
    thought = Reasoning("v", {"id": "rs_1"})
    said = Message("assistant", "Let me look.", native=Native("v", {"id": "msg_1"}))
    output = (thought, said, FOUND, wants("lookup", native=NATIVE), wants("lookup", id_="c2"))
    run, _ = take_response(state(), ModelResponse(output), turn_with(LOOKUP))
    assert run.segments[-1].items == (
        thought,
        said,
        FOUND,
        ToolCall(CallId("c1"), "lookup", "{}", native=NATIVE),
        ToolCall(CallId("c2"), "lookup", "{}"),
    )


def test_a_call_that_comes_twice_is_one_item_of_the_conversation() -> None:
    output = (wants("lookup"), FOUND, wants("lookup"))
    run, _ = take_response(state(), ModelResponse(output), turn_with(LOOKUP))
    assert [type(item) for item in run.segments[-1].items] == [ToolCall, HostedCall]


def test_what_cannot_be_stored_is_replaced_in_every_part_of_a_message() -> None:
    picture = MediaPart("image", url="https://e.example")
    said = Message("assistant", (TextPart("a\x00b"), picture))
    run, changes = take_response(state(), ModelResponse((said,)), turn_with())
    assert run.segments[-1].items == (Message("assistant", (TextPart("a\ufffdb"), picture)),)
    assert event(changes, "message.completed")["text"] == "a\ufffdb"


def test_a_refusal_stands_instead_of_what_else_was_said() -> None:
    output = (Message("assistant", "Well"), Message("assistant", "No.", refusal=True), FOUND)
    run, _ = take_response(state(), ModelResponse(output), turn_with())
    assert run.segments[-1].items == (Message("assistant", "No.", refusal=True), FOUND)


def test_what_a_provider_ran_is_told_with_both_its_ends_and_enters_no_ledger() -> None:
    run, changes = take_response(state(), ModelResponse((FOUND, LOST)), turn_with(SEARCH))
    assert run.calls == {}
    assert types(changes) == [
        "tool_call.created",
        "tool_call.completed",
        "tool_call.created",
        "tool_call.failed",
        "message.completed",
        "usage.updated",
    ]
    created = changes.events[0].data
    assert created == {
        "call_id": "ws_1",
        "tool": "find",
        "hosted": "web_search",
        "turn": 1,
        "agent": "clerk",
        "arguments": {"q": "otters"},
    }
    ended = event(changes, "tool_call.completed")
    assert (ended["hosted"], ended["output"]) == ("web_search", {"hits": 2})
    assert event(changes, "tool_call.failed")["output"] == "Nobody is there."


def test_only_what_a_hosted_server_s_provider_asks_is_a_call() -> None:
    for one, requested in (
        (SEARCH, wants("find")),
        (SEARCH, wants("find", native=NATIVE)),
        (CRM, wants("crm", ASKED)),
    ):
        run, _ = take_response(state(), ModelResponse((requested,)), turn_with(one))
        assert reason_of(run) is CallReason.UNKNOWN_TOOL
    run, changes = take_response(
        state(), ModelResponse((wants("crm", ASKED, native=NATIVE),)), turn_with(CRM)
    )
    assert phase_of(run) is CallPhase.AWAITING_APPROVAL
    assert changes.approvals[0].allowed_decisions == APPROVE_OR_REJECT


def test_what_a_provider_asks_must_be_a_request() -> None:
    requested = wants("crm", '{"name":"find","arguments":"?"}', native=NATIVE)
    run, _ = take_response(state(), ModelResponse((requested,)), turn_with(CRM))
    assert reason_of(run) is CallReason.INVALID_ARGUMENTS
    assert "arguments" in str(output_of(run))
    assert only(run).tool == "crm"


@pytest.mark.parametrize(
    ("kind", "arguments", "valid"),
    [
        ("shell", {"commands": ["ls"]}, True),
        ("shell", {"commands": ["ls"], "timeout_ms": 5, "max_output_length": 10}, True),
        ("shell", {"commands": []}, False),
        ("shell", {"commands": ["ls"], "timeout_ms": 0}, False),
        ("apply_patch", {"operation": {"type": "delete_file", "path": "a"}}, True),
        ("apply_patch", {"operation": {"type": "create_file", "path": "a"}}, False),
        ("apply_patch", {"operation": {"type": "update_file", "path": "a", "diff": "+b"}}, True),
        ("computer", {"actions": [{"type": "click", "x": 1, "y": 2}]}, True),
        ("computer", {"actions": [], "pending_safety_checks": [{"id": "c"}]}, True),
        ("computer", {"actions": ["click"]}, False),
    ],
)
def test_an_executor_takes_what_providers_send(kind: Any, arguments: Any, *, valid: bool) -> None:
    problems = Validator(EXECUTORS[kind].parameters).problems(arguments)
    assert (problems == []) is valid


def test_what_is_run_elsewhere_asks_a_person_where_it_can() -> None:
    search, mcp = HostedTool(kind="web_search"), HostedTool(kind="mcp")
    assert (default_hosted_approval(hosted=search), default_hosted_approval(hosted=mcp)) == (
        "never",
        "always",
    )
    assert (default_hosted_approval(implements="shell"), default_hosted_approval()) == (
        "always",
        "never",
    )
    assert hosted_parameters(mcp) == MCP_REQUEST
    assert hosted_parameters(search)["properties"] == {}


def test_a_response_of_parts_is_put_together_in_the_usual_order() -> None:
    asked, thought = RequestedCall("c1", "a", "{}"), Reasoning("v", {})
    whole = ModelResponse.of("Hi", [asked], refusal="No.", reasoning=[thought])
    assert [type(one) for one in whole.output] == [Reasoning, Message, Message, RequestedCall]
    assert (whole.text, whole.refusal) == ("Hi", "No.")
    assert (whole.calls, whole.reasoning) == ((asked,), (thought,))
    empty = ModelResponse.of(refusal="")
    assert (empty.text, empty.refusal) == ("", "")
    assert ModelResponse((Message("assistant", "a"), Message("assistant", "b"))).text == "ab"


def test_what_another_provider_ran_is_told_in_a_sentence() -> None:
    assert texts.hosted_call(FOUND) == '(Called find with {"q":"otters"}. Result: {"hits":2})'
    assert texts.hosted_call(LOST) == "(Called find with {}. Error: Nobody is there.)"
    long = HostedCall("i", "n", "k", "v", {}, "x" * (texts.MAX_HOSTED + 1), {})
    assert texts.hosted_call(long).endswith("x…)")


def test_a_session_keeps_and_finds_what_a_provider_ran() -> None:
    earlier: tuple[Item, ...] = (Message("user", "Look."), FOUND, Message("assistant", "Two."))
    assert trimmed_history([earlier], HistoryLimits()) == earlier
    found: Any = search([earlier], "otters", 5)
    assert [one["role"] for one in found["results"]] == ["hosted_call"]
    small = HistoryLimits(max_tokens=5)
    assert trimmed_history([earlier], small) == (), "the provider's own item counts as what it has"


def test_an_approved_request_s_answer_follows_it() -> None:
    run, _ = take_response(
        state(), ModelResponse((wants("crm", ASKED, native=NATIVE),)),
        turn_with(FREE),
    )  # fmt: skip
    assert phase_of(run) is CallPhase.READY
    assert [type(item) for item in build_conversation(run)] == [ToolCall]


def test_a_lost_worker_loses_nothing_of_what_only_the_provider_will_do() -> None:
    started = call("c1", CallPhase.STARTED, tool="crm")
    run = recover(state([started], fence=2), Changes(), lambda _: CRM)
    assert phase_of(run) is CallPhase.READY


SETTINGS: JsonObject = {"a": "1", "headers": {"X": "y"}, "list": [{"domain": "d"}, ["e"]]}


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("a", {"a": "s"}),
        ("new", {"new": "s"}),
        ("new.X-Key", {"new": {"X-Key": "s"}}),
        ("a.b", {"a": {"b": "s"}}),
        ("headers.X", {"headers": {"X": "s"}}),
        ("headers.X.Y", {"headers": {"X": "y", "X.Y": "s"}}),
        ("list.0.value", {"list": [{"domain": "d", "value": "s"}, ["e"]]}),
        ("list.1.0", {"list": [{"domain": "d"}, ["s"]]}),
    ],
)
def test_a_path_selects_the_setting_that_becomes_a_secret(path: str, changed: JsonObject) -> None:
    before = json.dumps(SETTINGS)
    assert add_setting(SETTINGS, path, "s") == SETTINGS | changed
    assert json.dumps(SETTINGS) == before


@pytest.mark.parametrize(
    "path",
    ["list.2.value", "list.x", "list.", "list.-1", pytest.param("list." + "9" * 5000, id="long")],
)
def test_a_path_to_a_missing_entry_is_an_error(path: str) -> None:
    with pytest.raises(LookupError):
        add_setting(SETTINGS, path, "s")
