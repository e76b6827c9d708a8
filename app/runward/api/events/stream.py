"""The event log over SSE (WHATWG HTML, server-sent events): stored events bear their number as
`id:`, transient ones bear none. A stream holds no database connection while it waits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, aclosing, contextmanager
from typing import Final, TypeVar, cast

from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, WAIT_ENDING
from runward.services import Live, Storage
from runward.store.access import console_sessions, keys
from runward.store.live import events
from runward.store.live.drafts import Delta
from runward.store.live.events import StoredEvent
from runward.store.live.listener import Follower
from runward.store.postgres.db import Tx
from runward.store.runs import views

T = TypeVar("T")

PAGE: Final = 500
"""Events read at once."""
HEARTBEAT_SECONDS: Final = 15.0
KEY_CHECK_SECONDS: Final = 2.0
"""Seconds after which an open stream checks its key again."""
RETRY_MS: Final = 1000
_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


async def stream_events(
    storage: Storage,
    live: Live,
    principal: Principal,
    run_id: RunId,
    *,
    after: int,
    until_settled: bool = False,
) -> Response:
    """Raises RunNotFoundError and TooManyRequestsError before anything is sent. Where the run
    has ended and the client has every event, 204 tells EventSource to stop reconnecting."""
    async with storage.read() as tx:
        found = await views.get_status(tx, principal.project_id, run_id)
    if found is None:
        raise e.RunNotFoundError
    status, last = found
    if status in TERMINAL and after >= last:
        return Response(status_code=204)
    frames = _frames(
        storage, live, principal.project_id, run_id, after, until_settled=until_settled
    )
    return respond_with_stream(storage, live, principal, frames)


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


def follow_from_start(
    storage: Storage, live: Live, project_id: ProjectId, run_id: RunId
) -> AsyncIterator[str]:
    return _frames(storage, live, project_id, run_id, 0, until_settled=False)


def respond_with_stream(
    storage: Storage, live: Live, principal: Principal, frames: AsyncIterator[str]
) -> Response:
    """Raises TooManyRequestsError."""
    with ExitStack() as reserved:
        reserved.enter_context(count_stream(live, principal))
        return _CountedResponse(
            check_key(storage, principal, frames, _is_event), reserved.pop_all(), {}
        )


@contextmanager
def count_stream(live: Live, principal: Principal) -> Generator[None]:
    """Count one more open stream of the key until the block ends. Nobody else runs between the
    check and the count. Raises TooManyRequestsError."""
    streams = live.open_streams
    if streams[principal.key_id] >= live.streams_per_key:
        raise e.TooManyRequestsError(
            f"This key has {live.streams_per_key} streams open; close one.", retry_after=5
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
    """Yield the items of the stream. Before news, check the key or the console session if the last
    check is KEY_CHECK_SECONDS old. End the stream if it is no longer valid."""
    loop = asyncio.get_running_loop()
    looked = loop.time()
    async with aclosing(cast("AsyncGenerator[T]", items)) as open_stream:
        async for one in open_stream:
            if needs_check(one) and loop.time() - looked >= KEY_CHECK_SECONDS:
                async with storage.read() as tx:
                    if not await _is_valid(tx, principal):
                        return
                looked = loop.time()
            yield one


async def _is_valid(tx: Tx, principal: Principal) -> bool:
    if principal.session is not None:
        return await console_sessions.get_session(tx, principal.session) is not None
    return await keys.is_valid(tx, principal.project_id, principal.key_id)


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


async def _frames(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    after: int,
    *,
    until_settled: bool,
) -> AsyncIterator[str]:
    """First what is stored, then what goes by in this process; stored again whenever something
    may have been missed."""
    with live.follow(project_id, run_id) as follower:
        follower.seen = after
        yield f"retry: {RETRY_MS}\n\n"
        while not live.is_stopping():
            text, over = await _read_stored(storage, run_id, follower, until_settled=until_settled)
            if text:
                yield text
            if over:
                return
            if follower.adrift:
                live.catch_up(follower)
            async for frames, last in _follow_live(live, follower, until_settled=until_settled):
                if frames:
                    yield frames
                if last:
                    return


async def _read_stored(
    storage: Storage, run_id: RunId, follower: Follower, *, until_settled: bool
) -> tuple[str, bool]:
    """The next page as frames, and whether the stream ends with it."""
    project_id = follower.project_id
    follower.hinted = False
    async with storage.read() as tx:
        stored = await events.read_after(tx, project_id, run_id, follower.seen, PAGE)
        found = None
        if until_settled or not stored:  # without news, the reader may be beyond the log's end
            found = await views.get_status(tx, project_id, run_id)
    if stored:
        follower.seen = stored[-1].sequence
    ends = WAIT_ENDING if until_settled else TERMINAL
    settled = found is not None and found[0] in ends and found[1] <= follower.seen
    over = settled or bool(stored and stored[-1].is_last)
    if len(stored) == PAGE:
        follower.wake()  # there may be more
    return "".join(encode_frame(event, event.sequence) for event in stored), over


async def _follow_live(
    live: Live, follower: Follower, *, until_settled: bool
) -> AsyncIterator[tuple[str, bool]]:
    """Frames, and whether they end the stream. Ends when the database is to be read."""
    while not live.is_stopping():
        frames, last = _take_pushed(follower)
        if frames or last:
            yield frames, last
            if until_settled and "event: run.waiting\n" in frames:
                return
        if follower.hinted:
            return
        if not await follower.wait(HEARTBEAT_SECONDS):
            yield ": still here\n\n", False


def _take_pushed(follower: Follower) -> tuple[str, bool]:
    """What went by in this process, as frames, and whether it ends the stream."""
    frames: list[str] = []
    while follower.pushed:
        one = follower.pushed.popleft()
        if isinstance(one, Delta):
            frames += encode_deltas(follower, one)
        elif one.sequence == follower.seen + 1:
            follower.seen = one.sequence
            frames.append(encode_frame(one, one.sequence))
            if one.is_last:
                return "".join(frames), True
        elif one.sequence > follower.seen:
            follower.pushed.clear()
            follower.wake()  # one was missed
        elif one.is_last:  # the reader began beyond the log's end
            return "".join(frames), True
    return "".join(frames), False


def encode_deltas(follower: Follower, piece: Delta) -> list[str]:
    """What of it the reader has not had."""
    return [f"event: {one.type}\ndata: {one.json}\n\n" for one in follower.select_unseen(piece)]


def encode_frame(event: StoredEvent, id_: int | str) -> str:
    return f"id: {id_}\nevent: {event.type}\ndata: {event.json}\n\n"
