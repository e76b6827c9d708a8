"""Keeping leases alive from a thread of its own, so that a busy event loop cannot lose them.

The thread stops renewing when the loop has not moved for a long time: a process that hangs must
not hold its runs for ever.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

import asyncpg
import structlog
from sqlalchemy.exc import DBAPIError

from app.store.db import is_outage, open_database
from app.store.sweep import HEARTBEAT

log = structlog.get_logger()

STALLED_AFTER_LEASES: Final = 4
"""A loop that has not moved for so many leases counts as hung."""


@dataclass(frozen=True, slots=True)
class Held:
    project_id: UUID
    run_id: UUID
    fence: int


class Heartbeat:
    """`held` and `lost` are called in the event loop that started this."""

    def __init__(
        self,
        url: str,
        lease: timedelta,
        *,
        held: Callable[[], Sequence[Held]],
        lost: Callable[[Iterable[Held]], None],
    ) -> None:
        self._url = url
        self._lease = lease
        self._read_held = held
        self._report_lost = lost
        self._held: Sequence[Held] = ()
        self._moved_at = time.monotonic()
        self._stop = threading.Event()

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=lambda: asyncio.run(self._beat(loop)), name="lease-heartbeat", daemon=True
        )
        thread.start()
        try:
            while True:
                self._moved_at = time.monotonic()
                self._held = self._read_held()
                await asyncio.sleep(min(1.0, self._lease.total_seconds() / 6))
        finally:
            self._stop.set()
            await asyncio.to_thread(thread.join, 5)

    async def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        database = open_database(self._url, pool_size=1)
        try:
            while not self._stop.wait(self._lease.total_seconds() / 3):
                idle = time.monotonic() - self._moved_at
                if idle > STALLED_AFTER_LEASES * self._lease.total_seconds():
                    log.error("event_loop_stalled", seconds=round(idle, 1))
                    continue
                held = self._held
                if not held:
                    continue
                try:
                    async with database.pool.begin() as tx:
                        kept = set(
                            (
                                await tx.execute(
                                    HEARTBEAT,
                                    {
                                        "lease": self._lease,
                                        "projects": [one.project_id for one in held],
                                        "ids": [one.run_id for one in held],
                                        "fences": [one.fence for one in held],
                                    },
                                )
                            ).scalars()
                        )
                except (DBAPIError, OSError, asyncpg.PostgresError) as error:
                    if not is_outage(error):
                        raise
                    log.warning("heartbeat_failed", error=type(error).__name__)
                    continue
                gone = [one for one in held if one.run_id not in kept]
                if gone:
                    loop.call_soon_threadsafe(self._report_lost, gone)
        finally:
            await database.close()
