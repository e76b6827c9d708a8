"""Chat Completions over a real connection: streams, whole bodies, and every way to fail."""

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeAlias

import pytest
from aiohttp import web

from runward.domain.ids import CallId
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import Message, Reasoning, ToolCall, ToolResult
from runward.domain.run.response import ModelResponse
from runward.llm.base import ModelDelta, ModelError, ModelRequest, TextDelta
from runward.llm.failures import http_failure, retry_after
from runward.llm.openai import client
from runward.llm.openai.chat.chat_completions import OpenAIChat
from tests.support.models.chat_server import Answer, Call, Garbage, HttpError, ModelServer
from tests.unit.raw_server import RawServer, answer, saying

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

TOOL = ToolSpec(name="a", parameters={"type": "object", "properties": {}}, strict=False)


@pytest.fixture
def server() -> Any:
    server = ModelServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
async def model(server: ModelServer) -> AsyncIterator[OpenAIChat]:
    model = OpenAIChat("sk-test", server.base_url)
    yield model
    await model.aclose()


def asked(**fields: Any) -> ModelRequest:
    fields = {"tools": (TOOL,), "timeout_seconds": 10.0, **fields}
    return ModelRequest("m", "be kind", (Message("user", "go"),), **fields)


async def ask(model: OpenAIChat, **fields: Any) -> ModelResponse:
    return await model.respond(asked(**fields), lambda _: None)


async def failure(model: OpenAIChat, **fields: Any) -> ModelError:
    with pytest.raises(ModelError) as failed:
        await ask(model, **fields)
    assert "sk-test" not in str(failed.value)
    return failed.value


@asynccontextmanager
async def odd_server(handler: Handler) -> AsyncGenerator[OpenAIChat]:
    """A server that answers as no model should, in this event loop."""
    app = web.Application()
    app.router.add_post("/v1/chat/completions", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    model = OpenAIChat("sk-test", f"http://127.0.0.1:{port}/v1/")
    try:
        yield model
    finally:
        await model.aclose()
        await runner.cleanup()


@pytest.mark.parametrize("stream", [True, False])
async def test_text_calls_and_usage_arrive(
    server: ModelServer, model: OpenAIChat, *, stream: bool
) -> None:
    calls = (Call("c1", "a", '{"x": "é"}'), Call("c2", "a"))
    server.script("m", Answer(text="Hello", calls=calls))
    response = await ask(model, settings={"stream": stream})
    assert response.text == "Hello"
    assert [(c.call_id, c.name, c.arguments) for c in response.calls] == [
        ("c1", "a", '{"x": "é"}'),
        ("c2", "a", "{}"),
    ]
    assert (response.usage.input, response.usage.output) == (50, 20)
    (request,) = server.requests("m")
    assert request.problems == ()
    assert request.headers["authorization"] == "Bearer sk-test"
    assert ("stream" in request.body) is stream
    assert not [name for name in request.headers if name.startswith("x-stainless")]


async def test_deltas_are_shown_while_the_answer_comes(
    server: ModelServer, model: OpenAIChat
) -> None:
    server.script("m", Answer(text="one two three", pieces=3))
    deltas: list[ModelDelta] = []
    response = await model.respond(asked(), deltas.append)
    texts = [delta.text for delta in deltas if isinstance(delta, TextDelta)]
    assert len(texts) == 3
    assert "".join(texts) == response.text == "one two three"


async def test_a_call_under_a_repeated_index_is_kept(
    server: ModelServer, model: OpenAIChat
) -> None:
    server.script("m", Answer(calls=(Call("c1", "a", index=0), Call("c2", "a", index=0))))
    assert [c.call_id for c in (await ask(model)).calls] == ["c1", "c2"]


async def test_a_truncated_answer_marks_its_last_call(
    server: ModelServer, model: OpenAIChat
) -> None:
    calls = (Call("c1", "a"), Call("c2", "a"))
    server.script("m", Answer(calls=calls, finish_reason="length"))
    assert [c.truncated for c in (await ask(model)).calls] == [False, True]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_refusal_is_not_text(
    server: ModelServer, model: OpenAIChat, *, stream: bool
) -> None:
    server.script("m", Answer(refusal="I will not."))
    response = await ask(model, settings={"stream": stream})
    assert (response.refusal, response.text) == ("I will not.", "")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_connection_that_breaks_before_the_end_is_transient(
    server: ModelServer, model: OpenAIChat, *, stream: bool
) -> None:
    server.script("m", Answer(text="one two three", cut_after=2))
    failed = await failure(model, settings={"stream": stream})
    assert (failed.code, failed.transient) == ("model_stream_broken", True)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_body_that_is_not_json_is_transient(
    server: ModelServer, model: OpenAIChat, *, stream: bool
) -> None:
    server.script("m", Garbage())
    failed = await failure(model, settings={"stream": stream})
    assert (failed.code, failed.transient) == ("model_invalid_response", True)


@pytest.mark.parametrize(
    ("status", "code", "transient"),
    [
        (400, "model_refused_request", False),
        (401, "model_unauthorized", False),
        (403, "model_unauthorized", False),
        (404, "model_not_found", False),
        (408, "model_timeout", True),
        (409, "model_unavailable", True),
        (422, "model_refused_request", False),
        (429, "model_rate_limited", True),
        (500, "model_unavailable", True),
        (503, "model_unavailable", True),
        (599, "model_unavailable", True),
    ],
)
async def test_a_status_says_whether_to_try_again(
    server: ModelServer, model: OpenAIChat, status: int, code: str, *, transient: bool
) -> None:
    server.script("m", HttpError(status, "Because of sk-test.", retry_after="7"))
    failed = await failure(model)
    assert (failed.code, failed.transient, failed.status) == (code, transient, status)
    assert failed.retry_after == (7.0 if transient else None)
    assert ("Because of ***." in failed.message) is (status not in (401, 403))
    assert len(server.requests("m")) == 1


def at(seconds: int) -> str:
    """An HTTP date by the server's clock, which is years from this one's."""
    moment = datetime(2006, 11, 21, 12, 0, tzinfo=UTC) + timedelta(seconds=seconds)
    return format_datetime(moment, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": at(30), "date": at(0)}, 30.0),
        ({"retry-after": at(-3600), "date": at(0)}, 0.0),
        ({"retry-after": at(30)}, None),
        ({"retry-after": at(30), "date": "today"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("status", "headers", "body", "transient"),
    [
        (429, {}, b'{"error": {"code": "insufficient_quota"}}', False),
        (429, {}, b'{"error": {"code": {"odd": 1}}}', True),
        (500, {"x-should-retry": "false"}, b"", False),
        (400, {"x-should-retry": "true"}, b"[]", True),
        (302, {}, b"<html>", False),
    ],
)
def test_what_a_server_says_beside_the_status(
    status: int, headers: dict[str, str], body: bytes, *, transient: bool
) -> None:
    assert http_failure(status, headers, body, secret="k").transient is transient


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": "plain"}',
        b'{"message": "plain"}',
        b'{"detail": "plain"}',
        b'[{"error": {"message": "plain"}}]',
    ],
)
def test_the_reason_is_found_where_servers_put_it(body: bytes) -> None:
    failed = http_failure(400, {}, body, secret="")
    assert failed.message == "The model server returned HTTP 400 (Bad Request): plain"


def test_a_long_reason_is_cut() -> None:
    body = json.dumps({"error": {"message": "x" * 10_000}}).encode()
    assert len(http_failure(400, {}, body, secret="").message) < 600


async def test_the_whole_call_has_one_timeout(server: ModelServer, model: OpenAIChat) -> None:
    await model.client()
    server.script("m", Answer(text="one two three", gap=0.2, pieces=10))
    failed = await failure(model, timeout_seconds=0.3)
    assert (failed.code, failed.transient) == ("model_timeout", True)
    assert "0.3 seconds" in failed.message


async def test_cancelling_ends_the_request(server: ModelServer, model: OpenAIChat) -> None:
    server.script("m", Answer(text="one two three", gap=5, pieces=3), Answer(text="next"))
    task = asyncio.create_task(ask(model))
    await asyncio.to_thread(server.wait_for, "m", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await ask(model)).text == "next"


async def test_a_server_that_is_not_there_is_transient(server: ModelServer) -> None:
    model = OpenAIChat("sk-test", server.base_url)
    server.close()
    failed = await failure(model)
    assert (failed.code, failed.transient) == ("model_unreachable", True)
    await model.aclose()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/v1", "/v1"])
async def test_an_impossible_address_is_permanent(url: str) -> None:
    model = OpenAIChat("sk-test", url)
    failed = await failure(model)
    assert (failed.code, failed.transient) == ("model_misconfigured", False)
    await model.aclose()


async def test_a_server_that_does_not_speak_http_is_transient() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 mail ready\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    model = OpenAIChat("sk-test", f"http://127.0.0.1:{port}")
    failed = await failure(model)
    assert (failed.code, failed.transient) == ("model_unreachable", True)
    await model.aclose()
    server.close()
    await server.wait_closed()


@pytest.mark.parametrize("stream", [True, False])
async def test_an_endless_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    monkeypatch.setattr(client, "MAX_RESPONSE_BYTES", 100_000)

    async def endless(http: web.Request) -> web.StreamResponse:
        await http.read()
        kind = "text/event-stream" if stream else "application/json"
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(http)
        while True:
            await response.write(b": waiting\n\n" * 1000)

    async with odd_server(endless) as model:
        failed = await failure(model, settings={"stream": stream})
    assert (failed.code, failed.transient) == ("model_response_too_large", False)


async def test_a_server_that_cannot_stream_may_answer_whole() -> None:
    async def whole(http: web.Request) -> web.StreamResponse:
        assert (await http.json())["stream"] is True
        message = {"role": "assistant", "content": "whole"}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async with odd_server(whole) as model:
        assert (await ask(model)).text == "whole"


async def test_a_stream_without_its_content_type_and_end_of_connection_is_read() -> None:
    """The connection stays open after [DONE]; the answer does not wait for it."""

    async def plain(http: web.Request) -> web.StreamResponse:
        await http.read()
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(http)
        await response.write(
            b'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
        )
        await asyncio.sleep(30)
        return response

    async with odd_server(plain) as model:
        async with asyncio.timeout(5):
            assert (await ask(model)).text == "x"


async def test_a_compressed_stream_is_read() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        for text in ("Hel", "lo"):
            frame = {"choices": [{"index": 0, "delta": {"content": text}}]}
            await response.write(b"data: " + json.dumps(frame).encode() + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    async with odd_server(handler) as model:
        assert (await ask(model)).text == "Hello"


async def test_a_finished_stream_gives_its_connection_back() -> None:
    ports: set[Any] = set()

    async def answer(http: web.Request) -> web.StreamResponse:
        assert http.transport is not None
        ports.add(http.transport.get_extra_info("peername"))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(http)
        await response.write(b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n')
        await response.write(b"data: [DONE]\n\n")
        await asyncio.sleep(0.01)
        return response

    async with odd_server(answer) as model:
        for _ in range(3):
            await ask(model)
    assert len(ports) == 1


async def test_a_status_counts_even_if_its_body_breaks_off() -> None:
    async def cut(http: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=401)
        response.content_length = 1000
        await response.prepare(http)
        assert http.transport is not None
        http.transport.close()
        return response

    async with odd_server(cut) as model:
        assert (await failure(model)).status == 401


async def test_concurrent_first_calls_share_one_client(
    server: ModelServer, model: OpenAIChat
) -> None:
    server.respond("m", lambda _: Answer(text="hi"))
    responses = await asyncio.gather(*(ask(model) for _ in range(8)))
    assert [r.text for r in responses] == ["hi"] * 8


@pytest.mark.parametrize("compressed", [True, False])
async def test_other_tasks_run_while_a_stream_is_read_that_came_at_once(
    *, compressed: bool
) -> None:
    """So a deadline is seen, and other runs continue."""
    pieces = 20
    comments = b": nothing new\n" * (pieces * client.PIECE_BYTES // 14)
    frame = b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
    body = frame + comments + frame + b"data: [DONE]\n\n"
    headers = ["Content-Type: text/event-stream", *["Content-Encoding: gzip"] * compressed]
    raw = answer(gzip.compress(body) if compressed else body, "200 OK", *headers)
    passes, at = 0, list[int]()

    async def other() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async with RawServer(saying(raw)) as server:
        model = OpenAIChat("sk-test", server.url)
        task = asyncio.create_task(other())
        response = await model.respond(asked(), lambda _: at.append(passes))
        task.cancel()
        await model.aclose()
    assert response.text == "xx"
    assert at[1] - at[0] >= pieces // 2  # a rest and the next piece may share a pass


@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
async def test_a_key_that_is_quoted_in_an_answer_with_200_is_struck_out(kind: str) -> None:
    async def quoting(_: web.Request) -> web.Response:
        error = json.dumps({"error": {"message": "Incorrect API key provided: sk-test"}})
        text = f"data: {error}\n\n" if "event" in kind else error
        return web.Response(text=text, content_type=kind)

    async with odd_server(quoting) as model:
        assert (await failure(model)).message.endswith("Incorrect API key provided: ***")


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br"])
@pytest.mark.parametrize("status", [200, 429])
async def test_an_answer_is_decompressed_once(encoding: str, status: int) -> None:
    """Decompressing a few kilobytes that were compressed three times takes many seconds, during
    which the event loop does not move."""
    message = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}
    error = {"error": {"message": "Slow down"}}

    async def compressed(_: web.Request) -> web.Response:
        body = json.dumps(message if status == 200 else error).encode()
        for _layer in range(encoding.count("gzip")):
            body = gzip.compress(body)
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        return web.Response(status=status, body=body, headers=headers)

    async with odd_server(compressed) as model:
        if (encoding, status) == ("gzip", 200):
            assert (await ask(model)).text == "Hello"
            return
        refused = await failure(model)
    assert refused.code == ("model_invalid_response" if status == 200 else "model_rate_limited")
    assert ("Slow down" in refused.message) is ((encoding, status) == ("gzip", 429))


async def test_a_broken_compression_is_a_broken_stream() -> None:
    async def broken(_: web.Request) -> web.Response:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        return web.Response(body=b"no gzip", headers=headers)

    async with odd_server(broken) as model:
        assert (await failure(model)).code == "model_stream_broken"


def spoken(**message: Any) -> web.Response:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return web.json_response({"choices": [choice]})


def rejected(message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=400)


HISTORY = (
    Message("user", "go"),
    ToolCall(CallId("c1"), "a", "{}"),
    ToolResult(CallId("c1"), "1"),
    Message("assistant", "One."),
    Message("user", "again"),
)


async def test_a_server_that_requires_reasoning_gets_it_in_messages_of_other_models() -> None:
    sent: list[list[str | None]] = []

    async def deepseek(http: web.Request) -> web.Response:
        messages = (await http.json())["messages"]
        thoughts = [m.get("reasoning_content") for m in messages if m["role"] == "assistant"]
        sent.append(thoughts)
        if None in thoughts:
            return rejected("The `reasoning_content` in the thinking mode must be passed back.")
        return spoken(content="Two.", reasoning_content="Hm.")

    async with odd_server(deepseek) as model:
        request = replace(asked(settings={"stream": False}), items=HISTORY)
        answer = await model.respond(request, lambda _: None)
        items = (*HISTORY, *answer.reasoning, Message("assistant", "Two."), Message("user", "on"))
        await model.respond(replace(request, items=items), lambda _: None)
    assert answer.reasoning[0].data == {"text": "Hm.", "field": "reasoning_content"}
    assert sent == [[None, None], ["", ""], ["", "", "Hm."]]


async def test_a_server_that_rejects_reasoning_gets_none() -> None:
    sent: list[int] = []

    async def groq(http: web.Request) -> web.Response:
        messages = (await http.json())["messages"]
        sent.append(sum("reasoning_content" in m or "reasoning_details" in m for m in messages))
        if sent[-1]:
            return rejected("property 'messages.1.reasoning_details' is unsupported")
        return spoken(content="Two.")

    details: Any = [{"type": "reasoning.text", "text": "Hm."}]
    thought = Reasoning("openai", {"text": "Hm.", "details": details})
    async with odd_server(groq) as model:
        items = (Message("user", "go"), thought, *HISTORY[1:])
        request = replace(asked(settings={"stream": False}), items=items)
        for _ in range(2):
            assert (await model.respond(request, lambda _: None)).text == "Two."
    assert sent == [1, 0, 0]


@pytest.mark.parametrize(
    "error",
    [
        "Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a maximum length of 40.",
    ],
)
async def test_a_server_that_accepts_only_short_call_ids_gets_them(error: str) -> None:
    sent: list[list[str]] = []

    async def mistral(http: web.Request) -> web.Response:
        messages = (await http.json())["messages"]
        calls = [call["id"] for m in messages for call in m.get("tool_calls", ())]
        results = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
        assert results == calls
        sent.append(calls)
        if not all(one.isalnum() and len(one) == 9 for one in calls):
            return rejected(error)
        return spoken(content="Two.")

    async with odd_server(mistral) as model:
        own = ToolCall(CallId("aB3dE6gH9"), "a", "{}"), ToolResult(CallId("aB3dE6gH9"), "1")
        items = (*HISTORY, *own, Message("user", "on"))
        request = replace(asked(settings={"stream": False}), items=items)
        for _ in range(2):
            assert (await model.respond(request, lambda _: None)).text == "Two."
    assert sent[0] == ["c1", "aB3dE6gH9"]
    assert sent[1] == sent[2]
    assert sent[1][1] == "aB3dE6gH9"


async def test_a_request_is_corrected_only_if_this_changes_it() -> None:
    sent = 0

    async def stubborn(_: web.Request) -> web.Response:
        nonlocal sent
        sent += 1
        return rejected("Tool call id was c1 but must be a-z, A-Z, 0-9, with a length of 9.")

    async with odd_server(stubborn) as model:
        failed = await failure(model, settings={"stream": False})
    assert (failed.code, sent) == ("model_refused_request", 2)
