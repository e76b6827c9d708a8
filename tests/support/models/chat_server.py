"""A scripted, strict stand-in for an OpenAI-compatible Chat Completions server (see `scripted`);
`chat_rules` says what it refuses."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

from tests.support.models import chat_rules
from tests.support.models.chat_rules import Body
from tests.support.models.scripted import ScriptedServer, UnscriptedError, break_off
from tests.support.serving import Hold

USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 20,
    "total_tokens": 70,
    "prompt_tokens_details": {"cached_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 5},
}
END = "[DONE]"
CREATED = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the model writes it: `arguments` is raw text, the id may be empty. `index`:
    its number in the stream, where that is not its position (some providers repeat 0)."""

    id: str
    name: str
    arguments: str = "{}"
    index: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Text, calls or both. `pieces`: into how many deltas each text is split. `hold`: waits there
    after `hold_after` frames (0: before the headers). `hold_end`: waits there before the frame that
    ends a stream. `cut_after`: the connection breaks after so many frames (not streamed: in the
    middle of the body). `gap` seconds pass between frames."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    refusal: str | None = None
    finish_reason: str | None = None
    pieces: int = 3
    latency: float = 0.0
    gap: float = 0.0
    hold: Hold | None = None
    hold_after: int = 0
    hold_end: Hold | None = None
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class HttpError:
    """`retry_after` is sent verbatim, so it may also be an HTTP date or nonsense."""

    status: int
    message: str = "try again"
    code: str | None = None
    retry_after: str | None = None


@dataclass(frozen=True, slots=True)
class Garbage:
    """A 200 whose body is `body`, as JSON or, for a streamed request, as an event stream."""

    body: bytes = b"data: {not json\n\n"


Reply: TypeAlias = Answer | HttpError | Garbage


def calls(*asked: Call) -> Answer:
    return Answer(calls=asked)


def text(value: str) -> Answer:
    return Answer(text=value)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """`headers` have lower-case names; `at` is a wall clock; `number` counts from 0 per model."""

    model: str
    number: int
    body: Body
    headers: dict[str, str]
    at: float
    problems: tuple[str, ...] = field(default=())

    @property
    def messages(self) -> list[Body]:
        return self.body["messages"]

    @property
    def turn(self) -> int:
        """How many answers of the model the conversation already holds."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def results(self) -> list[tuple[str, str]]:
        """(call id, text) of every tool result, in the order in which they were sent."""
        return [
            (message["tool_call_id"], content_text(message["content"]))
            for message in self.messages
            if message["role"] == "tool"
        ]

    @property
    def tool_names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", [])]


Responder: TypeAlias = Callable[[ModelRequest], Reply]


def content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts: list[Body] = content or []
    return "".join(part.get("text", "") for part in parts)


class ModelServer(ScriptedServer[ModelRequest, Reply]):
    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def route(self, router: web.UrlDispatcher) -> None:
        router.add_post("/v1/chat/completions", self._complete)

    async def _complete(self, http: web.Request) -> web.StreamResponse:
        try:
            body = chat_rules.parse(await http.read())
        except ValueError as error:
            return self._refuse(f"the body is no strict JSON: {error}")
        request = self._taken(http, body)
        if request.problems:
            return self._refuse(*request.problems)
        try:
            reply = self._reply_to(request)
        except UnscriptedError as error:
            return self._refuse(error.message, status=error.status)
        return await self._send(http, request, reply)

    def _taken(self, http: web.Request, body: Body) -> ModelRequest:
        problems = chat_rules.check(body)
        if not http.headers.get("Authorization", "").removeprefix("Bearer "):
            problems.append("You didn't provide an API key")
        model = str(body.get("model"))
        headers = {key.lower(): value for key, value in http.headers.items()}
        at, found = time.time(), tuple(problems)
        return self._record(
            model, lambda number: ModelRequest(model, number, body, headers, at, found)
        )

    def _refuse(self, *problems: str, status: int = 400) -> web.Response:
        self.violations += problems
        return _error(HttpError(status, "; ".join(problems)))

    async def _send(
        self, http: web.Request, request: ModelRequest, reply: Reply
    ) -> web.StreamResponse:
        streamed = request.body.get("stream") is True
        match reply:
            case HttpError():
                return _error(reply)
            case Garbage():
                kind = "text/event-stream" if streamed else "application/json"
                return web.Response(body=reply.body, content_type=kind)
            case Answer():
                await asyncio.sleep(reply.latency)
                if reply.hold is not None and reply.hold_after == 0:
                    await reply.hold.reach()
                return await (_stream if streamed else _whole)(http, request, reply)


def _error(error: HttpError) -> web.Response:
    headers = {} if error.retry_after is None else {"Retry-After": error.retry_after}
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    problem = {"message": error.message, "type": kind, "param": None, "code": error.code}
    return web.json_response({"error": problem}, status=error.status, headers=headers)


def _finish(answer: Answer) -> str:
    return answer.finish_reason or ("tool_calls" if answer.calls else "stop")


async def _whole(http: web.Request, request: ModelRequest, answer: Answer) -> web.StreamResponse:
    message: Body = {"role": "assistant", "content": answer.text, "refusal": answer.refusal}
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in answer.calls
        ]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish(answer),
    }
    body = json.dumps({**_head(request, "chat.completion"), "choices": [choice], "usage": USAGE})
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body.encode())
    await response.prepare(http)
    if answer.cut_after is not None:
        await response.write(body.encode()[: len(body) // 2])
        break_off(http)
        return response
    await response.write(body.encode())
    return response


async def _stream(http: web.Request, request: ModelRequest, answer: Answer) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(http)
    for number, frame in enumerate(_frames(request, answer)):
        if answer.hold is not None and 0 < answer.hold_after == number:
            await answer.hold.reach()
        if answer.hold_end is not None and frame == END:
            await answer.hold_end.reach()
        if number == answer.cut_after:
            break_off(http)
            return response
        await response.write(f"data: {frame}\n\n".encode())
        if answer.gap:
            await asyncio.sleep(answer.gap)
    return response


def _head(request: ModelRequest, kind: str) -> Body:
    return {
        "id": f"chatcmpl-{request.model}-{request.number}",
        "object": kind,
        "created": CREATED,
        "model": request.model,
    }


def _frames(request: ModelRequest, answer: Answer) -> Iterator[str]:
    head = _head(request, "chat.completion.chunk")
    wants_usage = bool(request.body.get("stream_options", {}).get("include_usage"))
    rest: Body = {"usage": None} if wants_usage else {}
    for delta, finish in _deltas(answer):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        yield json.dumps({**head, "choices": [choice], **rest})
    if wants_usage:
        yield json.dumps({**head, "choices": [], "usage": USAGE})
    yield END


def _deltas(answer: Answer) -> Iterator[tuple[Body, str | None]]:
    yield {"role": "assistant", "content": None if answer.text is None else ""}, None
    for piece in _pieces(answer.text or "", answer.pieces):
        yield {"content": piece}, None
    for piece in _pieces(answer.refusal or "", answer.pieces):
        yield {"refusal": piece}, None
    for position, call in enumerate(answer.calls):
        index = position if call.index is None else call.index
        first, *others = _pieces(call.arguments, answer.pieces) or [""]
        function = {"name": call.name, "arguments": first if answer.pieces == 1 else ""}
        opening = {"index": index, "id": call.id, "type": "function", "function": function}
        yield {"tool_calls": [opening]}, None
        for piece in others if answer.pieces == 1 else [first, *others]:
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, _finish(answer)


def _pieces(whole: str, count: int) -> list[str]:
    size = max(1, -(-len(whole) // max(1, count)))
    return [whole[at : at + size] for at in range(0, len(whole), size)]
