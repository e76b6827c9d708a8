"""The scripted model speaks Chat Completions as the official client reads it, and is as strict as
the original."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from tests.support.models import chat_rules
from tests.support.models.chat_server import (
    Answer,
    Call,
    Garbage,
    HttpError,
    ModelServer,
    Reply,
    calls,
    text,
)
from tests.support.serving import Hold

USER: Any = {"role": "user", "content": "go"}
TOOL: Any = {
    "type": "function",
    "function": {"name": "a", "parameters": {"type": "object", "properties": {}}},
}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def sdk(server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        api_key="sk-test", base_url=server.base_url, max_retries=0, timeout=10
    ) as client:
        yield client


def ask(sdk: openai.OpenAI, model: str, *messages: Any, **options: Any) -> Any:
    create: Any = sdk.chat.completions.create
    return create(model=model, messages=list(messages or (USER,)), **options)


def streamed(sdk: openai.OpenAI, model: str) -> list[Any]:
    options: Any = {"include_usage": True}
    return list(ask(sdk, model, stream=True, stream_options=options))


def fragments(chunks: list[Any]) -> list[Any]:
    found = list[Any]()
    for chunk in chunks:
        for choice in chunk.choices:
            found.extend(choice.delta.tool_calls or [])
    return found


def merged(chunks: list[Any]) -> tuple[str, list[tuple[str, str, str]]]:
    """Text, and (id, name, arguments) of each call; fragments belong to the last id seen."""
    content = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    found: list[tuple[str, str, str]] = []
    for part in fragments(chunks):
        if part.id is not None:
            found.append((part.id, part.function.name, part.function.arguments))
        else:
            call_id, name, arguments = found[-1]
            found[-1] = (call_id, name, arguments + part.function.arguments)
    return content, found


def test_the_nth_request_gets_the_nth_answer(server: ModelServer, sdk: openai.OpenAI) -> None:
    server.script("nth", calls(Call("c1", "a", '{"x": 1}')), text("done"))
    first = ask(sdk, "nth").choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.tool_calls[0].function.arguments == '{"x": 1}'
    assert ask(sdk, "nth").choices[0].message.content == "done"
    assert [request.number for request in server.requests("nth")] == [0, 1]
    assert server.requests("nth")[0].headers["authorization"] == "Bearer sk-test"


def test_by_turn_repeats_an_answer_for_the_same_conversation(
    server: ModelServer, sdk: openai.OpenAI
) -> None:
    server.by_turn("turns", text("one"), text("two"))
    assert [ask(sdk, "turns").choices[0].message.content for _ in range(2)] == ["one", "one"]
    assistant = {"role": "assistant", "content": "one"}
    assert ask(sdk, "turns", USER, assistant, USER).choices[0].message.content == "two"


def test_a_stream_carries_text_and_calls_in_fragments(
    server: ModelServer, sdk: openai.OpenAI
) -> None:
    asked = (Call("c1", "a", '{"x":"12345"}'), Call("c2", "b", ""))
    server.script("fragments", Answer(text="hello", calls=asked))
    chunks = streamed(sdk, "fragments")
    assert merged(chunks) == ("hello", [("c1", "a", '{"x":"12345"}'), ("c2", "b", "")])
    assert chunks[-1].usage.total_tokens == 70
    assert (
        len(fragments(chunks)) == 6
    )  # an opening and three fragments, an opening and an empty fragment


def test_a_call_can_come_whole_in_one_chunk(server: ModelServer, sdk: openai.OpenAI) -> None:
    server.script("whole", Answer(calls=(Call("c1", "a", '{"x":"12345"}'),), pieces=1))
    chunks = streamed(sdk, "whole")
    assert merged(chunks) == ("", [("c1", "a", '{"x":"12345"}')])
    assert len(chunks) == 4  # role, call, finish, usage


def test_two_calls_can_share_one_index_and_an_id_can_be_empty(
    server: ModelServer, sdk: openai.OpenAI
) -> None:
    shared = (Call("c1", "a", '{"x":1}', index=0), Call("c2", "a", '{"x":2}', index=0))
    server.script("shared", Answer(calls=shared, finish_reason="stop"), calls(Call("", "a")))
    chunks = streamed(sdk, "shared")
    assert {part.index for part in fragments(chunks)} == {0}
    assert merged(chunks)[1] == [("c1", "a", '{"x":1}'), ("c2", "a", '{"x":2}')]
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert merged(streamed(sdk, "shared"))[1] == [("", "a", "{}")]


def test_a_stream_can_be_cut_or_be_garbage(server: ModelServer, sdk: openai.OpenAI) -> None:
    server.script("broken", Answer(text="hello", cut_after=2), Garbage(), text("fine"))
    with pytest.raises((openai.APIError, httpx2.TransportError)):
        streamed(sdk, "broken")
    with pytest.raises((openai.APIError, ValueError)):
        streamed(sdk, "broken")
    assert merged(streamed(sdk, "broken"))[0] == "fine"


def test_a_whole_answer_can_be_cut(server: ModelServer, sdk: openai.OpenAI) -> None:
    server.script("cut", Answer(text="hello", cut_after=0))
    with pytest.raises(openai.APIConnectionError):
        ask(sdk, "cut")


def test_errors_come_as_openai_sends_them(server: ModelServer, sdk: openai.OpenAI) -> None:
    limited: tuple[Reply, ...] = (HttpError(429, retry_after="7"), HttpError(500), text("fine"))
    server.script("errors", *limited)
    with pytest.raises(openai.RateLimitError) as limit:
        ask(sdk, "errors")
    assert limit.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.InternalServerError):
        ask(sdk, "errors")
    assert ask(sdk, "errors").choices[0].message.content == "fine"


def test_an_answer_waits_until_it_is_released(server: ModelServer, sdk: openai.OpenAI) -> None:
    hold = Hold()
    server.script("held", Answer(text="late", hold=hold), Answer(text="mid", hold=hold))

    async def both() -> Any:
        asking = asyncio.create_task(asyncio.to_thread(ask, sdk, "held"))
        await asyncio.to_thread(hold.arrived, 1, 10)
        assert not asking.done()
        hold.release()
        return await asking

    assert asyncio.run(both()).choices[0].message.content == "late"
    assert ask(sdk, "held").choices[0].message.content == "mid"


def test_what_openai_refuses_is_refused_and_kept() -> None:
    with (
        ModelServer() as server,
        openai.OpenAI(api_key="k", base_url=server.base_url, max_retries=0) as sdk,
    ):
        server.script("strict", text("never"))
        with pytest.raises(openai.BadRequestError):
            ask(sdk, "strict", extra_body={"surprise": 1})
        with pytest.raises(openai.NotFoundError):
            ask(sdk, "nobody")
        server.script("short")
        with pytest.raises(openai.BadRequestError):
            ask(sdk, "short")
        assert len(server.violations) == 3


def call(call_id: str = "c1", arguments: str = "{}", name: str = "a") -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def asked(*ids: str) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call(each) for each in ids]}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages or (USER,)), **fields}


def strict_tool(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "a", "strict": True, "parameters": schema}}


@pytest.mark.parametrize(
    "request_body",
    [
        body(),
        body({"role": "system", "content": "be brief"}, USER),
        body(USER, asked("c1"), result("c1")),
        body(USER, {**asked("c1", "c2"), "content": None}, result("c1"), result("c2"), USER),
        body(USER, {"role": "assistant", "content": "", "refusal": "no"}),
        body(tools=[TOOL], tool_choice="required", parallel_tool_calls=False),
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "a"}}),
        body(stream=True, stream_options={"include_usage": True}),
        body({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
        body(
            tools=[
                strict_tool(
                    {
                        "type": "object",
                        "properties": {"x": {"type": "string"}},
                        "required": ["x"],
                        "additionalProperties": False,
                    }
                )
            ]
        ),
    ],
)
def test_a_correct_request_is_taken(request_body: dict[str, Any]) -> None:
    assert chat_rules.check(request_body) == []


@pytest.mark.parametrize(
    ("request_body", "complaint"),
    [
        (body(USER, asked("c1"), USER), "did not have response messages: c1"),
        (body(USER, asked("c1")), "did not have response messages: c1"),
        (body(USER, asked("c1", "c2"), result("c2"), result("c1")), "out of the order"),
        (body(USER, asked("c1"), result("c1"), result("c1")), "must be a response"),
        (body(USER, asked("c1"), result("c9"), result("c1")), "must be a response"),
        (body(USER, asked("c1", "c1"), result("c1")), "stands twice"),
        (body(USER, asked(""), result("")), "invalid tool call id"),
        (body(USER, {**asked(), "content": "x"}), "[] is too short - 'tool_calls'"),
        (
            body(USER, {"role": "assistant", "tool_calls": [call(arguments="[1]")]}),
            "no JSON object",
        ),
        (body(USER, {"role": "assistant", "tool_calls": [call(arguments="")]}), "no JSON object"),
        (body(USER, {"role": "assistant", "tool_calls": [call(name="a b")]}), "invalid function"),
        (body(USER, {"role": "assistant"}), "Invalid value for 'content'"),
        (body({"role": "user", "content": None}), "Invalid value for 'content'"),
        (body({"role": "tool_result", "content": "x"}), "Invalid value for role"),
        (body({**USER, "turn": 1}), "unknown field turn"),
        (body(surprise=1), "Unrecognized request argument supplied: surprise"),
        (body(temperature=None), "null instead of left out"),
        (body(temperature=3), "Invalid value for 'temperature'"),
        (body(tools=[]), "[] is too short - 'tools'"),
        (body(tool_choice="auto"), "only allowed when 'tools'"),
        (body(tools=[TOOL], tool_choice="b"), "Invalid value for 'tool_choice'"),
        (body(tools=[TOOL, TOOL]), "names are not unique"),
        (body(tools=[strict_tool({"type": "object", "properties": {}})]), "additionalProperties"),
        (body(stream_options={"include_usage": True}), "only allowed when 'stream'"),
        ({"model": "m", "messages": []}, "[] is too short - 'messages'"),
        ({"messages": [USER]}, "model parameter"),
    ],
)
def test_a_wrong_request_is_complained_about(request_body: dict[str, Any], complaint: str) -> None:
    assert complaint in "\n".join(chat_rules.check(request_body))


@pytest.mark.parametrize("raw", [b'{"a": 1, "a": 2}', b'{"a": NaN}', b"[]", b"{", b"\xff"])
def test_only_strict_json_is_read(raw: bytes) -> None:
    with pytest.raises(ValueError):
        chat_rules.parse(raw)


def test_strict_json_is_read() -> None:
    assert chat_rules.parse(json.dumps({"a": [1, {"b": None}]}).encode()) == {"a": [1, {"b": None}]}
