"""Follow the log of one run, or of a run and its child runs. Polling, streaming and waiting use the
same loop.

The loop reads the database at the start, and whenever it may have missed something. In between, it
returns the events and deltas that this process receives as notifications. It holds no database
connection while it waits.
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol, TypeVar

from runward.domain import errors as e
from runward.domain.events.kinds import RunWaitingEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.live import events
from runward.store.live.drafts import Delta
from runward.store.live.events import StoredEvent
from runward.store.live.feed import Feed
from runward.store.live.followers import Follower
from runward.store.postgres.db import Tx

RETRY_MS: Final = 1000
"""Milliseconds after which a client of server-sent events reconnects."""
PAGE: Final = 500
"""Maximum number of events of one database query."""
HEARTBEAT_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Entry:
    """An event and the reader's position after it. `cursor`: the position as clients send it."""

    event: StoredEvent
    position: object

    @property
    def cursor(self) -> str:
        return str(self.position)


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries and deltas in order. If the batch was read from the database, `status` is the status
    of the run, and `more` is whether the log has more entries. An idle batch has no entries and no
    deltas."""

    items: Sequence[Entry | Delta] = ()
    status: RunStatus | None = None
    more: bool = False

    @property
    def entries(self) -> list[Entry]:
        return [item for item in self.items if isinstance(item, Entry)]

    @property
    def is_idle(self) -> bool:
        return self.status is None and not self.items


F = TypeVar("F", bound=Follower)


class EventLog(Protocol[F]):
    """A log, and the position of its reader."""

    project_id: ProjectId
    run_id: RunId

    @property
    def seen(self) -> int:
        """The number of the last event of the run itself that the reader has received."""
        ...

    def open(self, feed: Feed) -> AbstractContextManager[F]: ...

    async def read(self, tx: Tx, follower: F, count: int) -> Batch:
        """Return the next `count` entries. Raises RunNotFoundError."""
        ...

    def read_carried(self, feed: Feed, follower: F) -> Batch | None:
        """Return all further entries if this process has them in memory. Events that another
        process is writing can be missing. A notification follows for these events."""
        ...

    def append(self, event: StoredEvent, follower: F) -> Entry: ...

    def missing(self, event: StoredEvent) -> int:
        """Return how many events of its run the reader has not received, up to and including this
        one."""
        ...

    def must_read(self, event: StoredEvent) -> bool:
        """Return whether the reader must read the database after this event."""
        ...


class RunLog:
    """The log of one run. A reader whose position is beyond the end, such as `RunLog(…,
    MAX_SEQUENCE)`, receives only changes of the status."""

    def __init__(self, project_id: ProjectId, run_id: RunId, seen: int = 0) -> None:
        self.project_id = project_id
        self.run_id = run_id
        self.seen = seen

    def open(self, feed: Feed) -> AbstractContextManager[Follower]:
        return feed.follow(self.project_id, self.run_id)

    async def read(self, tx: Tx, follower: Follower, count: int) -> Batch:
        page = await events.read_page(tx, self.project_id, self.run_id, self.seen, count)
        if page is None:
            raise e.RunNotFoundError
        entries = [self.append(event, follower) for event in page.events]
        follower.seen = min(self.seen, page.last_seq)
        return Batch(entries, page.status, more=self.seen < page.last_seq)

    def read_carried(self, feed: Feed, follower: Follower) -> Batch | None:
        found = feed.read_carried(self.project_id, self.run_id, self.seen)
        if found is None:
            return None
        entries = [self.append(event, follower) for event in found]
        return Batch(entries, RunStatus.IN_PROGRESS)

    def append(self, event: StoredEvent, follower: Follower) -> Entry:
        self.seen = follower.seen = event.sequence
        return Entry(event, event.sequence)

    def missing(self, event: StoredEvent) -> int:
        return event.sequence - self.seen

    def must_read(self, event: StoredEvent) -> bool:
        is_beyond = event.is_last and self.missing(event) < 1
        return event.type == RunWaitingEvent.type or is_beyond


async def follow(
    storage: Storage,
    live: Live,
    log_: EventLog[F],
    *,
    until: Collection[RunStatus] = TERMINAL,
    deltas: bool = False,
    count: int = PAGE,
    seconds: float = inf,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncGenerator[Batch]:
    """Yield stored entries and then new ones. Stop when the run has a status of `until` and all its
    entries were yielded, after `seconds`, or when the process stops. Yield an idle batch if nothing
    arrived for `heartbeat` seconds. `deltas`: yield drafts too, and begin with the entries that
    this process has in memory. Raises RunNotFoundError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    with log_.open(live.feed) as follower:
        page = log_.read_carried(live.feed, follower) if deltas else None
        while not live.is_stopping():
            follower.hinted = False
            page = page or await _read(storage, log_, follower, count)
            yield page
            if _is_end(page, log_.run_id) or (page.status in until and not page.more):
                return
            has_more, page = page.more, None
            if has_more:
                continue
            if deltas and follower.needs_catch_up:
                live.catch_up(follower)
            async for batch in _follow_live(storage, live, log_, follower, end, heartbeat):
                yield batch
                if _is_end(batch, log_.run_id):
                    return
            if loop.time() >= end:
                return


async def _read(storage: Storage, log_: EventLog[F], follower: F, count: int) -> Batch:
    async with storage.connect() as tx:
        return await log_.read(tx, follower, count)


async def _follow_live(
    storage: Storage, live: Live, log_: EventLog[F], follower: F, end: float, heartbeat: float
) -> AsyncGenerator[Batch]:
    """Yield the events that this process receives, until the database must be read."""
    loop = asyncio.get_running_loop()
    while not live.is_stopping():
        batch = _take_pushed(log_, follower)
        if batch.items:
            yield batch
        left = min(heartbeat, end - loop.time())
        if follower.hinted or left <= 0:
            return
        if not await follower.wait(left):
            yield Batch()


def _take_pushed(log_: EventLog[F], follower: F) -> Batch:
    """Return the events that this process has received. Sets `hinted` if the database must be
    read."""
    items: list[Entry | Delta] = []
    while follower.pushed:
        item = follower.pushed.popleft()
        if isinstance(item, Delta):
            items += follower.select_unseen(item)
        elif log_.missing(item) > 1 or log_.must_read(item):
            follower.hinted = True
            break
        elif log_.missing(item) == 1:
            items.append(log_.append(item, follower))
    return Batch(items)


def _is_end(batch: Batch, run_id: RunId) -> bool:
    return any(one.event.is_last and one.event.run_id == run_id for one in batch.entries)


async def encode_log(
    storage: Storage, live: Live, log: EventLog[F], until: Collection[RunStatus] = TERMINAL
) -> AsyncGenerator[str]:
    """Yield the log as server-sent events (WHATWG HTML), and comments while there are no events.
    Stored events have their number as `id:`. Transient events have no `id:`."""
    head = f"retry: {RETRY_MS}\n\n"
    async with aclosing(follow(storage, live, log, until=until, deltas=True)) as batches:
        async for batch in batches:
            if batch.is_idle:
                yield ": still here\n\n"
            elif batch.items or head:
                yield head + "".join(map(_encode_frame, batch.items))
                head = ""


def _encode_frame(item: Entry | Delta) -> str:
    if isinstance(item, Delta):
        return f"event: {item.type}\ndata: {item.json}\n\n"
    return f"id: {item.cursor}\nevent: {item.event.type}\ndata: {item.event.json}\n\n"
