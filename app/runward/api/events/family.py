"""`include=children`: the log of a run and of all runs below it as one, polled or streamed.

What a reader has is one number for each run, so its cursor is a token that holds them all."""

import asyncio
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from fastapi import Response

from runward.api.events.stream import (
    HEARTBEAT_SECONDS,
    PAGE,
    RETRY_MS,
    encode_deltas,
    encode_frame,
    respond_with_stream,
)
from runward.api.events.wait import RECHECK_SECONDS
from runward.api.http.params import Cursor
from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, WAIT_ENDING
from runward.services import Live, Storage
from runward.store.live.drafts import Delta
from runward.store.live.events import StoredEvent
from runward.store.live.family_events import FamilyPage, read_family_after
from runward.store.live.listener import FamilyFollower

_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(milliseconds=1)
"""What a token holds of a time."""
_HEAD: Final = struct.Struct(">Q")
_ENTRY: Final = struct.Struct(">16sI")


@dataclass(frozen=True, slots=True)
class FamilyPosition:
    """The last event seen of each run. A run that is not in here is unseen and ended after `floor`,
    or ended up to `floor` and was seen whole: so old child runs need no place."""

    seen: dict[UUID, int] = field(default_factory=dict[UUID, int])
    floor: datetime = _LONG_AGO

    @classmethod
    def parse(cls, cursor: Cursor) -> "FamilyPosition":
        """Raises InvalidRequestError."""
        if cursor.text == "0":
            return cls()
        try:
            raw = urlsafe_b64decode(cursor.text + "=" * (-len(cursor.text) % 4))
            [milliseconds] = _HEAD.unpack_from(raw)
            entries = _ENTRY.iter_unpack(raw[_HEAD.size :])
            seen = {UUID(bytes=id_): number for id_, number in entries}
            floor = _LONG_AGO + timedelta(milliseconds=milliseconds)
        except (ValueError, struct.error, OverflowError):
            raise cursor.make_error("must be the last id that include=children gave") from None
        if any(number >= 2**31 for number in seen.values()):
            raise cursor.make_error("must be the last id that include=children gave")
        return cls(seen, floor)

    def token(self) -> str:
        floor = _HEAD.pack((self.floor - _LONG_AGO) // _STEP)
        entries = (_ENTRY.pack(id_.bytes, number) for id_, number in self.seen.items())
        return urlsafe_b64encode(floor + b"".join(entries)).rstrip(b"=").decode()

    def advance_to(self, event: StoredEvent) -> "FamilyPosition":
        return replace(self, seen={**self.seen, event.run_id: event.sequence})

    def drop_ended_runs(self, page: FamilyPage, root: RunId) -> "FamilyPosition":
        """Before the page's events: without child runs that were seen whole and ended long ago.
        The floor stays below the end of every run that was not seen whole, so that such a run is
        read without a place: thousands of them would not fit into a token."""
        long_ended = {
            id_: (one.ended_at, self.seen.get(id_, 0) >= one.last_seq)
            for id_, one in page.runs.items()
            if id_ != root and one.long_ended and one.ended_at is not None
        }
        unseen = [ended_at for ended_at, is_whole in long_ended.values() if not is_whole]
        below = min(unseen) - _STEP if unseen else page.floor
        floor = max(self.floor, _round_to_milliseconds(min(below, page.floor)))
        over = {id_ for id_, (at, is_whole) in long_ended.items() if is_whole and at <= floor}
        return FamilyPosition({id_: n for id_, n in self.seen.items() if id_ not in over}, floor)

    def advance(
        self, page: FamilyPage, root: RunId
    ) -> Iterator[tuple[StoredEvent, "FamilyPosition"]]:
        """The page's events, each with the position after it."""
        position = self.drop_ended_runs(page, root)
        for event in page.events:
            position = position.advance_to(event)
            yield event, position


def _round_to_milliseconds(at: datetime) -> datetime:
    """Rounded down, as tokens hold it."""
    return at - timedelta(microseconds=at.microsecond % 1000)


async def read_family_page(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    cursor: Cursor,
    limit: int,
    wait: float,
) -> str:
    """As JSON. Raises RunNotFoundError and InvalidRequestError."""
    position = FamilyPosition.parse(cursor)
    page = await _poll(storage, live, project_id, run_id, position, limit + 1, wait)
    shown = list(position.advance(page, run_id))
    more = page.more or len(shown) > limit
    shown = shown[:limit]
    data = ",".join(event.json for event, _ in shown)
    first = f'"{shown[0][1].token()}"' if shown else "null"
    last = f'"{shown[-1][1].token()}"' if shown else "null"
    return (
        f'{{"object":"list","data":[{data}],"first_id":{first},"last_id":{last},'
        f'"has_more":{"true" if more else "false"}}}'
    )


async def _poll(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    position: FamilyPosition,
    count: int,
    wait: float,
) -> FamilyPage:
    loop = asyncio.get_running_loop()
    end = loop.time() + wait
    with live.follow_family(project_id, run_id) as follower:
        while True:
            page = await _read(storage, follower, run_id, position, count)
            left = end - loop.time()
            over = page.events or left <= 0 or page.status in TERMINAL
            if over or live.is_stopping():
                return page
            follower.pushed.clear()
            await follower.wait(min(left, RECHECK_SECONDS))


async def _read(
    storage: Storage,
    follower: FamilyFollower,
    run_id: RunId,
    position: FamilyPosition,
    count: int,
) -> FamilyPage:
    """Whatever comes to light is followed from then on. Raises RunNotFoundError."""
    async with storage.read() as tx:
        page = await read_family_after(
            tx, follower.project_id, run_id, position.seen, position.floor, count
        )
    if page is None:
        raise e.RunNotFoundError
    follower.add_runs({id_: one.last_seq for id_, one in page.runs.items()})
    return page


async def stream_family(
    storage: Storage,
    live: Live,
    principal: Principal,
    run_id: RunId,
    cursor: Cursor,
    *,
    until_settled: bool,
) -> Response:
    """Raises AppErrors before anything is sent; 204 where the run has ended and the client has
    its last event."""
    position = FamilyPosition.parse(cursor)
    with live.follow_family(principal.project_id, run_id) as follower:
        page = await _read(storage, follower, run_id, position, 1)
    if page.status in TERMINAL and position.seen.get(run_id, 0) >= page.runs[run_id].last_seq:
        return Response(status_code=204)
    frames = _frames(
        storage, live, principal.project_id, run_id, position, until_settled=until_settled
    )
    return respond_with_stream(storage, live, principal, frames)


async def _frames(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    position: FamilyPosition,
    *,
    until_settled: bool,
) -> AsyncIterator[str]:
    """First what is stored, then what goes by in this process; stored again whenever something
    may have been missed, and where it matters what the other runs did."""
    with live.follow_family(project_id, run_id) as follower:
        yield f"retry: {RETRY_MS}\n\n"
        while not live.is_stopping():
            page = await _read(storage, follower, run_id, position, PAGE)
            shown = list(position.advance(page, run_id))
            for event, at in shown:
                position = at
                yield encode_frame(event, at.token())
            ends = WAIT_ENDING if until_settled else TERMINAL
            seen_whole = position.seen.get(run_id, 0) >= page.runs[run_id].last_seq
            settled = page.status in ends and not page.more and (until_settled or seen_whole)
            if settled or any(one.run_id == run_id and one.is_last for one in page.events):
                return
            if page.more:
                continue
            if follower.adrift:
                live.catch_up(follower)
            async for text, at in _follow_live(live, follower, run_id, position):
                position = at
                yield text


async def _follow_live(
    live: Live, follower: FamilyFollower, run_id: RunId, position: FamilyPosition
) -> AsyncIterator[tuple[str, FamilyPosition]]:
    """Ends when the database is to be read."""
    while not live.is_stopping():
        while follower.pushed:
            one = follower.pushed.popleft()
            if isinstance(one, Delta):
                yield "".join(encode_deltas(follower, one)), position
                continue
            missing = one.sequence - position.seen.get(one.run_id, 0)
            beyond = missing < 1 and one.is_last and one.run_id == run_id
            if missing > 1 or beyond or (missing == 1 and _concerns_others(one, run_id)):
                return
            if missing == 1:
                position = position.advance_to(one)
                follower.add_runs({one.run_id: one.sequence})
                yield encode_frame(one, position.token()), position
        if follower.hinted:
            follower.hinted = False
            return
        if not await follower.wait(HEARTBEAT_SECONDS):
            yield ": still here\n\n", position


def _concerns_others(event: StoredEvent, run_id: RunId) -> bool:
    """A child run may have started, or the stream may end with it."""
    ends = event.run_id == run_id and (event.is_last or event.type == "run.waiting")
    return ends or event.type == "tool_call.progress"
