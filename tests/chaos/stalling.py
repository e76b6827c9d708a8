"""Block the event loop of a process of the service while its other threads go on.

Each process that the nursery forks gets a handler for SIGUSR1. The handler runs in the thread of
the event loop and returns when the order, a file beside the process's output, is gone.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.services.nursery import Order, Report

CHECK_SECONDS: Final = 0.02
SIGNAL: Final = signal.SIGUSR1
STALLS: Final = "stalls.jsonl"


def order_of(output: Path) -> Path:
    """Return the file that keeps the process with this output stalled."""
    return output.with_suffix(".stall")


def prepare(order: Order, _report: Callable[[Report], None]) -> None:
    """For the nursery: stall the process at each signal, and write the stall to the evidence."""
    name, output = order["name"], Path(order["output"])
    stalled, log = order_of(output), output.parents[1] / STALLS

    def stall(*_: object) -> None:
        line: dict[str, Any] = {"at": time.time(), "name": name, "pid": os.getpid()}
        line["runs"] = _executed_runs()
        _append(log, line)
        while stalled.exists():
            time.sleep(CHECK_SECONDS)
        _append(log, line | {"until": time.time()})

    signal.signal(SIGNAL, stall)


def _executed_runs() -> list[str]:
    """Return the runs that this process works on. A worker has one task for each of them."""
    names = [task.get_name() for task in asyncio.all_tasks()]
    return sorted(name.removeprefix("run ") for name in names if name.startswith("run "))


def _append(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")
