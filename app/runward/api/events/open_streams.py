"""Open streams of server-sent events: their maximum number for each key, and checks of the key
while a stream is open."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Mapping,
)
from contextlib import ExitStack, aclosing, contextmanager
from typing import Any, Final, TypeAlias, TypeVar, cast
from uuid import UUID

from fastapi import Response
from starlette.types import Receive, Scope, Send

from runward.api.events.follow import EventLog, encode_log
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.access.key_checks import KeyCheck
from runward.store.live.events import read_some
from runward.store.runs import views

T = TypeVar("T")

_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def stream_events(
    storage: Storage,
    live: Live,
    principal: Principal,
    log: EventLog[Any, Any],
    until: Collection[RunStatus],
) -> Response:
    """Return the stream of a run's events. If the run has ended and the client has its last event,
    return 204, so that EventSource stops reconnecting. Raises RunNotFoundError, EventsRemovedError
    and TooManyRequestsError before anything is sent."""
    if not live.has_events_after(log.project_id, log.run_id, log.seen):
        async with storage.connect() as tx:
            found = await views.get_status(tx, log.project_id, log.run_id)
            if found is None:
                raise not_found.RunNotFoundError
            status, last = found
            if status in TERMINAL and log.seen >= last:
                return Response(status_code=204)
            if status in TERMINAL and not await read_some(tx, log.project_id, log.run_id, [last]):
                raise e.EventsRemovedError
    return respond_with_stream(live, principal, encode_log(storage, live, log, until))


Frame: TypeAlias = str | bytes
"""One or more server-sent events, or a comment."""
Frames: TypeAlias = tuple[AsyncIterator[Frame], Mapping[str, str]]
"""The frames of a stream, and the headers of its response."""


async def start_stream(
    live: Live, principal: Principal, start: Callable[[], Awaitable[Frames]]
) -> Response:
    """Reserve a stream before `start` commits a run. If the key has too many streams, no run is
    started and the client can repeat the request. Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        frames, headers = await start()
        return _EventStream(frames, live.get_key_check(principal), reserved.pop_all(), headers)


def respond_with_stream(live: Live, principal: Principal, frames: AsyncIterator[Frame]) -> Response:
    """Return the response with the stream. Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        return _EventStream(frames, live.get_key_check(principal), reserved.pop_all(), {})


class _EventStream(Response):
    """A response that sends frames as they arrive. It holds the reserved stream until the last
    frame is sent, the client disconnects, or the key is no longer valid."""

    def __init__(
        self,
        frames: AsyncIterator[Frame],
        key: KeyCheck,
        reserved: ExitStack,
        headers: Mapping[str, str],
    ) -> None:
        self.status_code = 200
        self.media_type = "text/event-stream"
        self.background = None
        self.init_headers({**_HEADERS, **headers})
        self._frames = cast("AsyncGenerator[Frame]", frames)
        self._key = key
        self._reserved = reserved

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the frames. This takes a third of the time of Starlette's StreamingResponse, whose
        two tasks are a group."""
        loop = asyncio.get_running_loop()

        async def end_with_client() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            open_stream.reschedule(loop.time())

        with self._reserved:
            open_stream = asyncio.timeout(None)
            try:
                async with open_stream, aclosing(self._frames):
                    watching = loop.create_task(end_with_client())
                    try:
                        await self._send(send)
                    finally:
                        watching.cancel()
            except TimeoutError:
                if not open_stream.expired():
                    raise

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async for frame in self._frames:
            if self._key.is_due and not await self._key.is_valid():
                break
            body = frame.encode() if isinstance(frame, str) else frame
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@contextmanager
def count_stream(live: Live, principal: Principal) -> Generator[None]:
    """Count one more open stream of the key and of the project until the block ends. No other task
    runs between the check and the count. Raises TooManyRequestsError."""
    streams, of_key = live.open_streams, principal.key_limits.event_streams
    owners: dict[UUID, tuple[str, int | None]] = {
        principal.key_id: ("API key", min(live.streams_per_key, of_key or live.streams_per_key)),
        principal.project_id: ("project", principal.limits.event_streams),
    }
    for id_, (owner, most) in owners.items():
        if most is not None and streams[id_] >= most:
            raise e.TooManyRequestsError(
                f"This {owner} already has {most} open streams, which is the maximum. Close one "
                "of them.",
                retry_after=5,
            )
    streams.update(owners.keys())
    try:
        yield
    finally:
        for id_ in owners:
            streams[id_] -= 1
            if not streams[id_]:
                del streams[id_]


async def check_key(key: KeyCheck, items: AsyncIterator[T]) -> AsyncGenerator[T]:
    """Yield the items of the stream. Check the key before each of them. End the stream if the key
    is no longer valid."""
    async with aclosing(cast("AsyncGenerator[T]", items)) as open_stream:
        async for one in open_stream:
            if key.is_due and not await key.is_valid():
                return
            yield one
