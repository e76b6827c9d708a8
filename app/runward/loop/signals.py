"""Signals to the execution of a run, from its worker and from its own tasks."""

import asyncio
from collections.abc import Collection
from typing import Any


class RunSignals:
    """Collects the signals until the execution catches up, and ends its waits."""

    def __init__(self) -> None:
        self.lost = False
        """Whether it is known that the lease is lost."""
        self.draining = False
        self._wake = asyncio.Event()
        self._outdated = False

    def notify_changed(self) -> None:
        """Somebody changed the run or its tools, so it has to be read again."""
        self._outdated = True
        self._wake.set()

    def mark_lost(self) -> None:
        self.lost = True
        self._wake.set()

    def drain(self) -> None:
        """Stop as soon as nothing is in flight that cannot be repeated, and give the run back."""
        self.draining = True
        self._wake.set()

    def wake(self) -> None:
        """End a wait, since there are changes to write."""
        self._wake.set()

    @property
    def has_signal(self) -> bool:
        """Whether `catch_up` has something to do."""
        return self.lost or self._wake.is_set()

    async def wait(self, tasks: Collection[asyncio.Task[Any]], seconds: float | None) -> None:
        """Wait until one of the tasks is done, a signal comes, or the seconds have passed."""
        signal = asyncio.create_task(self._wake.wait())
        try:
            await asyncio.wait(
                {*tasks, signal}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            signal.cancel()
