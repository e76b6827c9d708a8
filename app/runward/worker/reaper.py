"""Process everything that is due, once a second. Any number of workers can sweep at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar, cast
from uuid import UUID

import structlog

from runward.domain.errors import AppError, RunUnreadableError
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.run.abandoned import AbandonedCall, Closed
from runward.metrics.definitions import BACKGROUND_FAILURES, LEASE_EXPIRIES
from runward.store import budgets
from runward.store.access.vault import Vault
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    Database,
    Tx,
    is_outage,
    is_statement_timeout,
    log_fields,
)
from runward.store.retention import erasures
from runward.store.runs import erasure, sessions, sweep, transitions
from runward.store.runs.quarantine import Quarantine
from runward.store.runs.sweep import DueAnswer, SweepKind
from runward.store.schedules import slots
from runward.store.webhooks import outbox
from runward.worker.cleaner import Cleaner
from runward.worker.reencryption import Reencryption

log = structlog.get_logger()
T = TypeVar("T")
D = TypeVar("D", bound=Hashable)
INTERVAL_SECONDS: Final = 1.0
CLEAN_EVERY: Final = 600
"""Number of sweeps between the beginnings of two passes of the cleaner."""
RETRY_EVERY: Final = 60
"""Number of sweeps between two attempts to process a row, or to perform a duty, that failed
before."""
FORGET_EVERY: Final = 60
"""Number of sweeps between two removals of the budget waits of ended runs."""


class Reaper:
    """Processes due rows. `enqueue_notices` is called after the commit with the calls that ended
    without the tool's result. `wake_deliveries` is called if a delivery is due, and
    `wake_schedules` if a slot of a schedule is due."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        quarantine: Quarantine,
        lease: timedelta,
        cleaner: Cleaner,
        reencryption: Reencryption,
        *,
        enqueue_notices: Callable[[Iterable[AbandonedCall]], None],
        wake_deliveries: Callable[[], None],
        wake_schedules: Callable[[], None],
    ) -> None:
        self._database = database
        self._vault = vault
        self._quarantine = quarantine
        self._lease = lease
        self._tell = enqueue_notices
        self._cleaner = cleaner
        self._reencryption = reencryption
        self._wake_deliveries = wake_deliveries
        self._sweeps = random.randrange(CLEAN_EVERY)  # noqa: S311  # workers take turns
        self._wake_schedules = wake_schedules
        self._failed: dict[SweepKind, dict[Hashable, int]] = {}
        """For each row that failed, the number of the sweep that retries it."""
        self._resting: dict[str, int] = {}
        """For each duty that failed, the number of the sweep that retries it."""

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            self._sweeps += 1
            try:
                while await self.sweep():
                    pass
                await self._isolate("clean", self._clean)
                await self._isolate("reencrypt", self._reencrypt)
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("sweep_failed", **log_fields(error))
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311

    async def sweep(self) -> bool:
        """Process a batch of each kind of which a row is due. Each row has a separate transaction,
        so that it does not block other rows. Return True if more rows are due now."""
        kinds: Mapping[SweepKind, Callable[[], Awaitable[bool]]] = {
            "lease": self._free_leases,
            "crash_loop": self._end_crash_loops,
            "approval": lambda: self._each(
                "approval",
                sweep.list_due_approvals,
                lambda tx, due: transitions.expire_approval(tx, *due),
            ),
            "callback": lambda: self._each(
                "callback", sweep.list_due_callbacks, self._expire_answer
            ),
            "result": lambda: self._each("result", sweep.list_due_results, self._expire_answer),
            "deadline": lambda: self._each(
                "deadline",
                sweep.list_due_deadlines,
                lambda tx, due: transitions.expire_run(tx, *due),
            ),
            "orphan": lambda: self._each(
                "orphan",
                sweep.list_orphans,
                lambda tx, due: transitions.cancel_descendants(tx, *due),
            ),
            "session": self._wake_stranded,
            "erasure": lambda: self._each("erasure", erasure.list_due, self._erase),
            "erasure_request": self._advance_erasures,
            "notification": self._enqueue_notifications,
            "delivery": self._start_deliveries,
            "slot": self._start_slots,
            "scheduled_run": self._wake_scheduled,
            "budget": self._settle_budgets,
        }
        found = await self._list_due_kinds()
        due = set(kinds) if found is None else found
        self._failed = {kind: failed for kind, failed in self._failed.items() if kind in due}
        return any([await self._isolate(kind, act) for kind, act in kinds.items() if kind in due])

    async def _list_due_kinds(self) -> set[SweepKind] | None:
        """Return None if PostgreSQL cancelled the query because of a timeout."""
        try:
            async with self._database.autocommit.connect() as tx:
                return await sweep.list_due_kinds(tx, self._lease)
        except DATABASE_ERRORS as error:
            if not is_statement_timeout(error):
                raise
            return None

    async def _isolate(self, duty: str, act: Callable[[], Awaitable[bool]]) -> bool:
        """Process a batch. Return False also if it failed, so that the other duties do not wait.
        Raises the error if PostgreSQL is unavailable."""
        if self._resting.get(duty, 0) > self._sweeps:
            return False
        try:
            return await act()
        except Exception as error:
            if is_outage(error) and not is_statement_timeout(error):
                raise
            BACKGROUND_FAILURES.count(duty)
            if is_statement_timeout(error):
                log.warning("sweep_failed", duty=duty, **log_fields(error))
            else:
                # A row that cannot be processed must not end the worker. A restart would not help.
                self._resting[duty] = self._sweeps + RETRY_EVERY
                log.exception("sweep_failed", duty=duty)
            return False

    async def _free_leases(self) -> bool:
        freed = await self._alone(sweep.free_expired_leases)
        LEASE_EXPIRIES.count(by=len(freed))
        if freed:
            log.info("leases_expired", runs=len(freed))
        return len(freed) == sweep.BATCH

    async def _end_crash_loops(self) -> bool:
        return await self._each(
            "crash_loop",
            lambda tx, limit: sweep.list_crash_loops(tx, self._lease, limit),
            lambda tx, due: transitions.quarantine(tx, *due),
        )

    async def _wake_stranded(self) -> bool:
        return await self._alone(sessions.wake_stranded) == sessions.BATCH

    async def _expire_answer(self, tx: Tx, due: DueAnswer) -> Closed | None:
        return await transitions.expire_callback(
            tx, self._vault, due.project_id, due.run_id, due.call_id
        )

    async def _erase(self, tx: Tx, due: tuple[ProjectId, RunId]) -> Closed | None:
        return Closed() if await erasure.erase(tx, *due) else None

    async def _advance_erasures(self) -> bool:
        await self._each(
            "erasure_request",
            erasures.list_runs_to_cancel,
            lambda tx, due: transitions.cancel(tx, *due, after_turn=False),
        )
        return await self._each(
            "erasure_request", erasures.list_due, lambda tx, due: erasures.advance(tx, *due)
        )

    async def _enqueue_notifications(self) -> bool:
        async def enqueue(tx: Tx, project_id: ProjectId) -> Closed | None:
            return Closed() if await outbox.enqueue_events(tx, project_id) else None

        more = await self._each("notification", outbox.list_due, enqueue)
        self._wake_deliveries()
        return more

    async def _start_deliveries(self) -> bool:
        self._wake_deliveries()
        return False

    async def _clean(self) -> bool:
        if self._sweeps % CLEAN_EVERY == 0 and self._cleaner.is_done:
            await self._cleaner.begin()
        await self._cleaner.step()
        return False

    async def _reencrypt(self) -> bool:
        await self._reencryption.step()
        return False

    async def _start_slots(self) -> bool:
        self._wake_schedules()
        return False

    async def _wake_scheduled(self) -> bool:
        return await self._alone(slots.wake_waiting) == slots.BATCH

    async def _settle_budgets(self) -> bool:
        await self._alone(budgets.release_lost)
        if self._sweeps % FORGET_EVERY == 0:
            await self._alone(budgets.forget_ended)
        return await self._alone(budgets.wake_waiting) == budgets.BATCH

    async def _each(
        self,
        kind: SweepKind,
        find: Callable[[Tx, int], Awaitable[Sequence[D]]],
        settle: Callable[[Tx, D], Awaitable[Closed | None]],
    ) -> bool:
        """Process a batch, then retry the rows that failed before. Return True if the batch was
        full and at least one row succeeded."""
        failed = self._failed.get(kind, {})
        limit = sweep.BATCH + len(failed)
        found = await self._alone(lambda tx: find(tx, limit))
        failed = self._failed[kind] = {due: failed[due] for due in found if due in failed}
        settled = 0
        for due in sorted(found, key=failed.__contains__):
            if failed.get(due, 0) > self._sweeps:
                continue
            try:
                settled += await self._settle(settle, due)
            except AppError as error:  # the run is gone
                log.info("sweep_skipped", code=error.code)
            except Exception as error:
                if is_outage(error) and not is_statement_timeout(error):
                    raise
                # An error of one row must not end the process or the sweep of other rows.
                failed[due] = self._sweeps + RETRY_EVERY
                BACKGROUND_FAILURES.count(kind)
                log.exception("sweep_failed", **_describe_due(kind, due), failed=len(failed))
                if is_outage(error):
                    break  # other rows may take as long, so the next sweep begins with them
        return len(found) == limit and settled > 0

    async def _settle(self, settle: Callable[[Tx, D], Awaitable[Closed | None]], due: D) -> bool:
        """Process one row. Return whether the row was still due. End a run that cannot be read."""
        try:
            closed = await self._alone(lambda tx: settle(tx, due))
        except RunUnreadableError as error:
            await self._quarantine.end(error.project_id, error.run_id)
            return True
        if closed is not None:
            self._tell(closed.abandoned)
        return closed is not None

    async def _alone(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        async with self._database.pool.begin() as tx:
            return await act(tx)


def _describe_due(kind: SweepKind, due: object) -> dict[str, str]:
    """Return the IDs of the project, the run or the approval for the log, in the form of the
    API."""
    if isinstance(due, UUID):
        return {"project": format_id(Prefix.PROJECT, due)}
    if isinstance(due, DueAnswer):
        return _describe_due(kind, (due.project_id, due.run_id)) | {"call_id": due.call_id}
    project_id, id_ = cast("tuple[UUID, UUID]", due)
    about = {"project": format_id(Prefix.PROJECT, project_id)}
    if kind == "approval":
        return {**about, "approval": format_id(Prefix.APPROVAL, id_)}
    return {**about, "run": format_id(Prefix.RUN, id_)}
