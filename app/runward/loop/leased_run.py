"""A run that this process holds the lease of: its state in memory, and every way to write it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.run.abandoned import find_abandoned
from runward.domain.run.calls import Call
from runward.domain.run.items import Item
from runward.domain.run.state import Changes, RunState
from runward.domain.run.status import Move
from runward.llm.prices import Prices
from runward.loop.breaker import Breakers
from runward.loop.children import Children
from runward.loop.notices import Notices
from runward.loop.policies import PolicyCache
from runward.loop.project_models import ProjectModels
from runward.loop.related import related_changes
from runward.loop.toolbox import Toolbox
from runward.store.access.vault import SecretUnreadableError
from runward.store.live.events import encode_committed
from runward.store.live.listener import Feed
from runward.store.postgres.db import retry_on_outage
from runward.store.runs import sweep
from runward.store.runs.claims import HeldLease
from runward.store.runs.gate import Committed, Ending, Step, StepOutcome, VersionChanged
from runward.tools.base import ToolInvoker as Executor
from runward.tools.guards import GuardClient
from runward.tools.plugin.registry import PluginHost
from runward.tools.rules import RuleEvaluator

log = structlog.get_logger()

UNREADABLE_DELAY: Final = timedelta(seconds=10)
"""Before a run whose secrets this process could not decrypt is claimed again, for each of its
claims so far: all processes may lack the key, and each claim adds an event."""
LONGEST_UNREADABLE_DELAY: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Engine:
    """What executing a run needs. `load` reads a run as it is now; None: it is not leased under
    that fence any more. `history` reads what the session's earlier runs left. `callback` makes
    the URL and token with which a tool answers later."""

    commit: Callable[[Step], Awaitable[StepOutcome]]
    load: Callable[[ProjectId, RunId, int], Awaitable[RunState | None]]
    history: Callable[[RunState], Awaitable[tuple[tuple[Item, ...], ...]]]
    toolbox: Toolbox
    children: Children
    models: ProjectModels
    prices: Prices
    executors: Mapping[str, Executor]
    """By type of tool."""
    plugins: PluginHost
    rules: RuleEvaluator
    guards: GuardClient
    policies: PolicyCache
    feed: Feed
    notices: Notices
    callback: Callable[[RunState, Call], tuple[str, str]]
    secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]]
    """The values of stored secrets by name; one that does not exist is not among them."""
    tool_timeout: timedelta
    leases: "Leases"
    breakers: Breakers = field(default_factory=Breakers)


@dataclass(frozen=True, slots=True)
class Leases:
    pool: AsyncEngine
    length: timedelta

    async def renew(self, state: RunState) -> bool:
        """Return whether the lease is held. It is renewed unless somebody locks the run."""
        held = HeldLease(state.project_id, state.id, state.fence)
        async with self.pool.begin() as tx:
            return not await sweep.renew_leases(tx, self.length, [held])


class LeaseLostError(Exception):
    """Somebody else owns the run, or it was cancelled: drop it, write nothing."""


class LeasedRun(ABC):
    """`_changes` is what has happened and is not written yet."""

    def __init__(self, engine: Engine, state: RunState, claimed_at: float | None = None) -> None:
        """`claimed_at`: when the claim began, on the event loop's clock."""
        self._engine = engine
        self._state = state
        self._changes = Changes()
        self._loaded_at = now() if claimed_at is None else claimed_at
        self._leased_until = self._loaded_at + engine.leases.length.total_seconds()
        self._nudged = asyncio.Event()
        self._outdated = False
        self._draining = False
        self._lost = False

    @property
    def project_id(self) -> ProjectId:
        return self._state.project_id

    @property
    def lease(self) -> tuple[RunId, int]:
        return self._state.id, self._state.fence

    @property
    def version(self) -> int:
        """Counts the changes of the run by others; those that this process knows of."""
        return self._state.version

    def notify_changed(self) -> None:
        """Somebody changed the run, or its tools: look."""
        self._outdated = True
        self._nudged.set()

    @property
    def lost(self) -> bool:
        """Whether it is known that the lease is lost."""
        return self._lost

    def mark_lease_lost(self) -> None:
        """The lease is known to be lost."""
        self._lost = True
        self._nudged.set()

    def drain(self) -> None:
        """Stop as soon as nothing is in flight that cannot be asked again, and hand back."""
        self._draining = True
        self._nudged.set()

    @abstractmethod
    async def _arm(self) -> None:
        """The state was read anew: have at hand what it needs."""

    async def _record(self) -> bool:
        """Commit what has happened, whatever others did meanwhile. False: they did something,
        and it is decided again."""
        if not self._changes.empty:
            changes, self._changes = self._changes, Changes()
            written = await self._write(self._state, changes, seen=None)
            assert isinstance(written, Committed)
            if written.version != self._state.version:
                await self._reload()
                return False
        return True

    async def _end(self, ending: Ending, changes: Changes) -> bool:
        """True: committed, and this claim is over. False: somebody changed the run; it is decided
        again."""
        written = await self._write(
            self._state,
            changes,
            seen=None if ending.keep_claim else self._state.version,
            ending=ending,
        )
        if isinstance(written, Committed):
            return True
        await self._record()
        await self._reload()
        return False

    async def _write(
        self, state: RunState, changes: Changes, *, seen: int | None, ending: Ending | None = None
    ) -> Committed | VersionChanged:
        """Raises LeaseLostError; then nothing was written."""
        if self._lost:
            raise LeaseLostError
        step = Step(
            project_id=state.project_id,
            run_id=state.id,
            fence=state.fence,
            changes=changes,
            expected_version=seen,
            turn=state.turn,
            usage=state.usage,
            agent=state.agent,
            ending=ending,
            related=related_changes(state, changes, ending),
        )
        began = now()
        written = await self._engine.commit(step)
        if written == "lost":
            raise LeaseLostError
        if isinstance(written, Committed):
            self._leased_until = began + self._engine.leases.length.total_seconds()
            self._engine.notices.tell(find_abandoned(state, changes))
        if isinstance(written, Committed) and self._engine.feed.is_followed(state.id):
            if written.last_seq:
                events = encode_committed(state.id, written.last_seq, written.at, changes.events)
                self._engine.feed.publish(state.id, events)
            else:  # a lost connection had hidden the commit, and with it the events' numbers
                self._engine.feed.notify_changed(state.id)
        return written

    async def _hand_back_unread(self, error: SecretUnreadableError) -> None:
        """Another process may have the key, so this claim does not count as one that crashed."""
        log.error("secret_unreadable", run=format_id(Prefix.RUN, self._state.id), reason=str(error))
        delay = min(UNREADABLE_DELAY * self._state.fence, LONGEST_UNREADABLE_DELAY)
        later = Ending(Move.RELEASE, delay=delay, keep_claim=True)
        with suppress(LeaseLostError):
            await self._write(self._state, self._changes, seen=None, ending=later)

    async def _check_lease(self) -> None:
        """Ask the database for the lease if this process has not renewed it in time, for example
        because it was frozen. Raises LeaseLostError."""
        if self._lost:
            raise LeaseLostError
        if now() < self._leased_until:
            return
        # A row that somebody locks is not renewed, so the next check asks again.
        if not await retry_on_outage(lambda: self._engine.leases.renew(self._state)):
            raise LeaseLostError

    async def _has_lease(self) -> bool:
        try:
            await self._check_lease()
        except LeaseLostError:
            return False
        return True

    async def _look(self) -> None:
        """After a nudge: write what has happened, and take over what others changed. Raises
        LeaseLostError."""
        self._nudged.clear()
        if self._lost:
            raise LeaseLostError
        outdated = self._outdated
        if await self._record() and outdated:
            await self._reload()

    async def _reload(self) -> None:
        self._outdated = False
        began = now()
        state = await self._engine.load(self._state.project_id, self._state.id, self._state.fence)
        if state is None:
            raise LeaseLostError
        self._state, self._loaded_at = replace(state, history=self._state.history), began
        await self._arm()

    @property
    def _left(self) -> float | None:
        """Seconds until the run's deadline. None: it has none."""
        left = self._state.seconds_left
        return None if left is None else self._loaded_at + left - now()

    def _forget_expired(self) -> None:
        """Drop the remembered decisions that have expired since the run was loaded."""
        passed = now() - self._loaded_at
        kept = [
            one
            for one in self._state.remembered
            if one.seconds_left is None or one.seconds_left > passed
        ]
        self._state = replace(self._state, remembered=tuple(kept))

    async def _wait(self, tasks: Collection[asyncio.Task[Any]], seconds: float | None) -> None:
        """Until one of the tasks is done, or a nudge comes."""
        nudged = asyncio.create_task(self._nudged.wait())
        try:
            await asyncio.wait(
                {*tasks, nudged}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            nudged.cancel()


def now() -> float:
    """Seconds on the event loop's clock."""
    return asyncio.get_running_loop().time()
