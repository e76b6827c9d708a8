"""Renew leases in a separate thread, so that a busy event loop does not lose them.

If the event loop is blocked for too long, the thread ends the process, so that other workers can
claim its runs."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

import structlog

from runward.store.postgres.db import DATABASE_ERRORS, Database, is_outage, log_fields
from runward.store.runs import sweep
from runward.store.runs.queue import HeldLease

log = structlog.get_logger()

BEATS_PER_LEASE: Final = 3
MIN_STALL_SECONDS: Final = 10.0
"""Minimum time before a blocked loop counts as stalled. Normally, this time is the lease. A process
that starts on a slow machine can be blocked for several seconds."""
STALLED_EXIT_CODE: Final = 70
"""EX_SOFTWARE of sysexits.h."""
STOP_SECONDS: Final = 5


class HeartbeatStoppedError(Exception):
    """The heartbeat thread ended, so leases are no longer renewed. The worker must stop."""


def end_process(seconds: float, place: str) -> None:
    """End this process immediately. The event loop is blocked, so no other code can end the
    process."""
    with suppress(OSError, ValueError):  # standard error is closed
        log.critical(
            "event_loop_stalled",
            message=(
                "The event loop was blocked for longer than a lease, so this process "
                "stops. A supervisor must restart it. Other workers take over its runs."
            ),
            seconds=round(seconds, 1),
            stuck_at=place,
            exit_code=STALLED_EXIT_CODE,
        )
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(STALLED_EXIT_CODE)


class Heartbeat:
    """Renews leases. `open_database` returns a pool for the thread. The thread calls `held` and
    then `dropped`. `held` returns all leases under which this process executes runs, and `dropped`
    the leases of executions that have ended. `lost` is called in the event loop that started the
    heartbeat. `on_stall` receives the seconds for which the loop was blocked, and the place in the
    code."""

    def __init__(
        self,
        open_database: Callable[[], Database],
        lease: timedelta,
        *,
        list_held: Callable[[], Sequence[HeldLease]],
        on_lost: Callable[[Iterable[HeldLease]], None],
        list_dropped: Callable[[], Sequence[HeldLease]] = tuple,
        on_stall: Callable[[float, str], None] = end_process,
    ) -> None:
        self._open_database = open_database
        self._lease = lease
        self._read_held = list_held
        self._read_dropped = list_dropped
        self._report_lost = on_lost
        self._report_stall = on_stall
        self._moves = 0
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._forgiven: set[HeldLease] = set()

    async def run(self) -> None:
        """Renew leases until cancelled. Raises HeartbeatStoppedError if the thread ends."""
        loop = asyncio.get_running_loop()
        thread = threading.Thread(
            target=self._run_thread,
            args=[loop, threading.get_ident()],
            name="lease-heartbeat",
            daemon=True,
        )
        thread.start()
        try:
            while thread.is_alive():
                self._moves += 1
                await asyncio.sleep(min(1.0, self._lease.total_seconds() / BEATS_PER_LEASE / 2))
            raise HeartbeatStoppedError from self._failure
        finally:
            self._stop.set()
            await asyncio.to_thread(thread.join, STOP_SECONDS)

    def _run_thread(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        try:
            asyncio.run(self._beat(loop, loop_thread))
        except Exception as error:  # raised in `run`
            self._failure = error

    async def _beat(self, loop: asyncio.AbstractEventLoop, loop_thread: int) -> None:
        database = self._open_database()
        lease = self._lease.total_seconds()
        interval = lease / BEATS_PER_LEASE
        moves, idle, wait = self._moves, 0.0, interval
        try:
            while not self._stop.wait(wait):
                # A process that was frozen continues here, and counts only one interval.
                idle = idle + interval if self._moves == moves else 0.0
                moves, wait = self._moves, interval
                if idle >= max(lease, MIN_STALL_SECONDS):
                    self._report_stall(idle, _describe_frame(loop_thread))
                try:
                    async with asyncio.timeout(interval):
                        await self._renew(database, loop)
                except DATABASE_ERRORS as error:
                    if not is_outage(error):
                        raise
                    if isinstance(error, TimeoutError):
                        wait = 0.0  # on a new connection, before the leases run out
                    log.warning("heartbeat_failed", **log_fields(error))
        finally:
            await database.close()

    async def _renew(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        held = self._read_held()
        dropped = self._read_dropped()
        self._forgiven &= {*held, *dropped}
        if not held and not dropped:
            return
        async with database.pool.begin() as tx:
            lost = await sweep.renew_leases(tx, self._lease, held, dropped)
            unforgiven = [one for one in lost if one not in self._forgiven]
            if unforgiven:
                await sweep.revert_claims(tx, unforgiven)
        if lost:
            self._forgiven |= set(lost)
            loop.call_soon_threadsafe(self._report_lost, lost)


def _describe_frame(thread: int) -> str:
    """Return the file, line and function of a thread's innermost frame."""
    frame = sys._current_frames().get(thread)  # pyright: ignore[reportPrivateUsage]
    if frame is None:
        return "unknown"
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
