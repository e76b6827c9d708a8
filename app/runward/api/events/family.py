"""`include=children`: the merged log of a run and its child runs at any depth, polled or streamed.

A reader has one position in each run's log. The cursor is a token that contains all these
positions.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from runward.api.events.follow import Batch, Entry, ensure_log_is_kept
from runward.api.http.params import Cursor
from runward.domain.events.kinds import RunWaitingEvent, ToolCallProgressEvent
from runward.domain.ids import ProjectId, RunId
from runward.store.live.events import StoredEvent
from runward.store.live.family_events import FamilyPage, read_family_after
from runward.store.live.feed import Feed
from runward.store.live.followers import FamilyFollower
from runward.store.postgres.db import Tx

_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
_STEP: Final = timedelta(milliseconds=1)
"""Precision of the times in a token."""
_HEAD: Final = struct.Struct(">Q")
_ENTRY: Final = struct.Struct(">16sI")


@dataclass(frozen=True, slots=True)
class FamilyPosition:
    """The last event that the reader has received of each run. If a run is missing here and ended
    after `floor`, the reader has received none of its events. If it ended at or before `floor`, the
    reader has received all of them. So the token contains no entries for old child runs."""

    seen: dict[UUID, int] = field(default_factory=dict[UUID, int])
    floor: datetime = _LONG_AGO

    @classmethod
    def parse(cls, cursor: Cursor) -> "FamilyPosition":
        """Return the position that a token encodes. Raises InvalidRequestError."""
        if cursor.text == "0":
            return cls()
        try:
            raw = urlsafe_b64decode(cursor.text + "=" * (-len(cursor.text) % 4))
            [milliseconds] = _HEAD.unpack_from(raw)
            entries = _ENTRY.iter_unpack(raw[_HEAD.size :])
            seen = {UUID(bytes=id_): number for id_, number in entries}
            floor = _LONG_AGO + timedelta(milliseconds=milliseconds)
        except (ValueError, struct.error, OverflowError):
            raise cursor.make_error(
                "must be the `last_id` of an earlier page of the same events, also requested with "
                "include=children"
            ) from None
        if any(number >= 2**31 for number in seen.values()):
            raise cursor.make_error(
                "must be the `last_id` of an earlier page of the same events, also requested with "
                "include=children"
            )
        return cls(seen, floor)

    def __str__(self) -> str:
        return self.token()

    def token(self) -> str:
        floor = _HEAD.pack((self.floor - _LONG_AGO) // _STEP)
        entries = (_ENTRY.pack(id_.bytes, number) for id_, number in self.seen.items())
        return urlsafe_b64encode(floor + b"".join(entries)).rstrip(b"=").decode()

    def advance_to(self, event: StoredEvent) -> "FamilyPosition":
        return replace(self, seen={**self.seen, event.run_id: event.sequence})

    def drop_ended_runs(self, page: FamilyPage, root: RunId) -> "FamilyPosition":
        """Drop child runs that ended long ago and whose events the reader has received. Call this
        before the page's events are added. The floor stays below the end of every run that the
        reader has not read completely. Such runs need no entry, because a token could not hold
        thousands of entries."""
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
        """Return the page's events, each with the position after it."""
        position = self.drop_ended_runs(page, root)
        for event in page.events:
            position = position.advance_to(event)
            yield event, position


def _round_to_milliseconds(at: datetime) -> datetime:
    """Round a time down to milliseconds, the precision of tokens."""
    return at - timedelta(microseconds=at.microsecond % 1000)


class FamilyLog:
    """The log of a run and of its child runs at any depth."""

    def __init__(
        self, project_id: ProjectId, run_id: RunId, position: FamilyPosition | None = None
    ) -> None:
        self.project_id = project_id
        self.run_id = run_id
        self.ended = False
        self._position = position or FamilyPosition()

    @property
    def seen(self) -> int:
        return self._position.seen.get(self.run_id, 0)

    def open(self, feed: Feed) -> AbstractContextManager[FamilyFollower]:
        return feed.follow_family(self.project_id, self.run_id)

    @property
    def position_key(self) -> None:
        """Return None, because readers rarely have the same position in all runs."""
        return None

    async def query(self, tx: Tx, count: int) -> FamilyPage | None:
        seen, floor = self._position.seen, self._position.floor
        return await read_family_after(tx, self.project_id, self.run_id, seen, floor, count)

    def add(self, page: FamilyPage, follower: FamilyFollower) -> Batch:
        """Return the entries. If an entry shows that a child run was started, the log also follows
        this child run."""
        if not page.more:
            last_seq = page.runs[self.run_id].last_seq
            ensure_log_is_kept(page.status, page.events, seen=self.seen, last_seq=last_seq)
        found = list(self._position.advance(page, self.run_id))
        if found:
            last, self._position = found[-1]
            self.ended = self._is_end(last)
        follower.add_runs({id_: one.last_seq for id_, one in page.runs.items()})
        return Batch([Entry(*item) for item in found], page.status, page.more)

    def read_carried(self, feed: Feed, follower: FamilyFollower) -> Batch | None:
        """Return None, because other processes may execute child runs."""
        return None

    def append(self, event: StoredEvent, follower: FamilyFollower) -> Entry:
        self._position = self._position.advance_to(event)
        self.ended = self._is_end(event)
        follower.add_runs({event.run_id: event.sequence})
        return Entry(event, self._position)

    def missing(self, event: StoredEvent) -> int:
        return event.sequence - self._position.seen.get(event.run_id, 0)

    def _is_end(self, event: StoredEvent) -> bool:
        return event.is_last and event.run_id == self.run_id

    def must_read(self, event: StoredEvent) -> bool:
        """Return whether the event may have started a child run, or may end the log."""
        is_root = event.run_id == self.run_id
        if self.missing(event) < 1:
            return is_root and event.is_last
        ends = is_root and (event.is_last or event.type == RunWaitingEvent.type)
        return ends or event.type == ToolCallProgressEvent.type
