"""A worker claims runs, and starts an execution for each."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

import structlog
from structlog.contextvars import bind_contextvars

from runward.domain.errors import RunUnreadableError
from runward.domain.ids import Prefix, format_id
from runward.domain.run.state import RunState
from runward.loop.execution import Execution
from runward.services import Services
from runward.store.live.carried import CarriedRun, CommittedEvents
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields
from runward.store.postgres.project_scope import restrict_to
from runward.store.runs import failed_claims, queue
from runward.worker.executions import Executions
from runward.worker.failed_claims import FailedClaims
from runward.worker.turns import Turns
from runward.worker.watch import ChangeWatch

log = structlog.get_logger()

POLL_SECONDS: Final = 1.0
"""Poll in addition to NOTIFY, because notifications can be lost, and a claim skips locked runs."""


class Worker:
    """Executes up to `concurrency` runs at once, as tasks of one event loop."""

    def __init__(self, services: Services, *, concurrency: int, lease: timedelta) -> None:
        self.services = services
        self.concurrency = concurrency
        self.lease = lease
        self.executions = Executions()
        self.tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._reasons: set[str] = set()
        """Why `_wake` was set since the last claim began: IDs of queued runs, or an empty ID."""
        self.turns = Turns(services.live.feed.notify)
        self.watch = ChangeWatch(
            services.storage.database,
            carried=self.executions.list_versions,
            on_run=self.executions.notify_changed,
            on_project=self._forget_project,
            on_new=partial(self._forget_project, tell=False),
        )
        self.draining = False
        self.failed = False
        """Whether a task of this worker has ended, so that the process stops."""
        self.reserved = 0
        self._claim_one_by_one = False
        """Set after a failed claim: one of the runs may be the cause, so claim one at a time."""
        self.failed_claims = FailedClaims(services.storage, lease)
        self._last_turn = queue.NO_TURN
        """The project with the last turn in a claim."""
        self._runs_wait = False
        """Whether runs may wait in the queue. New runs then join it, so that they do not take a
        place before the runs of other projects."""

    def reserve_place(self) -> bool:
        """Reserve a place for a run that this process will accept and lease in one step. Return
        False if no place is free, or if runs may wait in the queue. The place is reserved until
        `start_accepted` or `release_place`."""
        self._runs_wait |= self._room <= 0
        if self.draining or self._runs_wait:
            return False
        self.reserved += 1
        return True

    def release_place(self) -> None:
        """Release a reserved place whose run was not accepted."""
        self.reserved -= 1
        self.wake()

    @property
    def _room(self) -> int:
        return self.concurrency - len(self.executions) - self.reserved

    def start_accepted(self, state: RunState, events: CommittedEvents) -> None:
        """Execute a run that was accepted into a reserved place. `events`: its first events."""
        self.reserved -= 1
        carried = CarriedRun(state.project_id, state.id, 0)
        carried.add(events)
        self._start(state, carried)

    def _start(
        self,
        state: RunState,
        carried: CarriedRun,
        claimed_at: float | None = None,
        *,
        limited: bool = False,
    ) -> None:
        """Execute a run. `limited`: whether another run may start when this one ends."""
        self.watch.carry(state.project_id)
        self.services.live.feed.carry(carried)
        execution = Execution(self.services.engine, state, claimed_at)
        if self.draining:
            execution.leased.drain()
        self.executions.add(execution)
        task = asyncio.create_task(
            self._execute(execution, carried, limited=limited), name=f"run {state.id}"
        )
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def has_failed(self) -> bool:
        return self.failed

    def watch_project(self, project_id: UUID) -> None:
        """Watch a project of which this process has a client."""
        self.watch.carry(project_id)

    def wake(self, run_id: UUID | None = None) -> None:
        """Claim now, because a run may be queued. `run_id`: the queued run. If the claim in flight
        returns it, no other claim is sent."""
        self._wake_because("" if run_id is None else run_id.hex)

    def _wake_because(self, reason: str) -> None:
        self._reasons.add(reason)
        self._wake.set()

    def wake_for(self, payload: str) -> None:
        """Claim now if this worker is selected for a notification of a queued run."""
        if self.draining:
            return
        if self._room > 0:
            if self.turns.is_selected(payload):
                self._wake_because(payload)
        elif payload:
            self._runs_wait = True
            if self.turns.is_selected(payload):
                self.turns.pass_on()

    def drain(self) -> None:
        """Stop claiming, cancel model requests, and give each run back when its tool calls have
        ended."""
        self.draining = True
        self.wake()
        log.info("draining", runs=len(self.executions))
        self.executions.drain()

    async def wait_until_idle(self) -> None:
        """Return when no run is being executed or accepted."""
        while self.executions or self.reserved:
            self._wake.clear()
            await self._wake.wait()

    def _forget_project(self, project_id: UUID, *, tell: bool = True) -> None:
        self.services.registry.forget(project_id, tell=tell)
        self.executions.notify_tools_changed(project_id)

    async def _execute(self, execution: Execution, carried: CarriedRun, *, limited: bool) -> None:
        lease = execution.leased.lease
        restrict_to(lease.project_id)
        bind_contextvars(
            project=format_id(Prefix.PROJECT, lease.project_id),
            run=format_id(Prefix.RUN, lease.run_id),
        )
        try:
            await execution.run()
        except RunUnreadableError as error:
            await self._quarantine(error)
        except Exception:
            # The lease expires, and the run is claimed again. After repeated failures it is
            # quarantined.
            log.exception("execution_failed", fence=lease.fence)
        finally:
            self.services.live.feed.release(carried)
            self.executions.remove(execution)
            if self._room == 1 or self.draining or limited:
                self.wake()

    async def _quarantine(self, error: RunUnreadableError) -> None:
        try:
            await self.services.queue.quarantine.end(error.project_id, error.run_id)
        except DATABASE_ERRORS as failure:  # after the lease expires, the next claim retries
            log.warning("quarantine_failed", **log_fields(failure))

    async def claim_forever(self) -> None:
        """Claim runs until the worker drains. A claim in flight at that time is still processed,
        because its runs are leased to this process and only this process can give them back."""
        while not self.draining:
            self._wake.clear()
            self._reasons.clear()
            room, claimed = self._room, 0
            try:
                await self.failed_claims.give_back()
                claimed = await self._claim(room)
                self._claim_one_by_one = False
            except DATABASE_ERRORS as error:
                if self._claim_one_by_one and not is_outage(error):
                    raise  # no run caused this error
                self._claim_one_by_one = True
                log.warning("claim_failed", **log_fields(error))
            if claimed and claimed == room:
                self.turns.pass_on()
            else:
                try:
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._wake.wait()
                except TimeoutError:
                    pass

    async def _claim(self, room: int) -> int:
        if room <= 0:
            return 0
        services, began = self.services, asyncio.get_running_loop().time()
        engine, mark, after = services.storage.autocommit, queue.make_mark(), self._last_turn
        try:
            if self._claim_one_by_one:
                claimed = await failed_claims.claim_one_by_one(
                    engine, room, self.lease, mark, after
                )
            else:
                async with engine.connect() as tx:
                    claimed = await queue.claim(tx, room, self.lease, mark, after)
        except (*DATABASE_ERRORS, asyncio.CancelledError):
            self.failed_claims.add(mark)
            raise
        self._last_turn = claimed.find_last_turn(after)
        for state in claimed.states:
            services.live.feed.notify_changed(state.id)
            carried = CarriedRun(state.project_id, state.id, state.last_seq)
            self._start(state, carried, began, limited=state.id in claimed.limited)
            self._reasons.discard(state.id.hex)
        if not self._reasons:
            self._wake.clear()
        for held in claimed.unreadable:
            await self._quarantine(RunUnreadableError(held.project_id, held.run_id))
        count = len(claimed.states) + len(claimed.unreadable)
        self._runs_wait = count == room
        return count
