"""P11: the CPU time of a run with one API process and one, two or four workers on one database."""

import asyncio
import statistics
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from bench import machine, measures, service
from bench.goals import Chapter, Figure
from bench.service import Service
from bench.sitting import Sitting
from bench.tables import head, number, row

COUNTS: Final = (1, 2, 4)
CLIENTS: Final = 16
READY_SECONDS: Final = 2.0
"""Within this time, workers have started, and have connected to PostgreSQL."""
MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Work:
    """A load on one API and some workers. CPU times in milliseconds per run."""

    runs_per_second: float
    api: float
    workers: float
    postgres: float
    connections: int

    @property
    def cpu(self) -> float:
        return self.api + self.workers + self.postgres


async def measure(sitting: Sitting) -> Chapter:
    """Measure each number of workers several times, in turns."""
    found: dict[int, list[Work]] = {count: [] for count in COUNTS}
    for _ in range(sitting.sizes.repeats):
        for count in COUNTS:
            found[count].append(await _load(sitting, count))
    least = {count: min(works, key=lambda one: one.cpu) for count, works in found.items()}
    one, most = least[COUNTS[0]], least[COUNTS[-1]]
    detail = f"{number(most.cpu)} ms with {COUNTS[-1]} workers; {number(one.cpu)} ms with one"
    section = ["## Several workers", "", _LEGEND, ""]
    section += head(
        ["workers", "runs/s", "API", "workers", "PostgreSQL", "all", "connections"], left=0
    )
    for count, work in least.items():
        rate = statistics.median(one.runs_per_second for one in found[count])
        cpu = (work.api, work.workers, work.postgres, work.cpu)
        section.append(row([str(count), number(rate), *map(number, cpu), str(work.connections)]))
    return Chapter([Figure("workers", most.cpu / one.cpu, detail)], section)


_LEGEND: Final = (
    f"One API process with {CLIENTS} clients, and several workers. The table contains the CPU time"
    " of a run in milliseconds: the least of all repetitions. Connections are those to PostgreSQL"
    " at the end of a load."
)


async def _load(sitting: Sitting, count: int) -> Work:
    postgres = sitting.postgres
    database = await postgres.make_database("workers")
    async with AsyncExitStack() as stack:
        api, workers = await stack.enter_async_context(
            service.cluster(database, sitting.fake, sitting.log, sitting.version, count)
        )
        await asyncio.sleep(READY_SECONDS)
        await measures.repeated(api.run, measures.WARM_UP_RUNS * count, CLIENTS)
        await postgres.settle()
        before = _cpu(sitting, api, workers)
        begun = asyncio.get_running_loop().time()
        runs = len(await measures.closed_loop(api.run, CLIENTS, sitting.sizes.seconds))
        lasted = asyncio.get_running_loop().time() - begun
        after = _cpu(sitting, api, workers)
        used = [(late - early) / runs * MS for early, late in zip(before, after, strict=True)]
        return Work(runs / lasted, *used, connections=await postgres.connections(database))


def _cpu(sitting: Sitting, api: Service, workers: list[int]) -> tuple[float, float, float]:
    mine = sum(map(machine.cpu_seconds, workers))
    return api.cpu_seconds(), mine, sitting.postgres.cpu_seconds()
