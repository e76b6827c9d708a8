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
from typing import Any, Final, TypeVar, cast

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from runward.api.events.follow import EventLog, encode_log
from runward.domain import errors as e
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.access import console_sessions, keys
from runward.store.postgres.db import Tx
from runward.store.runs import views

T = TypeVar("T")

KEY_CHECK_SECONDS: Final = 2.0
"""Number of seconds between two checks of the key of an open stream."""
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def stream_events(
    storage: Storage,
    live: Live,
    principal: Principal,
    log: EventLog[Any],
    until: Collection[RunStatus],
) -> Response:
    """Return the stream of a run's events. If the run has ended and the client has its last event,
    return 204, so that EventSource stops reconnecting. Raises RunNotFoundError and
    TooManyRequestsError before anything is sent."""
    if not live.has_events_after(log.project_id, log.run_id, log.seen):
        async with storage.connect() as tx:
            found = await views.get_status(tx, log.project_id, log.run_id)
        if found is None:
            raise e.RunNotFoundError
        status, last = found
        if status in TERMINAL and log.seen >= last:
            return Response(status_code=204)
    return respond_with_stream(storage, live, principal, encode_log(storage, live, log, until))


Frames = tuple[AsyncIterator[str], Mapping[str, str]]
"""The frames of a stream, and the headers of its response."""


async def start_stream(
    storage: Storage, live: Live, principal: Principal, start: Callable[[], Awaitable[Frames]]
) -> Response:
    """Reserve a stream before `start` commits a run. If the key has too many streams, no run is
    started and the client can repeat the request. Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        frames, headers = await start()
        return _CountedResponse(
            check_key(storage, principal, frames, _is_event), reserved.pop_all(), headers
        )


def respond_with_stream(
    storage: Storage, live: Live, principal: Principal, frames: AsyncIterator[str]
) -> Response:
    """Return the response with the stream. Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        return _CountedResponse(
            check_key(storage, principal, frames, _is_event), reserved.pop_all(), {}
        )


def _is_event(frame: str) -> bool:
    """Return whether the frame is an event and not a comment."""
    return not frame.startswith(":")


class _CountedResponse(StreamingResponse):
    """A response that holds the reserved stream until the last frame is sent or the client
    disconnects."""

    def __init__(
        self, frames: AsyncIterator[str], reserved: ExitStack, headers: Mapping[str, str]
    ) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={**_HEADERS, **headers})
        self._reserved = reserved

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._reserved:
            await super().__call__(scope, receive, send)


@contextmanager
def count_stream(live: Live, principal: Principal) -> Generator[None]:
    """Count one more open stream of the key until the block ends. No other task runs between the
    check and the count. Raises TooManyRequestsError."""
    streams = live.open_streams
    if streams[principal.key_id] >= live.streams_per_key:
        raise e.TooManyRequestsError(
            f"This API key already has {live.streams_per_key} open streams, which "
            "is the maximum. Close one of them.",
            retry_after=5,
        )
    streams[principal.key_id] += 1
    try:
        yield
    finally:
        streams[principal.key_id] -= 1
        if not streams[principal.key_id]:
            del streams[principal.key_id]


async def check_key(
    storage: Storage,
    principal: Principal,
    items: AsyncIterator[T],
    needs_check: Callable[[T], bool],
) -> AsyncGenerator[T]:
    """Yield the items of the stream. Before an item, check the API key or console session again if
    the last check is older than KEY_CHECK_SECONDS. End the stream if the key or session is no
    longer valid."""
    loop = asyncio.get_running_loop()
    looked = loop.time()
    async with aclosing(cast("AsyncGenerator[T]", items)) as open_stream:
        async for one in open_stream:
            if needs_check(one) and loop.time() - looked >= KEY_CHECK_SECONDS:
                async with storage.connect() as tx:
                    if not await _is_valid(tx, principal):
                        return
                looked = loop.time()
            yield one


async def _is_valid(tx: Tx, principal: Principal) -> bool:
    if principal.session is not None:
        return await console_sessions.get_session(tx, principal.session) is not None
    return await keys.is_valid(tx, principal.project_id, principal.key_id)
