"""A server of tools, by ASGI and by WSGI."""

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Self, TypeAlias

from runward_client import types
from runward_client.errors import RunwardError
from runward_client.signature import SignatureError, read_secrets, verify_signature

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
OnCancelled: TypeAlias = Callable[[types.ToolCallCancellation], object]
WsgiApp: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""The largest request that is read. Runward's own requests are smaller."""
log = logging.getLogger("runward_client")

LATER: Final = object()
"""A function returns this to give its result later, with `CallbackClient`."""


class ToolError(RunwardError):
    """An error whose message the model reads."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call, as the tool gets it. `id` is the same for each attempt of the call, and unique
    everywhere: an idempotency key. `request` is the whole body."""

    id: str
    request: types.ToolCallRequest

    @property
    def state(self) -> types.JsonObject:
        """The state that the runs of a session share. It is empty for a tool that does not return
        envelopes."""
        return self.request.get("state", {})


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = b""

    @classmethod
    def json(cls, status: int, value: object) -> Self:
        return cls(status, json.dumps(value).encode())

    @classmethod
    def problem(cls, status: int, message: str) -> Self:
        return cls.json(status, {"message": message})

    @property
    def headers(self) -> list[tuple[str, str]]:
        kind = [("content-type", "application/json")] if self.body else []
        return [*kind, ("content-length", str(len(self.body)))]


class Server:
    """Answers requests, whatever the protocol. `functions` are the tools, by their names."""

    def __init__(
        self,
        functions: Mapping[str, Callable[[ToolCall], object]],
        secret: str | Sequence[str],
        tolerance: float,
        on_cancelled: OnCancelled | None,
    ) -> None:
        read_secrets(secret)
        self._functions = functions
        self._secret = secret
        self._tolerance = tolerance
        self._on_cancelled = on_cancelled

    def begin(self, headers: Mapping[str, str], body: bytes) -> Reply | Callable[[], object]:
        """Return the response, or the function to call for it. `headers` are in lower case."""
        try:
            verify_signature(headers, body, self._secret, tolerance=self._tolerance)
        except SignatureError as error:
            return Reply.problem(401, str(error))
        request: types.ToolRequest = json.loads(body)
        if request["type"] == "tool_call.cancelled" and self._on_cancelled is not None:
            return partial(self._on_cancelled, request)
        if request["type"] != "tool_call":  # such as a type of a newer version
            return Reply(204)
        function = self._functions.get(request["tool"])
        if function is None:
            return Reply.problem(404, f"This server has no tool {request['tool']}.")
        return partial(function, ToolCall(headers["webhook-id"], request))

    def finish(self, result: object) -> Reply:
        return Reply(202) if result is LATER else Reply.json(200, result)

    def explain(self, error: Exception) -> Reply:
        """Return the response to a call whose function raised an error."""
        if isinstance(error, ToolError):
            return Reply.json(200, {"is_error": True, "error": str(error)})
        log.error("A tool failed.", exc_info=error)
        return Reply.problem(500, "The tool failed.")


def make_asgi_app(server: Server) -> AsgiApp:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _answer_lifespan(receive, send)
            return
        reply = await _answer(server, scope, receive)
        headers = [(name.encode(), value.encode()) for name, value in reply.headers]
        start = {"type": "http.response.start", "status": reply.status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": reply.body})

    return app


def make_wsgi_app(server: Server) -> WsgiApp:
    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        reply = _answer_blocking(server, environ)
        status = HTTPStatus(reply.status)
        start_response(f"{status.value} {status.phrase}", reply.headers)
        return [reply.body]

    return app


async def _answer_lifespan(receive: Receive, send: Send) -> None:
    """Answer the messages with which a server starts and stops an application."""
    for event in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{event}.complete"})


async def _answer(server: Server, scope: MutableMapping[str, Any], receive: Receive) -> Reply:
    if scope["method"] != "POST":
        return Reply.problem(405, "Send a POST request.")
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            return Reply.problem(413, "The request is too large.")
    work = server.begin(headers, bytes(body))
    if isinstance(work, Reply):
        return work
    try:
        result = await asyncio.to_thread(work)
        return server.finish(await result if inspect.isawaitable(result) else result)
    except Exception as error:
        return server.explain(error)


def _answer_blocking(server: Server, environ: dict[str, Any]) -> Reply:
    if environ["REQUEST_METHOD"] != "POST":
        return Reply.problem(405, "Send a POST request.")
    size = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 <= size <= MAX_BODY_BYTES:
        return Reply.problem(413, "The request is too large.")
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    work = server.begin(headers, environ["wsgi.input"].read(size))
    if isinstance(work, Reply):
        return work
    try:
        result = work()
        return server.finish(asyncio.run(_await(result)) if inspect.isawaitable(result) else result)
    except Exception as error:
        return server.explain(error)


async def _await(result: Awaitable[object]) -> object:
    return await result
