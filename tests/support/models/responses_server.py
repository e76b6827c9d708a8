"""A scripted, strict stand-in for a server of OpenAI's Responses API (see `scripted`). An answer
is outputs:

    server.script("main", answer(Reasoning(), Call("c1", "add", '{"x": 1}')), answer(Text("2")))

`responses_rules` says what it refuses. A client streams or not, has its conversation stored or
sends it whole.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

from tests.support.models import chat_rules, responses_rules
from tests.support.models.chat_rules import Body
from tests.support.models.responses_items import (
    DECLARED_AS,
    Output,
    Text,
    events_of,
    frame,
    make_item,
)
from tests.support.models.responses_rules import CALL_OF, Given
from tests.support.models.scripted import ScriptedServer, UnscriptedError, break_off
from tests.support.serving import Hold

USAGE: Body = {
    "input_tokens": 50,
    "input_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 70,
}
CREATED = 1_700_000_000
ECHOED = ("instructions", "metadata", "reasoning", "text", "temperature", "top_p", "truncation")


@dataclass(frozen=True, slots=True)
class Answer:
    """`incomplete`: the reason why it ends early, such as "max_output_tokens". `failed`: code and
    message of a `response.failed` behind the outputs; `error` of an `error` event that ends the
    stream. `pieces`, `hold`, `hold_after`, `cut_after`, `gap`: as in `chat_server`."""

    outputs: tuple[Output, ...] = ()
    incomplete: str | None = None
    failed: tuple[str, str] | None = None
    error: tuple[str, str] | None = None
    usage: Body = field(default_factory=lambda: USAGE)
    pieces: int = 3
    latency: float = 0.0
    gap: float = 0.0
    hold: Hold | None = None
    hold_after: int = 0
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class HttpError:
    """`retry_after` is sent verbatim."""

    status: int
    message: str = "try again"
    code: str | None = None
    retry_after: str | None = None


Reply: TypeAlias = Answer | HttpError


def answer(*outputs: Output, **options: Any) -> Answer:
    return Answer(outputs, **options)


def text(value: str) -> Answer:
    return Answer((Text(value),))


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """`headers` have lower-case names; `number` counts from 0 per model. `items` is the whole
    conversation, also where the request only continues a stored one."""

    model: str
    number: int
    body: Body
    headers: dict[str, str]
    items: list[Body]
    at: float
    problems: tuple[str, ...] = field(default=())

    @property
    def turn(self) -> int:
        """How many answers of the model the conversation holds: an answer ends where something
        stands that the model has not made."""
        made = [_made_by_model(item) for item in self.items]
        return sum(own and not after for own, after in zip(made, [*made[1:], False], strict=True))

    @property
    def results(self) -> list[tuple[str, Any]]:
        """(call id, item) of every output of a tool, in the order in which they were sent."""
        return [
            (item["call_id"], item.get("output"))
            for item in self.items
            if item.get("type") in CALL_OF
        ]

    @property
    def tool_names(self) -> list[str]:
        """Of functions the name, of every other tool the type."""
        return [str(tool.get("name", tool["type"])) for tool in self.body.get("tools", [])]


Responder: TypeAlias = Callable[[ResponsesRequest], Reply]


def _made_by_model(item: Body) -> bool:
    kind = item.get("type", "message")
    return item.get("role") == "assistant" if kind == "message" else kind not in CALL_OF


class ResponsesServer(ScriptedServer[ResponsesRequest, Reply]):
    def __init__(self, port: int = 0) -> None:
        super().__init__(port)
        self._given = Given()
        self._made = 0

    @property
    def base_url(self) -> str:
        return f"{self.url}/v1"

    def route(self, router: web.UrlDispatcher) -> None:
        router.add_post("/v1/responses", self._create)

    async def _create(self, http: web.Request) -> web.StreamResponse:
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
        if isinstance(reply, HttpError):
            return _error(reply)
        made = self._make(request, reply)
        undeclared = {DECLARED_AS.get(item["type"]) for item in made.items} - {None}
        if not undeclared.issubset(tool["type"] for tool in body.get("tools", [])):
            return self._refuse(f"the script answers with undeclared tools: {undeclared}")
        await asyncio.sleep(reply.latency)
        if reply.hold is not None and reply.hold_after == 0:
            await reply.hold.reach()
        return await (_stream if body.get("stream") is True else _whole)(http, made)

    def _taken(self, http: web.Request, body: Body) -> ResponsesRequest:
        problems = responses_rules.check(body, self._given)
        if not http.headers.get("Authorization", "").removeprefix("Bearer "):
            problems.append("You didn't provide an API key")
        model = str(body.get("model"))
        headers = {key.lower(): value for key, value in http.headers.items()}
        items = self._given.conversation(body)
        at, found = time.time(), tuple(problems)
        return self._record(
            model, lambda number: ResponsesRequest(model, number, body, headers, items, at, found)
        )

    def _refuse(self, *problems: str, status: int = 400) -> web.Response:
        self.violations += problems
        return _error(HttpError(status, "; ".join(problems)))

    def _make(self, request: ResponsesRequest, reply: Answer) -> "_Made":
        """The items with ids, remembered so that they are known when they come back."""
        sealing = "reasoning.encrypted_content" in (request.body.get("include") or ())
        items: list[Body] = []
        for output in reply.outputs:
            self._made += 1
            item = make_item(output, self._made)
            if item["type"] == "reasoning" and sealing:
                item["encrypted_content"] = f"sealed-{self._made:08x}"
                self._given.sealed.add(item["encrypted_content"])
            if items and items[-1]["type"] == "reasoning":
                self._given.led[item["id"]] = items[-1]["id"]
            items.append(item)
        self._made += 1
        made = _Made(f"resp_{self._made:08x}", request, reply, items)
        if request.body.get("store") is not False:
            self._given.stored[made.id] = request.items + items
        return made


@dataclass(frozen=True, slots=True)
class _Made:
    """An answer that has its ids."""

    id: str
    request: ResponsesRequest
    answer: Answer
    items: list[Body]

    def response(self, status: str) -> Body:
        asked, ended = self.request.body, status != "in_progress"
        incomplete = self.answer.incomplete if ended else None
        code, message = (self.answer.failed if ended else None) or (None, None)
        return {
            "id": self.id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "model": self.request.model,
            "output": self.items if ended else [],
            "error": None if code is None else {"code": code, "message": message},
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "usage": self.answer.usage if ended else None,
            "store": asked.get("store", True),
            "parallel_tool_calls": asked.get("parallel_tool_calls", True),
            "tool_choice": asked.get("tool_choice", "auto"),
            "tools": asked.get("tools", []),
            "previous_response_id": asked.get("previous_response_id"),
            **{key: asked.get(key) for key in ECHOED},
        }

    @property
    def status(self) -> str:
        if self.answer.failed is not None:
            return "failed"
        return "completed" if self.answer.incomplete is None else "incomplete"

    def events(self) -> Iterator[Body]:
        opened = self.response("in_progress")
        yield {"type": "response.created", "response": opened}
        yield {"type": "response.in_progress", "response": opened}
        for index, (output, item) in enumerate(zip(self.answer.outputs, self.items, strict=True)):
            yield from events_of(output, item, index, self.answer.pieces)
        if self.answer.error is not None:
            code, message = self.answer.error
            yield {"type": "error", "code": code, "message": message, "param": None}
            return
        yield {"type": f"response.{self.status}", "response": self.response(self.status)}


def _error(error: HttpError) -> web.Response:
    headers = {} if error.retry_after is None else {"Retry-After": error.retry_after}
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    problem = {"message": error.message, "type": kind, "param": None, "code": error.code}
    return web.json_response({"error": problem}, status=error.status, headers=headers)


async def _whole(http: web.Request, made: _Made) -> web.StreamResponse:
    body = json.dumps(made.response(made.status)).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(body)
    await response.prepare(http)
    if made.answer.cut_after is not None:
        await response.write(body[: len(body) // 2])
        break_off(http)
        return response
    await response.write(body)
    return response


async def _stream(http: web.Request, made: _Made) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(http)
    reply = made.answer
    for number, event in enumerate(made.events()):
        if reply.hold is not None and 0 < reply.hold_after == number:
            await reply.hold.reach()
        if number == reply.cut_after:
            break_off(http)
            return response
        await response.write(frame(event | {"sequence_number": number}))
        if reply.gap:
            await asyncio.sleep(reply.gap)
    return response
