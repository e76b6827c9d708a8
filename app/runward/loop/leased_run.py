"""A run whose lease this process holds: its state in memory, and the functions that write it."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from runward.domain.events.base import MAX_VALUE_BYTES
from runward.domain.events.kinds import BudgetExceededEvent, RunWaitingEvent
from runward.domain.events.run_data import IncompleteDetails, RunEndedData, RunError
from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import read_creation
from runward.domain.run.abandoned import AbandonedCall, find_abandoned
from runward.domain.run.bounds import truncate
from runward.domain.run.budgets import BudgetWait
from runward.domain.run.decide import Finish, Park
from runward.domain.run.open_calls import close_open_calls, describe_waiting_call
from runward.domain.run.run_events import add_progress, build_budget_data
from runward.domain.run.state import Call, CallPhase, Changes, RunState
from runward.domain.run.status import MOVES, RUN_ENDINGS, TERMINAL, Move, RunStatus
from runward.loop.engine import RunStorage
from runward.loop.related import related_changes
from runward.loop.signals import RunSignals
from runward.metrics.definitions import RUN_SECONDS, count_changes
from runward.store.live.carried import CommittedEvents
from runward.store.runs.gate import Committed, Ending, Step, VersionChanged
from runward.store.runs.queue import HeldLease

T = TypeVar("T")

_MOVE_TO: Final[Mapping[RunStatus, Move]] = {
    RunStatus.COMPLETED: Move.COMPLETE,
    RunStatus.FAILED: Move.FAIL,
    RunStatus.INCOMPLETE: Move.STOP,
    RunStatus.CANCELLED: Move.CANCEL,
}


class LeaseLostError(Exception):
    """Another worker holds the run, or the run was cancelled. Drop the run and write nothing."""


class LeasedRun(RunSignals):
    """A leased run. `changes` are not committed yet. `on_load` is called after each reload.
    `claimed_at`: when the claim began, on the event loop's clock."""

    def __init__(
        self,
        storage: RunStorage,
        state: RunState,
        on_load: Callable[[], Awaitable[None]],
        claimed_at: float | None = None,
    ) -> None:
        super().__init__()
        self.state = state
        self.changes = Changes()
        self.status: RunStatus | None = None
        """The status of the run after this claim. None: the claim has not ended, or its lease is
        lost."""
        self.error: str | None = None
        """The error code, if the run has failed."""
        self._storage = storage
        self._on_load: Callable[[], Awaitable[None]] | None = on_load
        self._loaded_at = self._loop.time() if claimed_at is None else claimed_at
        self._leased_until = self._loaded_at + storage.lease_length.total_seconds()

    @property
    def lease(self) -> HeldLease:
        return HeldLease(self.state.project_id, self.state.id, self.state.fence)

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds until the run's deadline, or None if it has no deadline."""
        left = self.state.seconds_left
        return None if left is None else self._loaded_at + left - self._loop.time()

    @property
    def seconds_since_load(self) -> float:
        return self._loop.time() - self._loaded_at

    @property
    def is_overdue(self) -> bool:
        return self.seconds_left is not None and self.seconds_left <= 0

    async def run_unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of the work. Process signals while it runs. Return None if the work was
        cancelled because the run drains or its deadline passed. The next claim repeats the work."""
        task = self._loop.create_task(work)
        try:
            while not task.done():
                if self.draining or self.is_overdue:
                    return None
                if self.has_signal:
                    await self.catch_up()
                else:
                    await self.wait({task}, self.seconds_left)
            return task.result()
        finally:
            task.cancel()

    async def catch_up(self) -> None:
        """After a signal, commit the changes and read the changes of other processes. Raises
        LeaseLostError."""
        self._signaled = False
        if self.lost:
            raise LeaseLostError
        outdated = self._outdated
        if await self.record() and outdated:
            await self.reload()

    # Reading and writing.

    async def load_history(self) -> None:
        """Read the earlier runs of the session, if the run belongs to a session."""
        if self.state.place is not None and self.state.place.number is not None:
            history = await self._storage.load_history(self.state, self.state.place.number)
            self.state = replace(self.state, history=history)

    async def reload(self) -> None:
        """Read the run again. Raises LeaseLostError."""
        self._outdated = False
        began = self._loop.time()
        state = await self._storage.load(self.lease)
        if state is None:
            raise LeaseLostError
        self.state, self._loaded_at = replace(state, history=self.state.history), began
        assert self._on_load is not None, "the run has ended"
        await self._on_load()

    def close(self) -> None:
        """Drop `on_load`. Otherwise, this run and its owner refer to each other, and their memory
        is not freed before a garbage collection, which stops all runs."""
        self._on_load = None

    async def record(self) -> bool:
        """Commit the changes, even if another process changed the run. In that case, return False:
        decide again."""
        if not self.changes.is_empty:
            changes, self.changes = self.changes, Changes()
            written = await self.write(self.state, changes, expected_version=None)
            assert isinstance(written, Committed)
            if written.version != self.state.version:
                await self.reload()
                return False
        return True

    def add_progress(self, call: Call, progress: float | None, message: str | None) -> None:
        """Record a tool's progress report with the next step, or at once if there is none."""
        add_progress(self.changes, call, progress, message)
        self.wake()

    async def park(self, action: Park) -> bool:
        """Commit that the run waits. Return False if another process changed the run: decide
        again."""
        changes = self.changes.copy()
        return await self.end(build_parking(self.state, changes, action), changes)

    async def wait_for_budget(self, wait: BudgetWait) -> bool:
        """Commit that the run waits for the next period of a budget. Return False if another
        process changed the run: decide again."""
        changes = self.changes.copy()
        changes.budget = wait
        changes.add(BudgetExceededEvent(build_budget_data(wait)))
        return await self.end(Ending(Move.RELEASE, delay=wait.delay, keep_claim=True), changes)

    async def finish(self, action: Finish) -> bool:
        """Commit the end of the run. Return False if another process changed the run: decide
        again."""
        changes = self.changes.copy()
        return await self.end(build_finish(self.state, changes, action), changes)

    async def end(self, ending: Ending, changes: Changes) -> bool:
        """Commit the end of this claim. Return False if another process changed the run: decide
        again."""
        waits = isinstance(changes.budget, BudgetWait)
        version = self.state.version if waits or not ending.keep_claim else None
        written = await self.write(self.state, changes, expected_version=version, ending=ending)
        if isinstance(written, Committed):
            return True
        await self.record()
        await self.reload()
        return False

    async def write(
        self,
        state: RunState,
        changes: Changes,
        *,
        expected_version: int | None,
        ending: Ending | None = None,
    ) -> Committed | VersionChanged:
        """Write a step. Raises LeaseLostError if the lease is lost and nothing was written."""
        if self.lost:
            raise LeaseLostError
        step = Step(
            project_id=state.project_id,
            run_id=state.id,
            fence=state.fence,
            changes=changes,
            expected_version=expected_version,
            turn=state.turn,
            usage=state.usage,
            agent=state.agent,
            ending=ending,
            related=related_changes(state, changes, ending),
        )
        began = self._loop.time()
        written = await self._storage.commit(step)
        if written == "lost":
            raise LeaseLostError
        if isinstance(written, Committed):
            self._leased_until = began + self._storage.lease_length.total_seconds()
            self.notify_abandoned(find_abandoned(state, changes))
            self._publish(written, changes)
            status = None if ending is None else MOVES[ending.move].target
            count_changes(changes, status, state.agent)
            if ending is not None:
                self.status, self.error = status, ending.error["code"] if ending.error else None
                self._storage.feed.close_carried(state.id)
            if status is not None and status in TERMINAL:
                RUN_SECONDS.observe(written.at.timestamp() - read_creation(state.id), status)
        return written

    def notify_abandoned(self, calls: Iterable[AbandonedCall]) -> None:
        """Notify tools that Runward no longer waits for the results of these calls."""
        self._storage.notices.enqueue(calls)

    def _publish(self, written: Committed, changes: Changes) -> None:
        """Pass the step's events to the readers of the run in this process."""
        feed, run_id = self._storage.feed, self.state.id
        if written.last_seq:
            at, events = written.at, changes.events
            feed.publish(run_id, CommittedEvents(run_id, written.last_seq, at, events))
        else:  # a lost connection hid the commit and the sequence numbers of the events
            feed.notify_changed(run_id)

    async def check_lease(self) -> None:
        """Check the lease in the database if this process did not renew it in time, for example
        because it was frozen. Raises LeaseLostError."""
        if self.lost:
            raise LeaseLostError
        if self._loop.time() < self._leased_until:
            return
        # A locked row is not renewed, so the next check queries the database again.
        if not await self._storage.renew(self.lease):
            raise LeaseLostError

    async def has_lease(self) -> bool:
        try:
            await self.check_lease()
        except LeaseLostError:
            return False
        return True


def build_parking(state: RunState, changes: Changes, action: Park) -> Ending:
    """Add the event `run.waiting` with the required actions. If the run needs no person, because it
    waits only for child runs or callbacks, it is deferred instead."""
    phases = {state.calls[one].phase for one in action.waiting}
    if CallPhase.AWAITING_CHILD in phases or phases == {CallPhase.AWAITING_CALLBACK}:
        return Ending(Move.DEFER)
    waiting_for = [describe_waiting_call(state.calls[call_id]) for call_id in action.waiting]
    changes.add(RunWaitingEvent({"waiting_for": waiting_for}))
    return Ending(Move.PARK)


def build_finish(state: RunState, changes: Changes, action: Finish) -> Ending:
    """End all open calls and approvals, and add the run's last event."""
    results = (call.result for call in state.calls.values())
    escalated = any(result.escalate for result in results if result is not None)
    cancelled = action.status is RunStatus.CANCELLED
    close_open_calls(
        state, changes, CallReason.RUN_CANCELLED if cancelled else CallReason.RUN_ENDED
    )
    failed = action.status is RunStatus.FAILED
    shown, full = truncate(action.output, MAX_VALUE_BYTES)
    data: RunEndedData = {"output": shown}
    if full is not None:
        data["truncated"] = True
    error: RunError | None = None
    incomplete: IncompleteDetails | None = None
    if action.code is not None and failed:
        error = data["error"] = {"code": RunErrorCode(action.code), "message": action.message}
    elif action.code is not None:
        incomplete = {"reason": action.code, "message": action.message}
        data["incomplete_details"] = incomplete
    changes.add(RUN_ENDINGS[action.status](data))
    return Ending(
        _MOVE_TO[action.status],
        output=action.output,
        parsed=action.parsed,
        error=error,
        incomplete_details=incomplete,
        refused_stage=action.refused,
        escalated=state.config.kind != "loop" and escalated,
    )
