"""The phases of the drill. Each begins when enough runs have started, and ends with its fault."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.chaos.processes import Process, Processes
from tests.checker.evidence import NETWORK, Fault, Log
from tests.drill.cluster import Cluster
from tests.drill.network import Network

CUT_SECONDS: Final = 12.0
"""How long the host of a worker is cut off: longer than two leases."""
AWAY_SECONDS: Final = 1.0
"""PostgreSQL is away if no write succeeds for so long."""
PROBE_SECONDS: Final = 0.2
SLOW_SECONDS: Final = 12.0
STOPPED_SECONDS, RUNNING_SECONDS = 0.45, 0.05
"""The slow worker runs for a tenth of the time."""


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    began: float
    ended: float


class Phases:
    """`previous`: the PYTHONPATH of the previous version, if this clone has it. `outages`: when no
    client could write to PostgreSQL. `problems`: faults that had no effect."""

    def __init__(
        self,
        network: Network,
        cluster: Cluster,
        processes: Processes,
        faults: Log,
        previous: str | None,
    ) -> None:
        self.last_fault_at = time.time()
        self.outages: list[tuple[float, float]] = []
        self.problems: list[str] = []
        self._network = network
        self._cluster = cluster
        self._processes = processes
        self._faults = faults
        self._previous = previous
        upgrade = "rolling upgrade" if previous else "rolling restart (no previous version)"
        self.all: tuple[tuple[str, Callable[[], Awaitable[None]]], ...] = (
            ("no fault", self._nothing),
            ("the primary's host loses its power", self._power_off_primary),
            ("the primary's network is cut", self._cut_primary),
            ("a worker's network is cut", self._cut_worker),
            ("one slow worker", self._slow_worker),
            (upgrade, self._upgrade),
        )

    async def watch(self) -> None:
        """Write to PostgreSQL all the time, and record when that is not possible."""
        last = time.time()
        while True:
            await self._cluster.write()
            now = time.time()
            if now - last > AWAY_SECONDS:
                self.outages.append((last, now))
                self._record("restart_postgres", "postgres", last)
            last = now
            await asyncio.sleep(PROBE_SECONDS)

    async def _nothing(self) -> None:
        return

    async def _power_off_primary(self) -> None:
        primary = await self._cluster.primary()
        await self._network.power_off(primary)
        await self._cluster.write()
        await self._expect_another(primary)
        await self._cluster.power_on(primary)
        await self._cluster.healthy()

    async def _cut_primary(self) -> None:
        primary = await self._cluster.primary()
        await self._network.cut(primary)
        await asyncio.sleep(AWAY_SECONDS)
        await self._cluster.write()
        await self._expect_another(primary)
        await self._network.mend(primary)
        await self._cluster.healthy()

    async def _cut_worker(self) -> None:
        """The evidence calls it a freeze: what the worker has sent arrives late or never."""
        worker, at = self._worker(), time.time()
        await self._network.cut(worker.name)
        await asyncio.sleep(CUT_SECONDS)
        await self._network.mend(worker.name)
        self._record("freeze", worker.name, at, NETWORK)
        self._record("freeze_relay", worker.name, at)

    async def _slow_worker(self) -> None:
        worker, at = self._worker(), time.time()
        while time.time() < at + SLOW_SECONDS:
            await self._processes.freeze(worker, STOPPED_SECONDS)
            await asyncio.sleep(RUNNING_SECONDS)
        self._record("freeze", worker.name, at)

    async def _upgrade(self) -> None:
        """Replace each process with one of the previous version, and then of this version again."""
        for path in (self._previous, None) if self._previous else (None,):
            for process in self._processes.all:
                process.env.pop("PYTHONPATH", None)
                process.env |= {"PYTHONPATH": path} if path else {}
                at = time.time()
                await self._processes.terminate(process)
                while not process.ready:
                    await asyncio.sleep(0.1)
                self._record("terminate", process.name, at)

    async def _expect_another(self, primary: str) -> None:
        if await self._cluster.primary() == primary:
            self.problems.append(f"{primary} is still the primary after its fault.")

    def _worker(self) -> Process:
        return next(one for one in self._processes.all if one.role == "worker")

    def _record(self, kind: str, target: str, at: float, detail: str | None = None) -> None:
        self.last_fault_at = time.time()
        self._faults.write(Fault(at, kind, target, self.last_fault_at, detail))
