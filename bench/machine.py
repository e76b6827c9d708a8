"""The CPU time and memory of processes, from /proc. On systems without /proc, each value is NaN."""

import math
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_HERE: Final = (_PROC / "self/stat").exists()


@dataclass(frozen=True, slots=True)
class Process:
    """`cpu`: seconds, with those of its children that have ended."""

    pid: int
    parent: int
    cpu: float


def cpu_seconds(pid: int) -> float:
    """Of a process and all below it."""
    return sum(one.cpu for one in _tree(pid)) if _HERE else math.nan


def exact_cpu_seconds(pid: int) -> float:
    """Return the CPU time of the threads of a process in nanosecond resolution, without children.

    The time of threads that have ended is missing.
    """
    if not _HERE:
        return math.nan
    threads = (_PROC / str(pid) / "task").glob("*/schedstat")
    return sum(int(path.read_text().split()[0]) for path in threads) / 1e9


def kernel_seconds(pid: int) -> float:
    """Return the CPU time that a process has used in system calls, without its children."""
    if not _HERE:
        return math.nan
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return int(fields[12]) / _TICKS


def resident_bytes(pid: int) -> float:
    """Of a process and all below it."""
    return sum(_resident_bytes(one.pid) for one in _tree(pid)) if _HERE else math.nan


def busy_seconds() -> float:
    """CPU that the whole machine has used, by whomever."""
    if not _HERE:
        return math.nan
    # user, nice, system, idle, iowait, irq, softirq, steal
    ticks = [int(part) for part in (_PROC / "stat").read_text().split("\n", 1)[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS


def parent_of(pid: int) -> int | None:
    """None: there is no such process on this machine."""
    process = _read(pid)
    return process.parent if process else None


def is_postgres(pid: int) -> bool:
    """By its name: another machine's pid may be anything here."""
    try:
        return "postgres" in (_PROC / str(pid) / "comm").read_text()
    except OSError:
        return False


def _read(pid: int) -> Process | None:
    try:
        line = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    fields = line[line.rindex(")") + 2 :].split()
    ticks = sum(int(field) for field in fields[11:15])
    return Process(pid, int(fields[1]), ticks / _TICKS)


def _resident_bytes(pid: int) -> int:
    """Counted page by page: the figure in `stat` lags behind by some hundred KiB a thread."""
    for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    return 0


def _tree(root: int) -> Iterator[Process]:
    children: defaultdict[int, list[Process]] = defaultdict(list)
    found = [_read(int(path.name)) for path in _PROC.iterdir() if path.name.isdigit()]
    for process in found:
        if process is not None:
            children[process.parent].append(process)
    waiting = [process for process in found if process is not None and process.pid == root]
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children[process.pid]
