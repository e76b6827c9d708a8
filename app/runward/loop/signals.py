"""Signals to the execution of a run, from its worker and from its own tasks."""

import asyncio
from collections.abc import Collection
from typing import Any


class RunSignals:
    """Collects signals until the execution processes them, and wakes the execution."""

    def __init__(self) -> None:
        self.lost = False
        """Whether the lease is known to be lost."""
        self.draining = False
        self._wake = asyncio.Event()
        self._outdated = False

    def notify_changed(self) -> None:
        """Signal that the run or its tools changed, so that the execution reads the run again."""
        self._outdated = True
        self._wake.set()

    def mark_lost(self) -> None:
        self.lost = True
        self._wake.set()

    def drain(self) -> None:
        """Signal the execution to give the run back when no tool call is in flight."""
        self.draining = True
        self._wake.set()

    def wake(self) -> None:
        """Wake the execution, because there are changes to write."""
        self._wake.set()

    @property
    def has_signal(self) -> bool:
        """Return whether `catch_up` has a signal to process."""
        return self.lost or self._wake.is_set()

    async def wait(self, tasks: Collection[asyncio.Task[Any]], seconds: float | None) -> None:
        """Wait until one of the tasks is done, a signal arrives, or the seconds have passed."""
        signal = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait(
                {*tasks, signal}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            signal.cancel()
