"""Who waits for what in this process, and the one LISTEN connection that wakes them.

Every hint may be lost, doubled or wrong: whoever is woken looks for himself, and looks anyway
at named intervals. Correctness never depends on this module.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import structlog

from app.domain.ids import ProjectId, RunId
from app.store.db import libpq_url
from app.store.events import StoredEvent

log = structlog.get_logger()

RECONNECT_SECONDS: Final = 0.5
KEEPALIVE_SECONDS: Final = 15.0
"""A LISTEN connection can die silently, so it is asked for a sign of life."""
MAX_PUSHED: Final = 256
"""Events and deltas kept for a slow reader; beyond that it reads from the database again."""


@dataclass(frozen=True, slots=True)
class TransientEvent:
    """Shown while it happens, never stored, without a number. `json` is the whole event."""

    type: str
    json: str


class Follower:
    """One reader of one run. `pushed` holds what this process has seen go by."""

    __slots__ = ("_wake", "hinted", "project_id", "pushed", "seen")

    def __init__(self, project_id: ProjectId) -> None:
        self.project_id = project_id
        self._wake = asyncio.Event()
        self.hinted = False
        """Something may have happened that was not pushed: it is to be read."""
        self.seen = 0
        """The number of the last event that the reader has had."""
        self.pushed: deque[StoredEvent | TransientEvent] = deque()

    def has(self, run_id: UUID, sequence: int) -> bool:
        """Whether the reader has had this event of the run."""
        return self.seen >= sequence

    def push(self, what: StoredEvent | TransientEvent) -> None:
        if len(self.pushed) >= MAX_PUSHED:
            self.pushed.clear()
            self.hinted = True
        self.pushed.append(what)
        self._wake.set()

    def wake(self) -> None:
        self.hinted = True
        self._wake.set()

    async def wait(self, seconds: float) -> bool:
        """Until there may be something new, at most `seconds`. False: nothing came."""
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return False
        self._wake.clear()
        return True


class FamilyFollower(Follower):
    """One reader of a run and of all below it."""

    __slots__ = ("_last", "_more")

    def __init__(self, project_id: ProjectId, more: Callable[[UUID, "FamilyFollower"], None]):
        super().__init__(project_id)
        self._more = more
        self._last: dict[UUID, int] = {}

    def follow(self, last: Mapping[UUID, int]) -> None:
        """These are the runs now, with the number of the last event that was looked for."""
        for run_id in last.keys() - self._last.keys():
            self._more(run_id, self)
        self._last.update(last)

    @property
    def runs(self) -> Iterable[UUID]:
        return self._last

    def has(self, run_id: UUID, sequence: int) -> bool:
        return self._last.get(run_id, 0) >= sequence


class Feed:
    """In-process: from those who write runs to those who read them."""

    def __init__(self) -> None:
        self._followers: dict[UUID, list[Follower]] = defaultdict(list)

    @contextmanager
    def follow(self, project_id: ProjectId, run_id: RunId) -> Generator[Follower]:
        follower = Follower(project_id)
        self._followers[run_id].append(follower)
        try:
            yield follower
        finally:
            self._leave(run_id, follower)

    @contextmanager
    def follow_family(self, project_id: ProjectId, run_id: RunId) -> Generator[FamilyFollower]:
        """The reader names the runs below as it learns of them."""
        follower = FamilyFollower(project_id, lambda id_, one: self._followers[id_].append(one))
        follower.follow({run_id: 0})
        try:
            yield follower
        finally:
            for one in follower.runs:
                self._leave(one, follower)

    def _leave(self, run_id: UUID, follower: Follower) -> None:
        rest = self._followers[run_id]
        rest.remove(follower)
        if not rest:
            del self._followers[run_id]

    def followed(self, run_id: RunId) -> bool:
        return run_id in self._followers

    def behind(self, last: Mapping[UUID, int]) -> None:
        """Wake the readers of those runs whose last event they have not had."""
        for run_id, sequence in last.items():
            for follower in self._followers.get(run_id, ()):
                if not follower.has(run_id, sequence):
                    follower.wake()

    @property
    def runs(self) -> list[tuple[ProjectId, UUID]]:
        """Those that somebody follows here."""
        return [(readers[0].project_id, run_id) for run_id, readers in self._followers.items()]

    def publish(self, run_id: RunId, events: Sequence[StoredEvent]) -> None:
        for follower in self._followers.get(run_id, ()):
            for event in events:
                follower.push(event)

    def publish_transient(self, run_id: RunId, event: TransientEvent) -> None:
        for follower in self._followers.get(run_id, ()):
            follower.push(event)

    def hint(self, run_id: UUID | None) -> None:
        """The run changed; None: any may have."""
        if run_id is not None:
            for follower in self._followers.get(run_id, ()):
                follower.wake()
            return
        for followers in self._followers.values():
            for follower in followers:
                follower.wake()


class Listener:
    """Turns NOTIFY into calls: `on_run(id or None)`, `on_work()`, `on_tools(project)`. What the
    backends in `own` send is not passed on: this process knows it already."""

    def __init__(
        self,
        url: str,
        *,
        on_run: Callable[[UUID | None], None],
        on_work: Callable[[], None],
        on_tools: Callable[[UUID | None], None],
        own: Set[int],
    ) -> None:
        self._dsn = libpq_url(url)
        self._on_run = on_run
        self._on_work = on_work
        self._on_tools = on_tools
        self._own = own

    async def run(self) -> None:
        """Listens until cancelled. After every (re)connect everybody is woken, since hints were
        lost meanwhile: LISTEN first, then read."""
        while True:
            try:
                await self._listen()
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                log.warning("listen_lost", error=type(error).__name__)
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _listen(self) -> None:
        connection = cast("Any", await asyncpg.connect(self._dsn, timeout=10))  # pyright: ignore[reportUnknownMemberType]
        closed = asyncio.Event()

        def lost(_: object) -> None:
            closed.set()

        try:
            connection.add_termination_listener(lost)
            for channel in ("runward_runs", "runward_work", "runward_tools"):
                await connection.add_listener(channel, self._received)
            self._on_run(None)
            self._on_work()
            self._on_tools(None)
            while not await _within(KEEPALIVE_SECONDS, closed):
                async with asyncio.timeout(5):
                    await connection.execute("SELECT 1")
            log.warning("listen_lost", error="closed")
        finally:
            connection.terminate()

    def _received(self, _: object, sender: int, channel: str, payload: object) -> None:
        if sender in self._own:
            return
        if channel == "runward_work":
            self._on_work()
            return
        tell = self._on_tools if channel == "runward_tools" else self._on_run
        for named in _named(str(payload)):
            tell(named)


def _named(hint: str) -> list[UUID | None]:
    """The ids in a hint; where it says `*`, or what nobody understands, any may be meant."""
    try:
        return [UUID(shown) for shown in hint.split(",")]
    except ValueError:
        return [None]


async def _within(seconds: float, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False
