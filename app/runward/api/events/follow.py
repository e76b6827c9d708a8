"""Follow the log of one run, or of a run and its child runs. Polling, streaming and waiting use the
same loop.

The loop reads the database at the start, and whenever it may have missed something. In between, it
returns the events and deltas that this process receives as notifications. It holds no database
connection while it waits.
"""

from collections.abc import AsyncGenerator, Collection, Hashable, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol, TypeVar

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.events.kinds import RunWaitingEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import TERMINAL, RunStatus
from runward.services import Live, Storage
from runward.store.live import events
from runward.store.live.drafts import Delta
from runward.store.live.events import LogPage, StoredEvent
from runward.store.live.feed import Feed
from runward.store.live.followers import Follower
from runward.store.postgres.db import Tx

RETRY_MS: Final = 1000
"""Milliseconds after which a client of server-sent events reconnects."""
PAGE: Final = 500
"""Maximum number of events of one database query."""
HEARTBEAT_SECONDS: Final = 15.0


@dataclass(slots=True)
class Entry:
    """An event and the reader's position after it. `cursor`: the position as clients send it."""

    event: StoredEvent
    position: object

    @property
    def cursor(self) -> str:
        return str(self.position)

    @property
    def frame(self) -> bytes:
        """Return the server-sent event."""
        return b"id: %b\n%b" % (self.cursor.encode(), self.event.frame)


@dataclass(slots=True)
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
P = TypeVar("P")


class EventLog(Protocol[F, P]):
    """A log, and the position of its reader."""

    project_id: ProjectId
    run_id: RunId
    ended: bool
    """Whether the reader has received the last event of the run."""

    @property
    def seen(self) -> int:
        """The number of the last event of the run itself that the reader has received."""
        ...

    def open(self, feed: Feed) -> AbstractContextManager[F]: ...

    @property
    def position_key(self) -> Hashable | None:
        """Return the same value for readers at the same position, or None."""
        ...

    async def query(self, tx: Tx, count: int) -> P | None:
        """Return the next `count` events, or None if the run does not exist."""
        ...

    def add(self, page: P, follower: F) -> Batch:
        """Return the entries of a page. Raises EventsRemovedError."""
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


def ensure_log_is_kept(
    status: RunStatus, events: Sequence[StoredEvent], *, seen: int, last_seq: int
) -> None:
    """Raise EventsRemovedError if a run that has ended lacks the events after the number `seen`."""
    if status in TERMINAL and seen < last_seq and not events:
        raise e.EventsRemovedError


class RunLog:
    """The log of one run. A reader whose position is beyond the end, such as `RunLog(…,
    MAX_SEQUENCE)`, receives only changes of the status."""

    def __init__(self, project_id: ProjectId, run_id: RunId, seen: int = 0) -> None:
        self.project_id = project_id
        self.run_id = run_id
        self.seen = seen
        self.ended = False

    def open(self, feed: Feed) -> AbstractContextManager[Follower]:
        return feed.follow(self.project_id, self.run_id)

    @property
    def position_key(self) -> Hashable:
        return (self.project_id, self.run_id, self.seen)

    async def query(self, tx: Tx, count: int) -> LogPage | None:
        return await events.read_page(tx, self.project_id, self.run_id, self.seen, count)

    def add(self, page: LogPage, follower: Follower) -> Batch:
        ensure_log_is_kept(page.status, page.events, seen=self.seen, last_seq=page.last_seq)
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
        self.ended = event.is_last
        return Entry(event, event.sequence)

    def missing(self, event: StoredEvent) -> int:
        return event.sequence - self.seen

    def must_read(self, event: StoredEvent) -> bool:
        is_beyond = event.is_last and self.missing(event) < 1
        return event.type == RunWaitingEvent.type or is_beyond


async def follow(
    storage: Storage,
    live: Live,
    log_: EventLog[F, P],
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
    this process has in memory. Raises RunNotFoundError and EventsRemovedError."""
    with log_.open(live.feed) as follower:
        end = follower.now() + seconds
        batch = log_.read_carried(live.feed, follower) if deltas else None
        while not live.is_stopping():
            batch = batch or await _read(storage, live, log_, follower, count)
            yield batch
            if log_.ended or (batch.status in until and not batch.more):
                return
            if batch.more:
                batch = None
                continue
            if deltas and batch.status is not None and follower.needs_catch_up:
                live.catch_up(follower)
            batch = await _wait_for_push(live, log_, follower, end, heartbeat)
            if batch is None and follower.now() >= end:
                return


async def _read(
    storage: Storage, live: Live, log_: EventLog[F, P], follower: F, count: int
) -> Batch:
    """Return the next entries. Readers with the same position and the same hint share a query,
    because it begins after the hint."""
    hint, follower.hint = follower.hint, None

    async def query() -> P | None:
        async with storage.connect() as tx:
            return await log_.query(tx, count)

    position = log_.position_key
    if hint is None or position is None:
        page = await query()
    else:
        page = await live.share_query((position, count, hint), query)
    if page is None:
        raise not_found.RunNotFoundError
    return log_.add(page, follower)


async def _wait_for_push(
    live: Live, log_: EventLog[F, P], follower: F, end: float, heartbeat: float
) -> Batch | None:
    """Return the next items that this process receives, or an idle batch after `heartbeat` seconds.
    Returns None if the database must be read, at `end`, and when the process stops."""
    while not live.is_stopping():
        batch = _take_pushed(log_, follower)
        if batch.items:
            return batch
        left = min(heartbeat, end - follower.now())
        if follower.hint is not None or left <= 0:
            return None
        if not await follower.wait(left):
            return Batch()
    return None


def _take_pushed(log_: EventLog[F, P], follower: F) -> Batch:
    """Return the events that this process has received. Sets a hint if the database must be
    read."""
    items: list[Entry | Delta] = []
    while follower.pushed:
        item = follower.pushed.popleft()
        if isinstance(item, Delta):
            items += follower.select_unseen(item)
            continue
        missing = log_.missing(item)
        if missing > 1 or log_.must_read(item):
            follower.hint = item.sequence
            break
        if missing == 1:
            items.append(log_.append(item, follower))
    return Batch(items)


async def encode_log(
    storage: Storage, live: Live, log: EventLog[F, P], until: Collection[RunStatus] = TERMINAL
) -> AsyncGenerator[bytes]:
    """Yield the log as server-sent events (WHATWG HTML), and comments while there are no events.
    Stored events have their number as `id:`. Transient events have no `id:`."""
    head = b"retry: %d\n\n" % RETRY_MS
    async with aclosing(follow(storage, live, log, until=until, deltas=True)) as batches:
        async for batch in batches:
            if batch.is_idle:
                yield b": still here\n\n"
            elif batch.items or head:
                yield b"".join([head, *(item.frame for item in batch.items)])
                head = b""
