"""The readers of event logs in this process, and the one LISTEN connection that wakes them.

Notifications can be lost, duplicated or wrong, so readers read the log again when they are woken
and at named intervals. Correctness never depends on this module.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any, Final, cast
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import structlog

from runward.domain.ids import ProjectId, RunId
from runward.store.live.drafts import Delta, DeltaCursor, Draft
from runward.store.live.events import StoredEvent
from runward.store.live.relay import Relay
from runward.store.postgres.addresses import read_url
from runward.store.postgres.db import log_fields

log = structlog.get_logger()

RECONNECT_SECONDS: Final = 0.5
KEEPALIVE_SECONDS: Final = 15.0
"""A LISTEN connection can be lost without an error. Therefore a keepalive query runs at this
interval, in seconds."""
CHANNELS: Final = tuple(f"runward_{it}" for it in ("runs", "work", "tools", "follow", "deltas"))
MAX_PUSHED: Final = 256
"""Maximum number of events and deltas that are kept for a slow reader. If there are more, the
reader reads from the database."""


class Follower:
    """One reader of one run. `pushed` contains the events and deltas that this process received."""

    __slots__ = (
        "_heard",
        "_waiter",
        "_woken",
        "hinted",
        "live",
        "needs_catch_up",
        "project_id",
        "pushed",
        "run_id",
        "seen",
    )

    def __init__(self, project_id: ProjectId, run_id: UUID) -> None:
        self.project_id = project_id
        self.run_id = run_id
        self._woken = False
        self._waiter: asyncio.Future[None] | None = None
        self._heard = DeltaCursor()
        self.live = False
        """Whether the reader also receives drafts."""
        self.needs_catch_up = True
        """Whether the reader needs the draft from its start."""
        self.hinted = False
        """Whether there may be events that were not pushed to this reader."""
        self.seen = 0
        """The number of the last event that the reader has received."""
        self.pushed: deque[StoredEvent | Delta] = deque()

    def has_seen(self, run_id: UUID, sequence: int) -> bool:
        """Return whether the reader has received this event of the run."""
        return self.seen >= sequence

    @property
    def runs(self) -> Iterable[UUID]:
        return (self.run_id,)

    def select_unseen(self, piece: Delta) -> list[Delta]:
        """Return the new part of a piece. If an earlier piece is missing, return nothing, and wake
        the reader to request the draft."""
        news = self._heard.select_unseen(piece)
        if news is None:
            self.needs_catch_up = True
            self.wake()
            return []
        return news

    def push(self, item: StoredEvent | Delta) -> None:
        if len(self.pushed) >= MAX_PUSHED:
            self.pushed.clear()
            self.hinted = self.needs_catch_up = True
        self.pushed.append(item)
        self._woken = True
        self._resolve_waiter()

    def push_draft(self, pieces: Sequence[Delta]) -> None:
        """Push all pieces of a draft, even more than MAX_PUSHED. If some were dropped, the reader
        would request all of them again and again."""
        if pieces:
            self.pushed.extend(pieces)
            self._woken = True
            self._resolve_waiter()

    def wake(self) -> None:
        self._woken = self.hinted = True
        self._resolve_waiter()

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`, and return whether there may be new events. Only one task may
        wait at a time. An Event with a timeout would take twice as long for each piece."""
        if not self._woken:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(seconds, self._resolve_waiter)
            try:
                await self._waiter
            finally:
                timer.cancel()
        woken, self._woken = self._woken, False
        return woken

    def _resolve_waiter(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class FamilyFollower(Follower):
    """One reader of a run and its child runs at any depth."""

    __slots__ = ("_last", "_more")

    def __init__(
        self,
        project_id: ProjectId,
        run_id: UUID,
        on_run_added: Callable[[UUID, "FamilyFollower"], None],
    ) -> None:
        super().__init__(project_id, run_id)
        self._more = on_run_added
        self._last: dict[UUID, int] = {}

    def add_runs(self, last: Mapping[UUID, int]) -> None:
        """Follow these runs, too. `last`: the number of the last known event of each run."""
        for run_id in last.keys() - self._last.keys():
            self._more(run_id, self)
            self.needs_catch_up = True
        self._last.update(last)

    @property
    def runs(self) -> Iterable[UUID]:
        return self._last

    def has_seen(self, run_id: UUID, sequence: int) -> bool:
        return self._last.get(run_id, 0) >= sequence


class Feed:
    """Passes events and drafts to readers in this process. The relay connects other processes."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._followers: dict[UUID, list[Follower]] = defaultdict(list)
        self._drafts: dict[UUID, Draft] = {}
        self._carried: set[UUID] = set()

    @contextmanager
    def follow(self, project_id: ProjectId, run_id: RunId) -> Generator[Follower]:
        follower = Follower(project_id, run_id)
        self._followers[run_id].append(follower)
        try:
            yield follower
        finally:
            self._remove(run_id, follower)

    @contextmanager
    def follow_family(self, project_id: ProjectId, run_id: RunId) -> Generator[FamilyFollower]:
        """Follow a run and its child runs. The reader adds child runs when it discovers them."""
        follower = FamilyFollower(
            project_id, run_id, lambda id_, one: self._followers[id_].append(one)
        )
        follower.add_runs({run_id: 0})
        try:
            yield follower
        finally:
            for one in follower.runs:
                self._remove(one, follower)

    def _remove(self, run_id: UUID, follower: Follower) -> None:
        rest = self._followers[run_id]
        rest.remove(follower)
        if not rest:
            del self._followers[run_id]

    def is_followed(self, run_id: RunId) -> bool:
        return run_id in self._followers

    def wake_outdated(self, last: Mapping[UUID, int]) -> None:
        """Wake the readers that have not received the last event of their run."""
        for run_id, sequence in last.items():
            for follower in self._followers.get(run_id, ()):
                if not follower.has_seen(run_id, sequence):
                    follower.wake()

    @property
    def followed_runs(self) -> list[tuple[ProjectId, UUID]]:
        """Return the runs that readers in this process follow."""
        return [(readers[0].project_id, run_id) for run_id, readers in self._followers.items()]

    def publish(self, run_id: RunId, events: Sequence[StoredEvent]) -> None:
        for follower in self._followers.get(run_id, ()):
            for event in events:
                follower.push(event)

    @contextmanager
    def carry(self, run_id: UUID) -> Generator[None]:
        """Mark the run as one whose drafts this process writes."""
        self._carried.add(run_id)
        try:
            yield
        finally:
            self._carried.discard(run_id)

    @contextmanager
    def open_draft(
        self, run_id: RunId, *, turn: int, fence: int, agent: str | None
    ) -> Generator[Draft]:
        """Yield the draft of a turn, and close it at the end."""
        draft = Draft(
            run_id,
            turn=turn,
            fence=fence,
            agent=agent,
            send=self._publish_delta,
            is_wanted=self._is_wanted,
        )
        self._drafts[run_id] = draft
        try:
            yield draft
        finally:
            draft.close()
            if self._drafts.get(run_id) is draft:
                del self._drafts[run_id]

    def catch_up(self, follower: Follower) -> None:
        """Send the draft so far to a reader, or request it from the process that writes it."""
        follower.live = True
        for run_id in follower.runs:
            draft = self._drafts.get(run_id)
            if draft is not None:
                draft.flush()
                follower.push_draft(draft.snapshot())
            elif run_id not in self._carried:
                self._relay.request_draft(run_id)
        follower.needs_catch_up = False

    async def run_relay(self) -> None:
        """Relay drafts to other processes until cancelled."""
        await self._relay.run(self._list_remote_runs)

    def _list_remote_runs(self) -> list[UUID]:
        """Return the runs that readers in this process follow and that other processes execute."""
        return [
            run_id
            for run_id, readers in self._followers.items()
            if run_id not in self._carried and any(one.live for one in readers)
        ]

    def receive_follow(self, payload: str) -> None:
        """Handle a notification that another process follows runs."""
        for run_id in self._relay.receive_follow(payload):
            if (draft := self._drafts.get(run_id)) is not None:
                draft.flush()
                for piece in draft.snapshot():
                    self._relay.send(piece)

    def receive_deltas(self, payload: str) -> None:
        """Handle pieces of drafts from another process."""
        for piece in self._relay.decode_deltas(payload):
            self._push_delta(piece)

    def _publish_delta(self, piece: Delta) -> None:
        self._push_delta(piece)
        if self._relay.is_wanted(piece.run_id):
            self._relay.send(piece)

    def _push_delta(self, piece: Delta) -> None:
        for follower in self._followers.get(piece.run_id, ()):
            if follower.live:
                follower.push(piece)

    def _is_wanted(self, run_id: UUID) -> bool:
        followers = self._followers.get(run_id, ())
        return any(one.live for one in followers) or self._relay.is_wanted(run_id)

    def notify_changed(self, run_id: UUID | None) -> None:
        """Wake the readers of a changed run. If `run_id` is None, wake all readers."""
        if run_id is not None:
            for follower in self._followers.get(run_id, ()):
                follower.wake()
            return
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()


def _ignore(payload: str) -> None: ...


class Listener:
    """Converts NOTIFY messages to calls: `on_run(id or None)`, `on_work()`, `on_tools(project)`,
    and the relay's methods. Messages from the backends in `own_backends` are ignored, because this
    process already has their content."""

    def __init__(
        self,
        url: str,
        *,
        on_run: Callable[[UUID | None], None],
        on_work: Callable[[], None],
        on_tools: Callable[[UUID | None], None],
        own_backends: Set[int],
        on_follow: Callable[[str], None] = _ignore,
        on_deltas: Callable[[str], None] = _ignore,
        keepalive: float = KEEPALIVE_SECONDS,
    ) -> None:
        self._address = read_url(url, "RUNWARD_LISTEN_URL or DATABASE_URL")
        self._keepalive = keepalive
        self._on_run = on_run
        self._on_work = on_work
        self._on_tools = on_tools
        self._on_follow = on_follow
        self._on_deltas = on_deltas
        self._own = own_backends

    async def run(self) -> None:
        """Listen until cancelled, and reconnect after every error. After each connect, first LISTEN
        and then wake all readers, because notifications were lost before. A connection that is lost
        during a message makes the driver raise unusual errors. All errors are handled alike,
        because notifications are only hints."""
        while True:
            try:
                await self._listen()
            except Exception as error:
                log.warning("listen_lost", **log_fields(error))
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        address = self._address
        seconds, settings = address.seconds, address.server_settings
        connect = cast("Any", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
        connection = await connect(
            address.dsn, timeout=seconds, command_timeout=seconds, server_settings=settings
        )
        closed = asyncio.Event()

        def lost(_: object) -> None:
            closed.set()

        try:
            connection.add_termination_listener(lost)
            for channel in CHANNELS:
                await connection.add_listener(channel, self._dispatch)
            self._on_run(None)
            self._on_work()
            self._on_tools(None)
            while not await _wait_within(self._keepalive, closed):
                await connection.execute("SELECT 1")
            log.warning("listen_lost", error="closed")
        finally:
            connection.terminate()

    def _dispatch(self, _: object, sender: int, channel: str, payload: object) -> None:
        if sender in self._own:
            return
        if channel == "runward_work":
            self._on_work()
            return
        if channel == "runward_deltas":
            self._on_deltas(str(payload))
            return
        if channel == "runward_follow":
            self._on_follow(str(payload))
            return
        tell = self._on_tools if channel == "runward_tools" else self._on_run
        for named in _parse_ids(str(payload)):
            tell(named)


def _parse_ids(hint: str) -> list[UUID | None]:
    """Return the IDs in a notification, or `[None]` if any run or project may have changed."""
    try:
        return [UUID(shown) for shown in hint.split(",")]
    except ValueError:
        return [None]


async def _wait_within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
