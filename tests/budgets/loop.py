"""An event loop that counts what is scheduled on it, and a meter for the thread that runs it."""

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, Final

import greenlet
import uvloop

FUNCTION_CALLS: Final = "function calls"
LOOP_LOOKUPS: Final = "lookups of the event loop"
PROFILED: Final = (FUNCTION_CALLS, LOOP_LOOKUPS)
"""The counts of `start_profile`."""
_OWN_FILES: Final = str(Path(__file__).parent)
_CURRENT_LOOP: Final = (asyncio.get_running_loop, asyncio.events._get_running_loop)


class CountingLoop(uvloop.Loop):
    """uvloop's event loop, with counts of the tasks, timers and callbacks that Python schedules."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.thread = threading.get_native_id()
        greenlet.settrace(self._count_switch)

    def close(self) -> None:
        greenlet.settrace(None)
        super().close()

    def _count_switch(self, _event: str, _greenlets: object) -> None:
        self.counts["greenlet switches"] += 1

    def create_task(self, *args: Any, **options: Any) -> asyncio.Task[Any]:
        self.counts["tasks"] += 1
        return super().create_task(*args, **options)

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        self.counts["callbacks"] += 1
        return super().call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        self.counts["timers"] += 1  # also for `call_at`, which calls this method
        return super().call_later(delay, callback, *args, context=context)

    def read_counts(self) -> Counter[str]:
        """Return all counts. Another thread can call this function."""
        counts = Counter(self.counts)
        for line in Path(f"/proc/self/task/{self.thread}/io").read_text().splitlines():
            if line.startswith("syscw: "):
                counts["socket writes"] = int(line.removeprefix("syscw: "))
        return counts

    def start_profile(self) -> None:
        """Count Python's function calls too. This makes the thread several times slower."""
        sys.setprofile(self._profile)

    def stop_profile(self) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and not frame.f_code.co_filename.startswith(_OWN_FILES):
            self.counts[FUNCTION_CALLS] += 1
        elif event == "c_call" and arg in _CURRENT_LOOP:
            self.counts[LOOP_LOOKUPS] += 1
