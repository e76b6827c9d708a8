"""Signals to the execution of a run, from its worker and from its own tasks."""

import asyncio
from collections.abc import Set
from typing import Any


class RunSignals:
    """Collects signals until the execution processes them, and wakes the execution."""

    def __init__(self) -> None:
        self.lost = False
        """Whether the lease is known to be lost."""
        self.draining = False
        self._loop = asyncio.get_running_loop()
        self._signaled = False
        self._outdated = False
        self._waiter: asyncio.Future[None] | None = None
        self._watched: set[asyncio.Task[Any]] = set()
        """Tasks whose end calls `_end_wait`."""

    def notify_changed(self) -> None:
        """Signal that the run or its tools changed, so that the execution reads the run again."""
        self._outdated = True
        self.wake()

    def mark_lost(self) -> None:
        self.lost = True
        self.wake()

    def drain(self) -> None:
        """Signal the execution to give the run back when no tool call is in flight."""
        self.draining = True
        self.wake()

    def wake(self) -> None:
        """Wake the execution, because there are changes to write."""
        self._signaled = True
        self._end_wait()

    @property
    def has_signal(self) -> bool:
        """Return whether `catch_up` has a signal to process."""
        return self.lost or self._signaled

    async def wait(self, tasks: Set[asyncio.Task[Any]], seconds: float | None) -> None:
        """Wait until one of the tasks is done, a signal arrives, or the seconds have passed."""
        if self._signaled:
            return
        for task in tasks - self._watched:
            self._watched.add(task)
            task.add_done_callback(self._forget)
        self._waiter = self._loop.create_future()
        timer = None if seconds is None else self._loop.call_later(seconds, self._end_wait)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._watched.discard(task)
        self._end_wait()

    def _end_wait(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
