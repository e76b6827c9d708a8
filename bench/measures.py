"""The measurements. A load is a closed loop: each client starts its next run when its last run has
ended. A run that fails ends the benchmark."""

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from bench import machine
from bench.loops import closed_loop, numbers, percentile, repeated
from bench.postgres import Postgres
from bench.processes import Version
from bench.service import Paused, Service, seconds_to_ready

WARM_UP_RUNS: Final = 60
WARM_UP_CONCURRENCY: Final = 8
PARKING_CONCURRENCY: Final = 16
MOST_PROBES: Final = 150
"""Runs, one after the other, whose median says how fast a new run gets through."""
SETTLING_SECONDS: Final = 1.0
REPORTED_SECONDS: Final = 1.5
"""Within this time, the backends have reported their updates."""
MS: Final = 1000

Handle = TypeVar("Handle")


class Peer(Protocol[Handle]):
    """A side of the comparison: the service, or the floor."""

    name: str

    def cpu_seconds(self) -> float: ...
    async def run(self, number: int) -> None: ...
    async def pause(self, number: int) -> Handle: ...
    async def approve(self, handle: Handle, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Load:
    """One peer under so many clients. Times in milliseconds, CPU per run."""

    peer: str
    concurrency: int
    runs: int
    runs_per_second: float
    p50: float
    p99: float
    own_cpu: float
    postgres_cpu: float
    write_transactions: float
    others_cores: float
    """What everybody else on the machine used meanwhile, in cores."""

    @property
    def cpu(self) -> float:
        return self.own_cpu + self.postgres_cpu


@dataclass(frozen=True, slots=True)
class Parking:
    """What runs that wait for an approval cost."""

    runs: int
    resident_bytes: float
    database_bytes: int
    """Of all of them."""
    p50_before: float
    p50_after: float
    """Of a new run from POST to its last event, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Idling:
    """What readers cost whose run does not move."""

    readers: int
    resident_bytes: float
    busy_connections: int


@dataclass(frozen=True, slots=True)
class Starts:
    """Seconds from the command to ready, on the embedded PostgreSQL."""

    first: float
    later: float


class Meter:
    """`mine`: the CPU seconds of all processes of the benchmark, PostgreSQL's too."""

    def __init__(self, postgres: Postgres, mine: Callable[[], float]) -> None:
        self._postgres = postgres
        self._mine = mine

    async def load(self, peer: Peer[Any], concurrency: int, seconds: float) -> Load:
        return await self.measure(
            peer.name,
            peer.cpu_seconds,
            concurrency,
            lambda: closed_loop(peer.run, concurrency, seconds),
        )

    async def measure(
        self,
        name: str,
        cpu_seconds: Callable[[], float],
        concurrency: int,
        work: Callable[[], Awaitable[list[float]]],
    ) -> Load:
        """Measure a load. `work` returns the seconds that each run took."""
        await self._postgres.settle()
        gc.collect()
        others, written = self._others(), await self._postgres.write_transactions()
        own, server = cpu_seconds(), self._postgres.cpu_seconds()
        begun = time.perf_counter()
        latencies = await work()
        lasted = time.perf_counter() - begun
        runs = len(latencies)
        return Load(
            peer=name,
            concurrency=concurrency,
            runs=runs,
            runs_per_second=runs / lasted,
            p50=percentile(latencies, 0.5) * MS,
            p99=percentile(latencies, 0.99) * MS,
            own_cpu=(cpu_seconds() - own) / runs * MS,
            postgres_cpu=(self._postgres.cpu_seconds() - server) / runs * MS,
            write_transactions=(await self._postgres.write_transactions() - written) / runs,
            others_cores=(self._others() - others) / lasted,
        )

    def _others(self) -> float:
        return machine.busy_seconds() - self._mine()


async def warm_up(peer: Peer[Handle]) -> None:
    await repeated(peer.run, WARM_UP_RUNS, WARM_UP_CONCURRENCY)
    for _ in range(WARM_UP_CONCURRENCY):
        await peer.approve(await peer.pause(next(numbers)))


async def approvals(peer: Peer[Handle], seconds: float) -> float:
    """Milliseconds from the decision to the end, the median of one client's."""
    took: list[float] = []

    async def cycle(number: int) -> None:
        took.append(await peer.approve(await peer.pause(number)))

    await closed_loop(cycle, 1, seconds)
    return statistics.median(took) * MS


async def parking(
    service: Service, postgres: Postgres, database: str, runs: int
) -> tuple[Parking, list[Paused]]:
    probes = min(runs, MOST_PROBES)
    await repeated(service.pause, min(runs, WARM_UP_RUNS), PARKING_CONCURRENCY)
    before = await _probe(service, probes)
    memory, size = machine.resident_bytes(service.pid), await postgres.table_bytes(database)
    parked = await repeated(service.pause, runs, PARKING_CONCURRENCY)
    await asyncio.sleep(SETTLING_SECONDS)
    found = Parking(
        runs=runs,
        resident_bytes=machine.resident_bytes(service.pid) - memory,
        database_bytes=await postgres.table_bytes(database) - size,
        p50_before=before,
        p50_after=await _probe(service, probes),
    )
    return found, parked


async def idling(
    service: Service, postgres: Postgres, database: str, parked: list[Paused], readers: int
) -> Idling:
    """Several readers share a run where there are fewer runs than readers."""
    memory = machine.resident_bytes(service.pid)
    streams = await repeated(
        lambda number: service.follow(parked[number % len(parked)]), readers, PARKING_CONCURRENCY
    )
    try:
        await asyncio.sleep(SETTLING_SECONDS)
        grown = machine.resident_bytes(service.pid) - memory
        # The least of several looks: one query every two seconds serves all readers together.
        looks: list[int] = []
        for _ in range(3):
            looks.append(await postgres.busy_connections(database))
            await asyncio.sleep(0.1)
        return Idling(readers, grown, min(looks))
    finally:
        for stream in streams:
            stream.close()


async def hot_updates(postgres: Postgres, database: str) -> float | None:
    """Return the percentage of HOT updates of the table `runs`."""
    await asyncio.sleep(REPORTED_SECONDS)
    return await postgres.hot_updates(database, "runs")


async def starts(folder: Path, log: Path, version: Version) -> Starts:
    first = await seconds_to_ready(folder, log, version)
    return Starts(first, await seconds_to_ready(folder, log, version))


async def _probe(service: Service, probes: int) -> float:
    took: list[float] = []
    for _ in range(probes):
        begun = time.perf_counter()
        await service.run(next(numbers))
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * MS
