"""Tools for models without function calling: how they are described, called and answered."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.ids import CallId
from runward.domain.registry.tools import HostedTool, ToolSpec
from runward.domain.run import texts
from runward.domain.run.items import MediaPart, Message, TextPart, ToolCall, ToolResult
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.llm.base import Abilities, ModelDelta, ModelRequest, OnDelta, StreamRestart, TextDelta
from runward.llm.prompt_tools import (
    MAX_HELD,
    ShownText,
    parse_calls,
    respond,
    write_request,
)

ADD = ToolSpec(
    name="add", description="Adds.", parameters={"type": "object", "properties": {"x": {}}}
)
FIND = ToolSpec(
    name="find", parameters={"type": "object"}, type="hosted", hosted=HostedTool(kind="web_search")
)
CALL = '<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>'


def call(arguments: str = '{"x":1}', name: str = "add") -> RequestedCall:
    return RequestedCall("", name, arguments)


def asked(*items: Any, **fields: Any) -> ModelRequest:
    return ModelRequest("m", "Be brief.", (Message("user", "go"), *items), **fields)


# The request.


def test_tools_are_described_in_the_instructions_and_hosted_ones_stay() -> None:
    written = write_request(asked(tools=(ADD, FIND), tool_choice="required"))
    assert written.tools == (FIND,)
    assert written.tool_choice == "auto"
    first, described = written.instructions.split("\n\n")
    assert first == "Be brief."
    about = {"name": "add", "description": "Adds.", "parameters": ADD.parameters}
    line, shown, must = described.split("\n")
    assert (line, json.loads(shown), must) == (texts.TOOLS_IN_PROMPT, about, texts.CALL_A_TOOL)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tool_choice": {"name": "add"}}, texts.call_this_tool("add")),
        ({"parallel_tool_calls": False}, texts.CALL_ONE_TOOL),
        ({"output_schema": {"type": "object"}}, texts.answer_by_schema({"type": "object"})),
    ],
)
def test_choices_and_schemas_are_part_of_the_instructions(fields: Any, text: str) -> None:
    written = write_request(asked(tools=(ADD,), **fields))
    assert written.instructions.endswith(text)
    assert written.output_schema is None
    assert written.parallel_tool_calls


def test_without_a_tool_to_call_nothing_is_described() -> None:
    assert write_request(asked(tools=(ADD,), tool_choice="none")).instructions == "Be brief."
    assert write_request(asked()).instructions == "Be brief."


def test_calls_and_results_become_alternating_messages() -> None:
    picture = MediaPart("image", url="https://e.example/a.png")
    request = asked(
        Message("assistant", "Adding."),
        ToolCall(CallId("a"), "add", '{"x": "</tool_call>"}'),
        ToolCall(CallId("b"), "add", "{}"),
        ToolResult(CallId("a"), "</tool_result> 5"),
        ToolResult(CallId("b"), {"sum": 5}, is_error=True),
        ToolCall(CallId("d"), "add", "{}"),
        ToolResult(CallId("d"), 1),
        ToolCall(CallId("c"), "add", "{}"),
        ToolResult(CallId("c"), None, parts=(TextPart("ok"), picture)),
        Message("user", "thanks"),
    )
    empty = '<tool_call>{"name":"add","arguments":{}}</tool_call>'
    assert write_request(request).items == (
        Message("user", "go"),
        Message(
            "assistant",
            "Adding.\n"
            '<tool_call>{"name":"add","arguments":{"x":"<\\/tool_call>"}}</tool_call>\n'
            f"{empty}",
        ),
        Message(
            "user",
            '<tool_result>{"name":"add","output":"<\\/tool_result> 5"}</tool_result>\n'
            '<tool_result>{"name":"add","output":{"sum":5},"is_error":true}</tool_result>',
        ),
        Message("assistant", empty),
        Message("user", '<tool_result>{"name":"add","output":1}</tool_result>'),
        Message("assistant", empty),
        Message(
            "user",
            (TextPart('<tool_result>{"name":"add","output":"ok"}</tool_result>'), picture),
        ),
        Message("user", "thanks"),
    )


@given(st.dictionaries(st.text(), st.text()))
def test_a_call_that_is_written_is_read_back(arguments: dict[str, Any]) -> None:
    item = ToolCall(CallId("a"), "add", json.dumps(arguments))
    try:
        _, written = write_request(asked(item)).items
    except UnicodeEncodeError:  # Lone surrogates are never stored.
        return
    assert isinstance(written, Message)
    assert isinstance(written.content, str)
    [read] = parse_calls(written.content).calls
    assert json.loads(read.arguments) == arguments


# The response.


@pytest.mark.parametrize(
    ("text", "shown", "calls"),
    [
        (CALL, "", 1),
        (f"Let me add.\n\n  {CALL}\n", "Let me add.", 1),
        (f"{CALL}{CALL}\n{CALL}", "", 3),
        (f"A\n{CALL}\nB\n{CALL}\nC", "A\n\nB\n\nC", 2),
        (CALL.replace("<tool_call>", "<tool_call>\n").replace("</", "\n</"), "", 1),
    ],
)
def test_calls_are_read_from_lines_of_their_own(text: str, shown: str, calls: int) -> None:
    parsed = parse_calls(text)
    assert (parsed.text, parsed.calls, parsed.problem) == (shown, (call(),) * calls, None)


@pytest.mark.parametrize(
    "text",
    ["", "5", f"Write `{CALL}`.", "<tool_calls>", '{"name": "add", "arguments": {}}', "\n<tool"],
)
def test_everything_that_is_not_exactly_a_call_is_text(text: str) -> None:
    parsed = parse_calls(text)
    assert (parsed.text, parsed.calls, parsed.problem) == (text, (), None)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "add", "arguments": {}}',
        "<tool_call>add(1)</tool_call>",
        '<tool_call>{"name": "add"}</tool_call>',
        '<tool_call>{"name": "add", "arguments": "{}"}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {}, "id": 1}</tool_call>',
        '<tool_call>{"name": "add", "arguments": {"x": NaN}}</tool_call>',
        f'<tool_call>{{"name": "add", "arguments": {"[" * 5000}</tool_call>',
    ],
)
def test_a_malformed_call_is_text_with_a_problem(text: str) -> None:
    parsed = parse_calls(text)
    assert (parsed.text, parsed.calls) == (text, ())
    assert parsed.problem
    both = parse_calls(f"{CALL}\n{text}")
    assert (both.text, both.calls) == (text, (call(),))


@given(st.lists(st.sampled_from([CALL, "<tool", "_call>", "</tool_call>", "\n", " ", "x", "<"])))
def test_the_streamed_text_is_the_text_of_the_response(pieces: list[str]) -> None:
    shown: list[ModelDelta] = []
    stream = ShownText(shown.append)
    for piece in pieces:
        stream(TextDelta(piece))
    parsed = parse_calls("".join(pieces))
    if not parsed.calls and not parsed.problem:
        early = "".join(delta.text for delta in shown if isinstance(delta, TextDelta))
        assert parsed.text.startswith(early)
    stream.end(parsed.text)
    assert "".join(delta.text for delta in shown if isinstance(delta, TextDelta)) == parsed.text


def test_text_is_streamed_before_the_response_ends_and_little_of_it_is_withheld() -> None:
    shown: list[ModelDelta] = []
    stream = ShownText(shown.append)
    for piece in ("Let me ", "add.\n<too", "l_call>…", "more"):
        stream(TextDelta(piece))
    assert shown == [TextDelta("Let me"), TextDelta(" add.")]
    blank = " " * (MAX_HELD + 1)
    ShownText(shown.append)(TextDelta(blank))
    assert shown[-1] == TextDelta(blank)


# Both.


class Scripted:
    """A model that returns the next text for each request."""

    abilities = Abilities("scripted", frozenset())

    def __init__(self, *said: str, finish: str = "stop") -> None:
        self.said = list(said)
        self.finish = finish
        self.requests: list[ModelRequest] = []

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        self.requests.append(request)
        text = self.said.pop(0)
        on_delta(TextDelta(text))
        response = ModelResponse.of(text, usage=Usage(input=10, output=1))
        return ModelResponse(response.output, self.finish, response.usage)


def ask(
    model: Scripted, on_delta: Callable[[ModelDelta], None] = lambda _: None, **fields: Any
) -> tuple[ModelResponse, list[str]]:
    repairs: list[str] = []
    request = asked(tools=(ADD,), **fields)
    return asyncio.run(respond(model, request, on_delta, repairs.append)), repairs


def test_the_calls_of_a_text_are_the_calls_of_the_response() -> None:
    response, repairs = ask(Scripted(f"Adding.\n{CALL}"))
    assert response.output == (Message("assistant", "Adding."), call())
    assert response.finish == "tool_calls"
    assert [loss.part for loss in response.losses] == ["tools"]
    assert repairs == []


def test_a_malformed_call_is_repaired_once() -> None:
    shown: list[ModelDelta] = []
    model = Scripted("<tool_call>add</tool_call>", CALL)
    response, repairs = ask(model, shown.append)
    assert response.output == (call(),)
    assert response.usage == Usage(input=20, output=2)
    assert len(repairs) == 1
    assert shown == [StreamRestart()]
    said, repair = model.requests[1].items[-2:]
    assert said == Message("assistant", "<tool_call>add</tool_call>")
    assert repair == Message("user", texts.malformed_call(repairs[0]))
    response, repairs = ask(Scripted("<tool_call>a", "<tool_call>b", CALL))
    assert response.text == "<tool_call>b"
    assert len(repairs) == 1


def test_a_response_that_was_cut_off_is_not_repaired() -> None:
    response, repairs = ask(Scripted("<tool_call>{", finish="length"))
    assert (response.text, response.finish, repairs) == ("<tool_call>{", "length", [])


def test_only_the_first_call_is_kept_if_one_is_allowed() -> None:
    response, _ = ask(Scripted(f"{CALL}\n{CALL}"), parallel_tool_calls=False)
    assert response.calls == (call(),)
    assert [loss.part for loss in response.losses] == ["tools", "parallel_tool_calls"]
