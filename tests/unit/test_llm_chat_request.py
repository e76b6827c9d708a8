"""What Chat Completions is asked, checked against the rules of the strict model server."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.ids import CallId
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    Native,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)
from runward.llm.base import ModelRequest
from runward.llm.openai.chat.request import function_tool, messages, request_body
from runward.llm.openai.request_parts import Functions, is_strict
from runward.llm.settings import check_settings
from tests.support.models import chat_rules

PNG = MediaPart("image", data="aWNvbg==", media_type="image/png")
CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "string"}},
    "required": ["x"],
    "additionalProperties": False,
}


def call(call_id: str, name: str = "a", arguments: str = '{"x":"1"}') -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments)


def result(call_id: str, output: Any = "ok", *parts: TextPart | MediaPart) -> ToolResult:
    return ToolResult(CallId(call_id), output, parts=parts)


def body_of(*items: Item, stream: bool = True, **fields: Any) -> dict[str, Any]:
    request = ModelRequest("m", fields.pop("instructions", ""), items, **fields)
    body: dict[str, Any] = request_body(request, Functions(function_tool), stream=stream)
    assert chat_rules.check(body) == []
    return body


def spec(name: str = "a", **fields: Any) -> ToolSpec:
    return ToolSpec(name=name, parameters=CLOSED, **fields)


def test_instructions_become_a_system_message_only_if_there_are_any() -> None:
    said = Message("user", "hi")
    assert messages("", [said]) == [{"role": "user", "content": "hi"}]
    assert messages("be kind", [said])[0] == {"role": "system", "content": "be kind"}


def test_calls_join_the_text_before_them_and_results_follow_in_call_order() -> None:
    body = body_of(
        Message("user", "go"),
        Message("assistant", "I look."),
        call("c1", arguments='{ "x" : "1" }'),
        call("c2"),
        result("c2", None),
        result("c1", {"b": [1, "é"]}),
        Message("assistant", "done"),
    )
    asked = body["messages"][1]
    assert asked["content"] == "I look."
    assert [c["id"] for c in asked["tool_calls"]] == ["c1", "c2"]
    assert asked["tool_calls"][0]["function"]["arguments"] == '{ "x" : "1" }'
    assert body["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": '{"b":[1,"é"]}'},
        {"role": "tool", "tool_call_id": "c2", "content": "null"},
        {"role": "assistant", "content": "done"},
    ]


def test_words_and_pictures_between_calls_do_not_part_them_from_their_results() -> None:
    """Other providers' models say something between two calls, and run tools of their own."""
    hosted = HostedCall(
        CallId("h1"), "search", "web_search", "anthropic", {"query": "q"}, "found", {}
    )
    body = body_of(
        Message("user", "go"),
        call("c1"),
        Message("assistant", (TextPart("Look."), PNG)),
        call("c2"),
        hosted,
        result("c1"),
        result("c2"),
    )
    asked, first, second, attached = body["messages"][1:]
    assert [one["id"] for one in asked["tool_calls"]] == ["c1", "c2"]
    assert asked["content"].startswith("Look.\n(Attached in the next user message: image.)\n\n")
    assert "found" in asked["content"]
    assert [first["tool_call_id"], second["tool_call_id"]] == ["c1", "c2"]
    assert attached["content"][0]["text"] == "Attached to the assistant message above:"


@pytest.mark.parametrize("before", [(), (Message("assistant", ""),)])
def test_calls_without_text_have_no_content(before: tuple[Message, ...]) -> None:
    body = body_of(Message("user", "go"), *before, call("c1"), result("c1", ""))
    assert len(body["messages"]) == 3
    assert "content" not in body["messages"][1]
    assert body["messages"][2]["content"] == ""


def test_the_same_call_again_in_a_later_response_has_its_own_result() -> None:
    body = body_of(
        Message("user", "go"), call("c1"), result("c1", "1"), call("c1"), result("c1", "again")
    )
    assert [m["role"] for m in body["messages"][1:]] == ["assistant", "tool", "assistant", "tool"]


def test_text_parts_of_a_result_are_one_plain_string() -> None:
    body = body_of(
        Message("user", "go"), call("c1"), result("c1", [], TextPart("one"), TextPart("two"))
    )
    assert body["messages"][-1]["content"] == "one\ntwo"


def test_an_image_in_a_result_follows_the_last_result_in_a_user_message() -> None:
    body = body_of(
        Message("user", "go"),
        call("c1", "draw"),
        call("c2"),
        result("c1", [], TextPart("here"), PNG),
        result("c2"),
    )
    first, second, attached = body["messages"][2:]
    assert first["content"] == "here\n(Attached in the next user message: image.)"
    assert second["role"] == "tool"
    assert attached["role"] == "user"
    assert "c1 (draw)" in attached["content"][0]["text"]
    assert attached["content"][1]["image_url"]["url"] == "data:image/png;base64,aWNvbg=="


def test_parts_of_a_user_message_keep_their_kinds() -> None:
    file = MediaPart("file", data="eA==", media_type="text/plain", filename="x.txt")
    far = MediaPart("file", url="https://files.test/y.pdf", filename="y.pdf")
    picture = MediaPart("image", url="https://files.test/z.png")
    body = body_of(Message("user", (TextPart("see"), picture, file, far)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://files.test/z.png"}},
        {"type": "file", "file": {"filename": "x.txt", "file_data": "data:text/plain;base64,eA=="}},
        {"type": "text", "text": "(file y.pdf: https://files.test/y.pdf)"},
    ]


def test_an_image_of_the_assistant_is_not_lost() -> None:
    body = body_of(Message("assistant", (TextPart("look"), PNG)), call("c1"), result("c1"))
    assert [m["role"] for m in body["messages"]] == ["assistant", "user", "assistant", "tool"]
    assert body["messages"][1]["content"][1]["type"] == "image_url"


@pytest.mark.parametrize("provider", ["openai", "gemini"])
def test_a_signature_of_a_call_goes_back_only_to_its_provider(provider: str) -> None:
    extra: Any = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
    signed = ToolCall(CallId("c1"), "a", "{}", native=Native(provider, extra))
    sent: Any = messages("", [signed, result("c1")])
    shared = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    assert sent[0]["tool_calls"] == [shared | (extra if provider == "openai" else {})]


def reasoning(text: str, **data: Any) -> Reasoning:
    return Reasoning("openai", {"text": text, **data})


@pytest.mark.parametrize("tools", [True, False])
def test_reasoning_goes_back_to_a_server_that_expects_it(*, tools: bool) -> None:
    """DeepSeek requires it in all messages of the assistant if the request has tools, and otherwise
    only with calls."""
    expected = {"field": "reasoning_content"}
    sent: Any = messages(
        "",
        [
            reasoning("greet", **expected),
            Message("assistant", "Hi"),
            Message("user", "look"),
            reasoning("I look.", **expected),
            Message("assistant", "Looking."),
            call("c1"),
            call("c2"),
            result("c1"),
            result("c2"),
            call("c3"),
            result("c3"),
            reasoning("stop", **expected),
            Message("user", "again"),
            call("c4"),
            result("c4"),
        ],
        tools=tools,
    )
    shown = [one.get("reasoning_content") for one in sent if one["role"] == "assistant"]
    assert shown == ["greet" if tools else None, "I look.", "", ""]


def test_details_of_reasoning_go_back_unchanged_at_their_position() -> None:
    signed: Any = {"type": "reasoning.text", "text": "I look.", "signature": "c2ln", "index": 0}
    sealed: Any = {"type": "reasoning.encrypted", "data": "c2VhbGVk", "index": 0}
    sent: Any = messages(
        "",
        [
            reasoning("I look.", details=[signed, sealed]),
            call("c1"),
            result("c1"),
            reasoning("", details=[sealed]),
            Message("assistant", "Found."),
            Message("user", "thanks"),
            reasoning("polite"),
            Message("assistant", "Bye."),
        ],
    )
    spoken = [one for one in sent if one["role"] == "assistant"]
    assert [one.get("reasoning_details") for one in spoken] == [[signed, sealed], [sealed], None]
    assert not any("reasoning_content" in one for one in spoken)


def test_reasoning_stays_here() -> None:
    assert messages("", [Reasoning("openai-chat", {"text": "hm"})]) == []


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        ({"name": "a"}, {"type": "function", "function": {"name": "a"}}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    said = Message("user", "go")
    assert body_of(said, tools=(spec(),), tool_choice=choice).get("tool_choice") == sent
    assert "tool_choice" not in body_of(said, tool_choice=choice)


def test_parallel_calls_are_mentioned_only_to_forbid_them_where_there_are_tools() -> None:
    said = Message("user", "go")
    assert "parallel_tool_calls" not in body_of(said, tools=(spec(),))
    assert body_of(said, tools=(spec(),), parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body_of(said, parallel_tool_calls=False)


def test_tools_are_functions_with_their_strictness() -> None:
    tools = (spec("a", description="does a"), spec("b", strict=False))
    first, second = body_of(Message("user", "go"), tools=tools)["tools"]
    assert first == {
        "type": "function",
        "function": {"name": "a", "description": "does a", "parameters": CLOSED, "strict": True},
    }
    assert second["function"] == {"name": "b", "parameters": CLOSED}


def test_a_strict_tool_is_shown_in_the_form_that_providers_take() -> None:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"type": "string"}, "y": {"type": "integer"}},
        "required": ["x"],
    }
    tool = ToolSpec(name="a", parameters=parameters)
    (sent,) = body_of(Message("user", "go"), tools=(tool,))["tools"]
    shown = sent["function"]["parameters"]
    assert shown["required"] == ["x", "y"]
    assert shown["properties"]["y"] == {"type": ["integer", "null"]}
    assert shown["additionalProperties"] is False
    assert tool.parameters["required"] == ["x"]


def test_functions_are_written_once_and_never_mixed_up() -> None:
    functions = Functions(function_tool)
    first, second = spec("a"), spec("a", description="newer")
    assert functions.definition(first) is functions.definition(first)
    assert functions.definition(first) != functions.definition(second)


def test_settings_get_the_names_of_the_protocol_and_null_is_left_out() -> None:
    settings: dict[str, Any] = {
        "temperature": 0.5,
        "max_output_tokens": 7,
        "reasoning": {"effort": "low"},
        "seed": None,
        "stop": ["\n"],
        "extra_body": {"top_logprobs": 2},
    }
    assert check_settings(settings) == []
    body = body_of(Message("user", "go"), settings=settings)
    assert body["max_completion_tokens"] == 7
    assert body["reasoning_effort"] == "low"
    assert (body["temperature"], body["stop"], body["top_logprobs"]) == (0.5, ["\n"], 2)
    assert not {"seed", "reasoning", "max_output_tokens", "extra_body"} & set(body)


def test_without_streaming_no_word_is_said_about_streams() -> None:
    body = body_of(Message("user", "go"), stream=False, settings={"stream": False})
    assert not {"stream", "stream_options"} & set(body)


def test_an_output_schema_is_strict_where_it_can_be() -> None:
    said = Message("user", "go")
    strict = body_of(said, output_schema=CLOSED)["response_format"]["json_schema"]
    assert strict == {"name": "output", "schema": CLOSED, "strict": True}
    loose = body_of(said, output_schema={"type": "object"})["response_format"]["json_schema"]
    assert "strict" not in loose


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (CLOSED, True),
        ({"type": "object"}, False),
        ({**CLOSED, "required": []}, False),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, False),
        ({**CLOSED, "properties": {"x": {"type": "object"}}}, False),
        ({"anyOf": [CLOSED, {"type": "null"}]}, True),
        ({**CLOSED, "properties": {"x": {"enum": [{"type": "object"}]}}}, True),
    ],
)
def test_a_schema_is_strict_if_every_object_is_closed(schema: Any, *, strict: bool) -> None:
    assert is_strict(schema) is strict


@pytest.mark.parametrize(
    "settings",
    [
        {"unheard_of": 1},
        {"temperature": 2.1},
        {"temperature": True},
        {"temperature": "1"},
        {"top_p": -0.1},
        {"max_output_tokens": 0},
        {"max_output_tokens": 1.5},
        {"stop": []},
        {"stop": ["a"] * 5},
        {"reasoning": {"effort": "low", "budget": 1}},
        {"reasoning": "low"},
        {"metadata": {"a": 1}},
        {"stream": "no"},
        {"extra_body": {"messages": []}},
        {"extra_body": []},
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any]) -> None:
    (problem,) = check_settings(settings)
    assert problem.startswith(next(iter(settings)))


RESPONSES = st.lists(
    st.tuples(st.text(max_size=3), st.integers(0, 4), st.booleans()), min_size=1, max_size=5
)


@settings(deadline=None)
@given(RESPONSES, st.randoms(use_true_random=False))
def test_whatever_happened_every_call_has_its_result_directly_after_it(
    responses: list[tuple[str, int, bool]], order: Any
) -> None:
    items: list[Item] = [Message("user", "go")]
    for turn, (text, count, with_image) in enumerate(responses):
        ids = [f"c{turn}_{n}" for n in range(count)]
        results = [result(i, "r", TextPart("t"), *[PNG] * with_image) for i in ids]
        order.shuffle(results)
        items += [Message("assistant", text), *(call(i) for i in ids), *results]
    body_of(*items)
