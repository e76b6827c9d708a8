"""The stage of the drill: hosts, PostgreSQL, processes of the service, load and phases."""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import asyncpg

from runward.store import migrations
from tests.chaos.database import OPEN_RUNS, dump_tables
from tests.chaos.processes import ROOT, Process, Processes
from tests.chaos.stage import (
    CLIENTS,
    DRAIN_SECONDS,
    POLLING_SECONDS,
    SERVERS,
    Lines,
    environment,
    stop,
)
from tests.checker.evidence import Log, Settings, write_settings
from tests.drill.cluster import NODES, PROXY, Cluster
from tests.drill.network import HERE, SUBNET, Network
from tests.drill.phases import Phase, Phases
from tests.environments.versions import HistoryError, install_previous
from tests.support.postgres import scratch_folder

LEASE_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 60.0
LONGEST_SECONDS: Final = 600.0
"""Of the whole drill."""
AT_ONCE: Final = 9
LAST_SHARES: Final = 3
PORT: Final = 8080
CAST: Final = {"api-0": "api", "api-1": "api"} | {f"worker-{n}": "worker" for n in range(3)}
"""The role of each process of the service. Each has a host of its own name."""
HOSTS: Final = {name: 11 + number for number, name in enumerate((*NODES, PROXY, *CAST))}


class Hosted:
    """Starts processes of the service on their hosts."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._waiting: set[asyncio.Task[None]] = set()

    async def fork(self, process: Process) -> None:
        with process.output.open("ab") as output:
            started = await asyncio.create_subprocess_exec(
                *self._network.on(process.name),
                *(sys.executable, "-m", "runward", process.role),
                env=process.env,
                cwd=ROOT,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        process.pid, process.code = started.pid, None
        process.ended.clear()
        process.pidfd = os.pidfd_open(started.pid)

        async def wait() -> None:
            process.code = await started.wait()
            os.close(process.pidfd)
            process.pidfd = -1
            process.ended.set()

        task = asyncio.create_task(wait())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


@dataclass(slots=True)
class Drill:
    """`problems`: what the stage itself found, before any check."""

    folder: Path
    runs: int
    seed: int
    synchronous: bool
    phases: list[Phase] = field(default_factory=list[Phase])
    outages: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    problems: list[str] = field(default_factory=list[str])

    async def play(self) -> None:
        """Run all phases, with the evidence in `folder`."""
        output = self.folder / "output"
        output.mkdir(parents=True, exist_ok=True)
        network = Network(HOSTS)
        data = scratch_folder()
        versions = Path(tempfile.mkdtemp(prefix="runward-drill-previous-"))
        async with AsyncExitStack() as stack, asyncio.timeout(LONGEST_SECONDS):
            for folder in (data, versions):
                stack.callback(shutil.rmtree, folder, ignore_errors=True)
            stack.push_async_callback(network.close)
            await network.open()
            cluster = Cluster(network, data, output, synchronous=self.synchronous)
            installing = asyncio.create_task(asyncio.to_thread(_previous, versions))
            # A thread cannot be cancelled. Its folder is removed afterward.
            stack.push_async_callback(asyncio.wait, {installing})
            await cluster.open()
            await migrations.upgrade(cluster.url("migrate"))
            both, alone = await cluster.time_commits()
            print(f"A commit takes {both:.2f} ms, and {alone:.2f} ms without the standby.")
            servers = await self._serve(stack)
            processes = Processes(self.folder, Hosted(network), DRAIN_SECONDS)
            processes.all += [self._process(cluster, network, name, servers) for name in CAST]
            previous = await installing
            if previous:
                await _use_first(processes.all[0], previous)
            try:
                await processes.start()
                with Log(self.folder, "faults.jsonl") as faults:
                    phases = Phases(network, cluster, processes, faults, previous)
                    self.outages, phases.problems = phases.outages, self.problems
                    await self._drive(phases, processes, servers, cluster)
            finally:
                await processes.close()
            connection = await asyncpg.connect(cluster.url("dump"))
            await dump_tables(connection, self.folder / "tables")
            await connection.close()

    async def _serve(self, stack: AsyncExitStack) -> dict[str, Any]:
        """Start the load's servers. Return the line that says where they are."""
        arguments = ("--folder", str(self.folder), "--seed", str(self.seed), "--host", HERE)
        with (self.folder / "output" / "servers.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *SERVERS, *arguments, cwd=ROOT, stdout=PIPE, stderr=log
            )
        stack.push_async_callback(stop, process)
        assert process.stdout is not None
        return json.loads(await process.stdout.readline())

    def _process(
        self, cluster: Cluster, network: Network, name: str, servers: dict[str, Any]
    ) -> Process:
        apis = [network.address(one) for one, role in CAST.items() if role == "api"]
        env = environment(servers["openai_base_url"]) | {
            "DATABASE_URL": cluster.url(name),
            "RUNWARD_HOST": network.address(name),
            "RUNWARD_PORT": str(PORT),
            "RUNWARD_PUBLIC_URL": f"http://{apis[0]}:{PORT}",
            "RUNWARD_ALLOWED_HOSTS": "*",
            "RUNWARD_ALLOW_PRIVATE_TARGETS": f"{SUBNET}.0/24",
            "RUNWARD_LEASE_SECONDS": f"{LEASE_SECONDS:g}",
        }
        output = self.folder / "output" / f"{name}.log"
        port = PORT if CAST[name] == "api" else None
        return Process(name, CAST[name], env, output, port, host=network.address(name))

    async def _drive(
        self, phases: Phases, processes: Processes, servers: dict[str, Any], cluster: Cluster
    ) -> None:
        """Run the clients and the phases, and wait until all runs have ended."""
        arguments = ["--folder", str(self.folder), "--runs", str(self.runs)]
        arguments += ["--seed", str(self.seed), "--servers", json.dumps(servers)]
        arguments += ["--at-once", str(AT_ONCE)]
        for process in processes.all:
            arguments += ["--api", process.url] if process.port else []
        started_at = time.time()
        async with AsyncExitStack() as stack:
            with (self.folder / "output" / "clients.log").open("ab") as log:
                clients = await asyncio.create_subprocess_exec(
                    *CLIENTS, *arguments, cwd=ROOT, stdout=log, stderr=log
                )
            stack.push_async_callback(stop, clients)
            watching = asyncio.create_task(phases.watch())
            stack.callback(watching.cancel)
            await self._play_phases(phases, clients)
            if code := await clients.wait():
                self.problems.append(f"The clients ended with {code}. See output/clients.log")
            load_ended_at = time.time()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
        left = await _settle(cluster)
        if left:
            self.problems.append(f"{left} runs have not ended after {SETTLE_SECONDS:g} s.")
        settings = Settings(
            lease_seconds=LEASE_SECONDS,
            polling_seconds=POLLING_SECONDS,
            drain_seconds=DRAIN_SECONDS,
            processes=len(CAST),
            seed=self.seed,
            runs=self.runs,
            started_at=started_at,
            load_ended_at=load_ended_at,
            last_fault_at=phases.last_fault_at,
            settled_at=time.time(),
        )
        write_settings(self.folder, settings)

    async def _play_phases(self, phases: Phases, clients: asyncio.subprocess.Process) -> None:
        """A phase begins when its share of the runs has started and the one before has ended. The
        last one gets the shares that are left, because it takes longer."""
        started = Lines(self.folder / "runs.jsonl")
        count, share = 0, self.runs / (len(phases.all) + LAST_SHARES - 1)
        for number, (name, act) in enumerate(phases.all):
            began = time.time()
            print(f"{count:5} runs started  {name}", flush=True)
            await act()
            while clients.returncode is None and (count := started.count()) < share * (number + 1):
                await asyncio.sleep(POLLING_SECONDS / 4)
            if clients.returncode is not None:
                log = self.folder / "output" / "clients.log"
                self.problems.append(
                    f"The load ended in the phase: {name}. Use more --runs, or see {log}"
                )
            self.phases.append(Phase(name, began, time.time()))


async def _use_first(process: Process, previous: str) -> None:
    """Let the previous version use the database first, as in a real upgrade. It may not know the
    keys that this version would create in an unused database."""
    command = (sys.executable, "-m", "runward", "keys", "create", "first", "--on-database")
    with process.output.open("ab") as output:
        created = await asyncio.create_subprocess_exec(
            *command, env=process.env | {"PYTHONPATH": previous}, stdout=output, stderr=output
        )
        if code := await created.wait():
            raise RuntimeError(f"`keys create` ended with {code}. See {process.output}")


async def _settle(cluster: Cluster) -> int:
    """Wait until all runs have ended. Return the number of those that have not."""
    connection = await asyncpg.connect(cluster.url("settle"))
    deadline = time.monotonic() + SETTLE_SECONDS
    while (left := await connection.fetchval(OPEN_RUNS)) and time.monotonic() < deadline:
        await asyncio.sleep(POLLING_SECONDS / 2)
    await connection.close()
    return left


def _previous(folder: Path) -> str | None:
    try:
        return str(install_previous(folder))
    except HistoryError as error:
        print(error, file=sys.stderr)
        return None
