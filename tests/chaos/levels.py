"""Memory, connections, threads and open files of the processes, sampled once a second."""

import asyncio
import os
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.chaos.database import Database, cpu_of
from tests.chaos.processes import Process, Processes
from tests.checker.evidence import Level, Log

EVERY_SECONDS: Final = 1.0


class Sampler:
    """Samples from its making until `close`."""

    def __init__(self, folder: Path, processes: Processes, database: Database) -> None:
        self._log = Log(folder, "levels.jsonl")
        self._processes = processes
        self._database = database
        self._sampling = asyncio.create_task(self._sample())

    async def close(self) -> None:
        """Raise the error of a sampler that has ended by itself."""
        self._sampling.cancel()
        with suppress(asyncio.CancelledError):
            await self._sampling

    async def _sample(self) -> None:
        while True:
            connections = await self._database.connections()
            self._log.write(Level(time.time(), "postgres", connections=connections.total()))
            for process in self._processes.all:
                if process.ready and (level := level_of(process, connections)) is not None:
                    self._log.write(level)
            await asyncio.sleep(EVERY_SECONDS)


def level_of(process: Process, connections: Counter[str]) -> Level | None:
    """None: the process has just ended; a zombie has no memory. See proc(5)."""
    proc = Path(f"/proc/{process.pid}")
    with suppress(OSError, KeyError):
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return Level(
            time.time(),
            process.name,
            process.pid,
            rss_bytes=int(status["VmRSS"].split()[0]) * 1024,
            connections=connections[process.name],
            threads=int(status["Threads"]),
            open_files=len(os.listdir(proc / "fd")),
            cpu_seconds=cpu_of(process.pid),
        )
    return None
