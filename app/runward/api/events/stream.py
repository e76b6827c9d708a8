"""The event log over SSE (WHATWG HTML, server-sent events): stored events bear their number as
`id:`, transient ones bear none. A stream holds no database connection while it waits."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import ExitStack, aclosing
from typing import Any, Final

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from runward.api.events.follow import Entry, EventLog, follow
from runward.api.events.open_streams import check_key, count_stream
from runward.domain import errors as e
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.live.drafts import Delta
from runward.store.runs import views

RETRY_MS: Final = 1000
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def stream_events(
    storage: Storage,
    live: Live,
    principal: Principal,
    log: EventLog[Any],
    until: Collection[RunStatus],
) -> Response:
    """Raises RunNotFoundError and TooManyRequestsError before anything is sent. Where the run
    has ended and the client has its last event, 204 tells EventSource to stop reconnecting."""
    async with storage.read() as tx:
        found = await views.get_status(tx, log.project_id, log.run_id)
    if found is None:
        raise e.RunNotFoundError
    status, last = found
    if status in TERMINAL and log.seen >= last:
        return Response(status_code=204)
    return respond_with_stream(storage, live, principal, encode_log(storage, live, log, until))


Frames = tuple[AsyncIterator[str], Mapping[str, str]]
"""The frames of a stream and the headers of its answer."""


async def start_stream(
    storage: Storage, live: Live, principal: Principal, start: Callable[[], Awaitable[Frames]]
) -> Response:
    """Reserve a stream before `start` commits a run, so that a request that is refused for its
    streams has started nothing and can be repeated. Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        frames, headers = await start()
        return _CountedResponse(
            check_key(storage, principal, frames, _is_event), reserved.pop_all(), headers
        )


def respond_with_stream(
    storage: Storage, live: Live, principal: Principal, frames: AsyncIterator[str]
) -> Response:
    """Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        return _CountedResponse(
            check_key(storage, principal, frames, _is_event), reserved.pop_all(), {}
        )


def _is_event(frame: str) -> bool:
    """Not a comment."""
    return not frame.startswith(":")


class _CountedResponse(StreamingResponse):
    """Holds the reserved stream until its last frame is sent or the client is gone."""

    def __init__(
        self, frames: AsyncIterator[str], reserved: ExitStack, headers: Mapping[str, str]
    ) -> None:
        super().__init__(frames, media_type="text/event-stream", headers={**_HEADERS, **headers})
        self._reserved = reserved

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._reserved:
            await super().__call__(scope, receive, send)


async def encode_log(
    storage: Storage, live: Live, log: EventLog[Any], until: Collection[RunStatus] = TERMINAL
) -> AsyncGenerator[str]:
    """Yield the frames of a log, and comments while nothing comes."""
    yield f"retry: {RETRY_MS}\n\n"
    async with aclosing(follow(storage, live, log, until=until, deltas=True)) as batches:
        async for batch in batches:
            if batch.is_idle:
                yield ": still here\n\n"
            elif batch.items:
                yield "".join(map(_encode_frame, batch.items))


def _encode_frame(item: Entry | Delta) -> str:
    if isinstance(item, Delta):
        return f"event: {item.type}\ndata: {item.json}\n\n"
    return f"id: {item.cursor}\nevent: {item.event.type}\ndata: {item.event.json}\n\n"
