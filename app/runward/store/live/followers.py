"""The readers of the event logs in this process."""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import Final
from uuid import UUID

from runward.domain.ids import ProjectId
from runward.store.live.drafts import Delta, DeltaCursor
from runward.store.live.events import StoredEvent

MAX_PUSHED: Final = 256
"""Maximum number of events and deltas that are kept for a slow reader. If there are more, the
reader reads from the database."""


class Follower:
    """One reader of one run. `pushed` contains the events and deltas that this process received."""

    __slots__ = (
        "_deadline",
        "_heard",
        "_loop",
        "_timer",
        "_timer_end",
        "_waiter",
        "_woken",
        "hint",
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
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = self._timer_end = inf
        self._timer: asyncio.Handle | None = None
        self._heard = DeltaCursor()
        self.live = False
        """Whether the reader also receives drafts."""
        self.needs_catch_up = True
        """Whether the reader needs the draft from its start."""
        self.hint: Hashable | None = None
        """Set if there may be events that were not pushed to this reader. The readers of a run with
        the same hint can share the query that begins after it."""
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
            self.hint, self.needs_catch_up = object(), True
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

    def wake(self, hint: Hashable | None = None) -> None:
        """Wake the reader to read the database. `hint`: given to several readers."""
        self._woken, self.hint = True, hint or object()
        self._resolve_waiter()

    def now(self) -> float:
        """Return the time on the event loop's clock in seconds."""
        return self._loop.time()

    async def wait(self, seconds: float) -> bool:
        """Wait at most `seconds`, and return whether there may be new events. Only one task may
        wait at a time. Most waits need no new timer, because the timer of an earlier wait checks
        the deadline of the current one."""
        if not self._woken:
            self._deadline = self.now() + seconds
            if self._deadline < self._timer_end:
                self._start_timer()
            self._waiter = self._loop.create_future()
            await self._waiter
        woken, self._woken = self._woken, False
        return woken

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        self.close()
        self._timer_end = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._end_timer)

    def _end_timer(self) -> None:
        self._timer_end = inf
        if self.now() < self._deadline:
            self._start_timer()
        else:
            self._resolve_waiter()

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
