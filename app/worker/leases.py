"""Keeping leases alive from a thread of its own, so that a busy event loop cannot lose them.

The thread stops renewing when the loop has not moved for a long time: a process that hangs must
not hold its runs for ever.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Final

import structlog

from app.store import sweep
from app.store.db import DATABASE_ERRORS, is_outage, open_database
from app.store.sweep import Held

log = structlog.get_logger()

STALLED_AFTER_LEASES: Final = 4
"""A loop that has not moved for so many leases counts as hung."""
STOP_SECONDS: Final = 5


class HeartbeatStoppedError(Exception):
    """Nobody renews the leases any more, so the worker has to stop."""


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
        self._failure: Exception | None = None

    async def run(self) -> None:
        """Until cancelled. Raises HeartbeatStoppedError where the thread has ended by itself."""
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=self._run_thread, args=[loop], name="lease-heartbeat", daemon=True
        )
        thread.start()
        try:
            while thread.is_alive():
                self._moved_at = time.monotonic()
                self._held = self._read_held()
                await asyncio.sleep(min(1.0, self._lease.total_seconds() / 6))
            raise HeartbeatStoppedError from self._failure
        finally:
            self._stop.set()
            await asyncio.to_thread(thread.join, STOP_SECONDS)

    def _run_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            asyncio.run(self._beat(loop))
        except Exception as error:  # raised in `run`
            self._failure = error

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
                        lost = await sweep.renew_leases(tx, self._lease, held)
                except DATABASE_ERRORS as error:
                    if not is_outage(error):
                        raise
                    log.warning("heartbeat_failed", error=type(error).__name__)
                    continue
                if lost:
                    loop.call_soon_threadsafe(self._report_lost, lost)
        finally:
            await database.close()
