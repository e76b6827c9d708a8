"""Streams of /mcp: messages between the events of a response, and the stream of changes that a
client of the protocol of 2025 opens with GET."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from starlette.types import Message, Send

from runward.api.events.follow import HEARTBEAT_SECONDS
from runward.api.mcp.elicitation import Question
from runward.api.mcp.resume import StreamPosition, encode_message
from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.services import Services

_CHANGED: Final = encode_message({"method": "notifications/tools/list_changed"})


class EventInjector:
    """Sends a response, and adds messages between the events of its stream. `position`: the start
    of the stream, if the client can continue it."""

    def __init__(self, send: Send, position: StreamPosition | None = None) -> None:
        self._send = send
        self._position = position
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()
        self._open = False

    async def __call__(self, message: Message) -> None:
        async with self._lock:
            if message["type"] == "http.response.start":
                kind = dict(message.get("headers", ())).get(b"content-type", b"")
                self._open = kind.startswith(b"text/event-stream")
                self._started.set()
            elif not message.get("more_body", False):
                self._open = False
            await self._send(message)
            if self._open and self._position and message["type"] == "http.response.start":
                await self._send_body(self._position.encode_event())

    async def send_run(self, run_id: RunId) -> None:
        """Send an event ID with which the client can continue to wait for the run."""
        assert self._position is not None
        await self._inject(self._position.accept(run_id).encode_event())

    async def send_question(self, question: Question) -> None:
        """Send a request of the server. The client sends the answer in a separate request."""
        about: JsonObject = {"method": "elicitation/create", "params": question.params}
        await self.send_message({"id": question.id, **about})

    async def send_message(self, message: JsonObject) -> None:
        await self._inject(encode_message(message))

    async def _inject(self, frame: str) -> None:
        await self._started.wait()
        async with self._lock:
            if self._open:
                await self._send_body(frame)

    async def _send_body(self, frame: str) -> None:
        body: Message = {"type": "http.response.body", "body": frame.encode(), "more_body": True}
        await self._send(body)


async def encode_changes(services: Services, principal: Principal) -> AsyncIterator[str]:
    """Yield the changes of the list of tools as server-sent events."""
    yield ": listening\n\n"
    async for changed in follow_tools(services, principal):
        yield _CHANGED if changed else ": still here\n\n"


async def follow_tools(services: Services, principal: Principal) -> AsyncGenerator[bool]:
    """Yield True when the list of tools may have changed, and False if it has not changed for a
    while. End when the process stops."""
    registry, queue, live = services.registry, services.queue, services.live
    with registry.watch_tools(principal.project_id) as watched:
        while not live.is_stopping():
            queue.watch_project(principal.project_id)
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await watched.wait()
            except TimeoutError:
                yield False
                continue
            watched.clear()
            if not live.is_stopping():
                yield True
