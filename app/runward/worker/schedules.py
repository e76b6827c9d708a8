"""Process the slots of schedules that are due. Any number of workers can share them."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from structlog.contextvars import bind_contextvars

from runward.domain.ids import Prefix, format_id
from runward.metrics.definitions import BACKGROUND_FAILURES, SCHEDULE_SLOTS
from runward.services import Storage
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields
from runward.store.postgres.project_scope import restrict_to
from runward.store.schedules import slots
from runward.store.schedules.slots import DueSlot, SlotResult

log = structlog.get_logger()

MAX_AT_ONCE: Final = 16
"""Maximum number of slots that one worker processes at the same time."""
MAX_PER_PROJECT: Final = 4
"""Maximum number of these slots of one project."""


StartSlot: TypeAlias = Callable[[DueSlot], Awaitable[SlotResult | None]]
"""Processes a slot, see `runward.api.schedules.slot_starter`. A run of a schedule is accepted like
one of a request, so the API defines this function, and the process passes it to the worker."""


class ScheduleWorker:
    """Claims the slots that are due, and starts their runs."""

    def __init__(self, storage: Storage, start: StartSlot) -> None:
        self._storage = storage
        self._start = start
        self._due = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: Counter[UUID] = Counter()

    def wake(self) -> None:
        """Claim now, because a slot may be due."""
        self._due.set()

    async def run(self) -> None:
        """Process slots whenever `wake` is called, until cancelled."""
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                while await self._claim():
                    pass
            except DATABASE_ERRORS as error:  # The next wake-up retries.
                if not is_outage(error):
                    raise
                log.warning("slot_claim_failed", **log_fields(error))

    async def finish(self) -> None:
        """Wait for the slots that are being processed. Call it after `run` was cancelled."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Cancel the slots that are being processed. They are due again after the lease."""
        for task in self._tasks:
            task.cancel()

    async def _claim(self) -> bool:
        room = MAX_AT_ONCE - len(self._tasks)
        if room <= 0:
            return False
        free = {one: max(0, MAX_PER_PROJECT - count) for one, count in self._running.items()}
        async with self._storage.connect() as tx:
            claimed = await slots.claim_slots(tx, room, MAX_PER_PROJECT, free)
        for due in claimed:
            self._running[due.schedule.project_id] += 1
            task = asyncio.create_task(self._process(due), name=f"slot of {due.schedule.id}")
            self._tasks.add(task)
            task.add_done_callback(self._end)
        return bool(claimed)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.wake()

    async def _process(self, due: DueSlot) -> None:
        project_id = due.schedule.project_id
        restrict_to(project_id)
        bind_contextvars(
            project=format_id(Prefix.PROJECT, project_id),
            schedule=format_id(Prefix.SCHEDULE, due.schedule.id),
        )
        try:
            async with asyncio.timeout(slots.LEASE.total_seconds()):
                result = await self._start(due)
            if result is not None:
                SCHEDULE_SLOTS.count(result.status)
                if result.error is not None:
                    log.warning("slot_failed", code=result.error["code"])
        except (*DATABASE_ERRORS, TimeoutError) as error:  # The slot is due again after the lease.
            log.warning("slot_not_recorded", **log_fields(error))
        except Exception:
            BACKGROUND_FAILURES.count("slot")
            log.exception("slot_not_recorded")
        finally:
            self._running[project_id] -= 1
            if not self._running[project_id]:
                del self._running[project_id]
