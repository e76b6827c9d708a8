"""The processes of the service. They are forked from the nursery, watched, and restarted."""

import asyncio
import json
import os
import random
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE
from asyncio.subprocess import Process as Subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from tests.chaos.relay import Relay
from tests.chaos.stalling import SIGNAL, order_of
from tests.checker.evidence import Log, ProcessEvent
from tests.support.services.nursery import Order

ROOT: Final = Path(__file__).parents[2]
PORTS: Final = range(20_000, 32_000)
"""Below those that the kernel gives to outgoing connections, so that nothing takes the port of an
API while it is down."""
POLL_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 0.2
"""Between the end of a process and its next start."""
GRACE_SECONDS: Final = 10.0
"""How long a process may take to end after SIGTERM, in addition to its drain time."""
READ_BYTES: Final = 65_536


@dataclass(eq=False, slots=True)
class Process:
    """`busy`: a fault is at work on it, so that no other chooses it."""

    name: str
    role: str
    env: dict[str, str]
    output: Path
    port: int | None = None
    relay: Relay | None = None
    pid: int = 0
    ready: bool = False
    busy: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    code: int | None = None
    pidfd: int = -1
    host: str = "127.0.0.1"

    @property
    def free(self) -> bool:
        return self.ready and not self.busy

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def signal(self, number: signal.Signals) -> None:
        with suppress(OSError):
            signal.pidfd_send_signal(self.pidfd, number)


class Starter(Protocol):
    """Starts a process, and sets its `ended` and `code` when it ends."""

    async def fork(self, process: Process) -> None: ...


class Nursery:
    """The stage's side of tests/support/services/nursery.py."""

    def __init__(self, process: Subprocess) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._ordered: dict[str, tuple[Process, asyncio.Event]] = {}
        self._living: dict[int, Process] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls) -> "Nursery":
        options = json.dumps({"preload": [], "prepare": "tests.chaos.stalling:prepare"})
        command = (sys.executable, "-m", "tests.support.services.nursery", options)
        return cls(
            await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        )

    async def fork(self, process: Process) -> None:
        forked = asyncio.Event()
        self._ordered[process.name] = process, forked
        output = str(process.output)
        order: Order = {
            "name": process.name,
            "module": "runward",
            "arguments": [process.role],
            "env": process.env,
            "folder": str(ROOT),
            "output": output,
            "errors": output,
        }
        self._input.write(json.dumps(order).encode() + b"\n")
        await forked.wait()

    async def close(self) -> None:
        """It kills all of its processes, and ends."""
        self._input.close()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        async for text in self._output:
            line = json.loads(text)
            if "name" in line:
                process, forked = self._ordered.pop(line["name"])
                process.pid, process.code = line["pid"], None
                process.ended.clear()
                with suppress(ProcessLookupError):
                    process.pidfd = os.pidfd_open(process.pid)
                self._living[process.pid] = process
                forked.set()
            elif "code" in line:
                process = self._living.pop(line["pid"])
                os.close(process.pidfd)
                process.pidfd, process.code = -1, line["code"]
                process.ended.set()


class Processes:
    """All processes of the service. `start` returns when all are ready."""

    def __init__(self, folder: Path, nursery: Starter, drain_seconds: float) -> None:
        self.all: list[Process] = []
        self.cpu_seconds = 0.0
        """Of those that ended."""
        self.database_up = asyncio.Event()
        """Nothing is started while PostgreSQL is away: it would end with a message."""
        self.database_up.set()
        self._nursery = nursery
        self._drain_seconds = drain_seconds
        self._log = Log(folder, "processes.jsonl")
        self._keeping: list[asyncio.Task[None]] = []
        self._closing = False

    async def start(self) -> None:
        self._keeping = [asyncio.create_task(self._keep(one)) for one in self.all]
        while not all(one.ready for one in self.all):
            await asyncio.sleep(POLL_SECONDS)

    def free(self, role: str) -> list[Process]:
        return [one for one in self.all if one.free and role in ("any", one.role)]

    def down(self) -> set[str]:
        return {one.name for one in self.all if not one.free}

    def log(self, process: Process, event: str, code: int | None = None) -> None:
        self._log.write(ProcessEvent(time.time(), process.name, process.pid, event, code))

    def kill(self, process: Process) -> None:
        process.ready = False
        self.log(process, "killed")
        process.signal(signal.SIGKILL)

    async def freeze(self, process: Process, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after that time."""
        process.busy = True
        self.log(process, "stopped")
        process.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.log(process, "continued")
        process.signal(signal.SIGCONT)
        process.busy = False

    async def stall(self, process: Process, seconds: float) -> None:
        """Block its event loop for that time, or until the process ends."""
        process.busy = True
        order = order_of(process.output)
        order.touch()
        process.signal(SIGNAL)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await process.ended.wait()
        order.unlink()
        process.busy = False

    async def terminate(self, process: Process) -> None:
        """SIGTERM; SIGKILL where the process ignores it, which the checker reports."""
        process.ready = False
        self.log(process, "asked_to_stop")
        process.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._drain_seconds + GRACE_SECONDS):
                await process.ended.wait()
        except TimeoutError:
            self.kill(process)

    async def close(self) -> None:
        """Ask all to stop, and wait for their ends."""
        self._closing = True
        await asyncio.gather(*(self.terminate(one) for one in self.all if one.pid))
        for task in self._keeping:
            if not task.done():
                await asyncio.wait([task], timeout=GRACE_SECONDS)
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)

    async def _keep(self, process: Process) -> None:
        while not self._closing:
            await self.database_up.wait()
            printed = process.output.stat().st_size if process.output.exists() else 0
            await self._nursery.fork(process)
            self.log(process, "started")
            readying = asyncio.create_task(self._report_ready(process, printed))
            await process.ended.wait()
            readying.cancel()
            process.ready = False
            self.log(process, "ended", process.code)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _report_ready(self, process: Process, printed: int) -> None:
        while not await _is_ready(process, printed):
            await asyncio.sleep(POLL_SECONDS)
        process.ready = True
        self.log(process, "ready")


async def _is_ready(process: Process, printed: int) -> bool:
    """Whether an API answers /readyz with 200, or a worker has said that it works."""
    with suppress(OSError, TimeoutError):
        if process.port is None:
            with process.output.open("rb") as output:
                output.seek(printed)
                return b"worker_started" in output.read(READ_BYTES)
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(process.host, process.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            line = await reader.readline()
            writer.close()
            return b" 200 " in line
    return False


def free_ports(count: int) -> list[int]:
    """At random, so that programs that run side by side do not take each other's."""
    free: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            break
    return free
