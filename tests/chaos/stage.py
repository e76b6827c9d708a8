"""The stage of a chaos run: PostgreSQL, relays, processes of the service, load and faults."""

import asyncio
import json
import random
import resource
import sys
import time
from asyncio.subprocess import PIPE
from asyncio.subprocess import Process as Subprocess
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.chaos.database import DIRECT, Database
from tests.chaos.faults import LEASE_SECONDS, Injector, plan
from tests.chaos.levels import Sampler
from tests.chaos.processes import ROOT, Nursery, Process, Processes, free_ports
from tests.chaos.relay import Relay
from tests.checker.evidence import Log, Settings, write_settings
from tests.support.services.forks import inherited_environment
from tests.support.services.service import BOOTSTRAP_KEY, SECRET_KEY

DRAIN_SECONDS: Final = 3.0
POLLING_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 60.0
"""Within this time after the last fault and the last client, every run must have ended."""
REST_SECONDS: Final = 3.0
"""How long levels are sampled before the load and after it."""
REPORT_SECONDS: Final = 5.0
STOP_SECONDS: Final = 10.0
CAST: Final = (
    ("api-0", "api", False, False),
    ("api-1", "api", True, False),
    ("worker-0", "worker", False, True),
    ("worker-1", "worker", True, False),
    ("worker-2", "worker", True, True),
)
"""Name, role, whether a relay is between it and PostgreSQL, and whether LISTEN_URL is set."""
SERVERS: Final = (sys.executable, "-m", "tests.chaos.load.servers")
CLIENTS: Final = (sys.executable, "-m", "tests.chaos.load")


@dataclass(slots=True)
class Chaos:
    """What one run of chaos is asked for. `servers` and `clients` are the commands of the load."""

    folder: Path
    runs: int
    seed: int
    minutes: float
    servers: tuple[str, ...] = SERVERS
    clients: tuple[str, ...] = CLIENTS
    problems: list[str] = field(default_factory=list[str])
    """Found by the stage itself, before any check."""
    summary: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the clients counted."""
    figures: dict[str, float] = field(default_factory=dict[str, float])

    async def play(self) -> None:
        """From the first process to the last, with the evidence in `folder`."""
        began = time.time()
        (self.folder / "output").mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            database = Database()
            stack.push_async_callback(database.close)
            await database.open()
            nursery = await Nursery.open()
            stack.push_async_callback(nursery.close)
            servers, ready = await stack.enter_async_context(self._serving())
            processes = Processes(self.folder, nursery, DRAIN_SECONDS)
            await self._cast(processes, database, ready["openai_base_url"], stack)
            await processes.start()
            sampler = Sampler(self.folder, processes, database)
            stack.push_async_callback(sampler.close)
            await asyncio.sleep(REST_SECONDS)
            await self._drive(processes, database, json.dumps(ready))
            await asyncio.sleep(REST_SECONDS)
            await sampler.close()
            await processes.close()
            await database.dump(self.folder / "tables")
            self.figures["cpu_seconds_postgres"] = round(database.cpu_seconds())
            if servers.returncode is not None:
                self.problems.append(f"The servers of the load ended with {servers.returncode}.")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = resource.getrusage(resource.RUSAGE_SELF)
        self.figures["cpu_seconds_processes"] = round(used.ru_utime + used.ru_stime)
        self.figures["cpu_seconds_stage"] = round(own.ru_utime + own.ru_stime)
        self.figures["seconds"] = round(time.time() - began)

    async def _cast(
        self, processes: Processes, database: Database, url: str, stack: AsyncExitStack
    ) -> None:
        apis = [name for name, role, *_ in CAST if role == "api"]
        ports = dict(zip(apis, free_ports(len(apis)), strict=True))
        public = [f"http://127.0.0.1:{port}" for port in ports.values()]
        for number, (name, role, relayed, listens) in enumerate(CAST):
            relay = port = None
            if relayed:
                relay = Relay(database.socket_path)
                port = await relay.open()
                stack.push_async_callback(relay.close)
            env = environment(url) | {
                "DATABASE_URL": database.address(name, port),
                "RUNWARD_PORT": str(ports.get(name, 8080)),
                "RUNWARD_PUBLIC_URL": public[number % len(public)],
            }
            if listens:
                env["RUNWARD_LISTEN_URL"] = database.address(name + DIRECT, port)
            output = self.folder / "output" / f"{name}.log"
            processes.all.append(Process(name, role, env, output, ports.get(name), relay))

    @asynccontextmanager
    async def _serving(self) -> AsyncGenerator[tuple[Subprocess, dict[str, Any]]]:
        """The load's model, tool and MCP servers, and the line that says where they are."""
        arguments = ("--folder", str(self.folder), "--seed", str(self.seed))
        log = (self.folder / "output" / "servers.log").open("ab")
        process = await asyncio.create_subprocess_exec(
            *self.servers, *arguments, cwd=ROOT, stdout=PIPE, stderr=log
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise SystemExit(f"The load's servers did not start. See {log.name}")
        try:
            yield process, json.loads(line)
        finally:
            await stop(process)
            log.close()

    async def _drive(self, processes: Processes, database: Database, servers: str) -> None:
        """Run the clients with the faults, and wait until everything has settled."""
        started_at, dice = time.time(), random.Random(f"targets {self.seed}")
        with Log(self.folder, "faults.jsonl") as faults:
            injector = Injector(plan(self.seed, self.runs), processes, database, faults, dice)
            started = Lines(self.folder / "runs.jsonl")
            async with self._clients(processes, servers) as clients, asyncio.TaskGroup() as tasks:
                injecting = tasks.create_task(
                    injector.run(started.count, lambda: clients.returncode is not None)
                )
                reporting = tasks.create_task(self._report(started, injector, database))
                await self._until_done(clients)
                load_ended_at = time.time()
                await injecting
                await self._settle(database)
                reporting.cancel()
        self.summary = _read_json(self.folder / "load.summary.json")
        self.figures["load_seconds"] = round(load_ended_at - started_at)
        settings = Settings(
            lease_seconds=LEASE_SECONDS,
            polling_seconds=POLLING_SECONDS,
            drain_seconds=DRAIN_SECONDS,
            processes=len(CAST),
            seed=self.seed,
            runs=self.runs,
            started_at=started_at,
            load_ended_at=load_ended_at,
            last_fault_at=injector.last_at,
            settled_at=time.time(),
        )
        write_settings(self.folder, settings)

    @asynccontextmanager
    async def _clients(self, processes: Processes, servers: str) -> AsyncGenerator[Subprocess]:
        """The load's clients."""
        arguments = ["--folder", str(self.folder), "--runs", str(self.runs)]
        arguments += ["--seed", str(self.seed), "--servers", servers]
        for process in processes.all:
            arguments += ["--api", process.url] if process.port else []
        with (self.folder / "output" / "clients.log").open("ab") as log:
            clients = await asyncio.create_subprocess_exec(
                *self.clients, *arguments, cwd=ROOT, stdout=log, stderr=log
            )
        try:
            yield clients
        finally:
            await stop(clients)

    async def _until_done(self, clients: Subprocess) -> None:
        try:
            async with asyncio.timeout(self.minutes * 60):
                if code := await clients.wait():
                    log = self.folder / "output" / "clients.log"
                    self.problems.append(f"The clients ended with {code}. See {log}")
        except TimeoutError:
            self.problems.append(f"The clients were not done after {self.minutes} minutes.")
            await stop(clients)

    async def _settle(self, database: Database) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (left := await database.open_runs()) and time.monotonic() < deadline:
            await asyncio.sleep(POLLING_SECONDS / 2)
        if left:
            self.problems.append(f"{left} runs have not ended after {SETTLE_SECONDS:g} s.")

    async def _report(self, started: "Lines", injector: Injector, database: Database) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            seconds = time.monotonic() - began
            open_runs = await database.open_runs()
            print(
                f"{seconds:5.0f} s  {started.count():6} runs started  {open_runs:4} open"
                f"  {injector.injected:4} faults",
                flush=True,
            )


def environment(url: str) -> dict[str, str]:
    """The variables of each process. `url`: of the model server."""
    return inherited_environment() | {
        "RUNWARD_HOST": "127.0.0.1",
        "RUNWARD_BOOTSTRAP_KEY": BOOTSTRAP_KEY,
        "RUNWARD_SECRET_KEY": SECRET_KEY,
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "RUNWARD_STREAMS_PER_KEY": "10000",
        "RUNWARD_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
        "RUNWARD_DRAIN_SECONDS": f"{DRAIN_SECONDS:g}",
        "OPENAI_BASE_URL": url,
        "OPENAI_API_KEY": "sk-test",
        "PYTHONUNBUFFERED": "1",
    }


class Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._lines = 0

    def count(self) -> int:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
            self._read += len(data)
            self._lines += data.count(b"\n")
        return self._lines


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


async def stop(process: Subprocess) -> None:
    """SIGTERM, and SIGKILL after some seconds."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
