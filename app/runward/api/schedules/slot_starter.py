"""Start the runs of schedules. Workers claim the slots that are due, see
`runward.worker.schedules`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from runward.api.runs.acceptance import (
    AcceptResult,
    accept_in_session,
    accept_in_transaction,
    with_current_agent,
)
from runward.api.runs.cancel import cancel
from runward.api.runs.concurrency import add_concurrency_groups
from runward.api.schedules.run_request import build_run, parse_run
from runward.domain import errors as e
from runward.domain.errors import AppError, UnavailableError
from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.domain.schedules import (
    MAX_WAITING_RUNS,
    MISSED_AFTER,
    ScheduleOverlap,
    SlotSkipReason,
    find_skip_reason,
)
from runward.services import Registry, RunQueue, Storage
from runward.store.access import limits
from runward.store.access.vault import SecretUnreadableError
from runward.store.postgres.db import Tx
from runward.store.runs.queue import NewRun
from runward.store.schedules import slots
from runward.store.schedules.slots import DueSlot, SlotResult, SlotTakenError


@dataclass(frozen=True, slots=True)
class SlotStarter:
    """Processes the slots that a worker has claimed."""

    storage: Storage
    registry: Registry
    queue: RunQueue

    async def start(self, due: DueSlot) -> SlotResult | None:
        """Process a slot: start a run, skip the slot, or record an error. Returns None if the slot
        was taken, or if it is due again after its lease because of a temporary error."""
        schedule = due.schedule
        try:
            resumption = schedule.timing.find_resumption(
                due.slot_at, due.claimed_at, schedule.misfires
            )
            next_at = schedule.timing.find_next(due.slot_at)
        except e.InvalidRequestError as error:  # the slot stays due, for a process that can
            result = SlotResult(error=_describe(error))
            async with self.storage.connect() as tx:
                await slots.report_error(tx, due, result)
            return result
        try:
            if resumption != due.slot_at:
                return await self._record(
                    due, SlotResult(skip_reason=SlotSkipReason.MISSED), resumption
                )
            try:
                return await self._start(due, next_at)
            except AppError as error:
                if error.retry and due.claimed_at - due.slot_at < MISSED_AFTER:
                    return None
                return await self._record(due, SlotResult(error=_describe(error)), next_at)
        except SlotTakenError:
            return None

    async def _start(self, due: DueSlot, next_at: datetime | None) -> SlotResult:
        schedule = due.schedule
        async with self.storage.connect() as tx:
            open_runs = await slots.list_open_runs(tx, due, MAX_WAITING_RUNS + 1)
        reason = find_skip_reason(schedule.overlap, len(open_runs))
        if reason is not None:
            return await self._record(due, SlotResult(skip_reason=reason), next_at)

        async def start() -> AcceptResult:
            return await self._accept(due, next_at, open_runs)

        current = with_current_agent(self.registry, schedule.project_id, start)
        return SlotResult(run_id=(await current()).run.id)

    async def _accept(
        self, due: DueSlot, next_at: datetime | None, open_runs: Sequence[RunId]
    ) -> AcceptResult:
        """Accept the run and record the slot in one transaction."""
        schedule = due.schedule
        try:
            body = parse_run(due.read_run(self.storage.vault))
        except SecretUnreadableError as error:
            raise UnavailableError(str(error)) from error
        principal = Principal(schedule.project_id, schedule.created_by, "", frozenset())
        new = await build_run(self.storage, self.registry, principal, body)
        async with self.storage.connect() as tx:
            stored = await limits.get_limits(tx, schedule.project_id)
        new = await add_concurrency_groups(self.registry, stored.limits, new, body.session_id)
        waits = bool(open_runs) and schedule.overlap is ScheduleOverlap.QUEUE
        new = replace(new, schedule_id=schedule.id, waits=waits)
        if schedule.overlap is ScheduleOverlap.REPLACE:
            await self._cancel(due, open_runs)

        async def record(tx: Tx, accepted: NewRun) -> None:
            await slots.record_slot(tx, due, SlotResult(run_id=accepted.id), next_at)

        session = body.find_session()
        if session is None:
            return await accept_in_transaction(self.storage, self.queue, new, record)
        return await accept_in_session(self.storage, self.queue, new, *session, after_accept=record)

    async def _cancel(self, due: DueSlot, run_ids: Sequence[RunId]) -> None:
        for run_id in run_ids:
            with suppress(e.RunEndedError):
                await cancel(self.storage, self.queue, due.schedule.project_id, run_id)

    async def _record(
        self, due: DueSlot, result: SlotResult, next_at: datetime | None
    ) -> SlotResult:
        async with self.storage.begin() as tx:
            await slots.record_slot(tx, due, result, next_at)
        return result


def _describe(error: AppError) -> JsonObject:
    return {
        "code": error.code,
        "message": error.detail,
        "errors": [{"path": path, "message": message} for path, message in error.errors],
    }
