"""P9 and P14: what changes when the database contains many runs.

Two `serve` processes get the same requests in turns: one with an empty database, and one whose
database is filled in stages.
"""

import gc
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import text

from bench.chart import line_chart, make_axis
from bench.goals import Chapter, Figure
from bench.growth_fill import Filling, open_filling
from bench.growth_requests import PROJECT, QUERIES, REQUESTS, count_rows
from bench.measures import Load, Meter, numbers, warm_up
from bench.service import Service
from bench.sitting import Sitting
from bench.tables import head, number, row
from runward.domain.ids import Prefix, format_id, parse_id
from runward.store.postgres.db import Database, Tx, open_database
from runward.store.runs.search import RunFilter, search_runs

EMPTY, FULL = "empty", "full"
SOURCES: Final = 11
"""Number of copied runs. The last of them is parked, so one run in eleven is parked."""
STAGES: Final = (100, 10, 1)
"""The requests are measured with a hundredth, a tenth, and all of the runs."""
MIN_STAGE: Final = 100
ROUNDS: Final = 7
"""Number of times that each request is sent to each service, for each of `--repeats`."""
CONCURRENCY: Final = 16
MS: Final = 1000
ACCEPT, WHOLE_RUN = "start a run", "a whole run"


@dataclass(slots=True)
class Growth:
    """`times`: the median milliseconds with the empty and with the filled database, by request and
    by the number of stored runs. `rows`: rows read and rows shown, with all runs."""

    bytes: int = 0
    seconds: float = 0
    """For filling the database."""
    times: dict[str, dict[int, tuple[float, float]]] = field(
        default_factory=dict[str, dict[int, tuple[float, float]]]
    )
    rows: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    loads: list[Load] = field(default_factory=list[Load])

    def rate(self, peer: str) -> float:
        return statistics.median(
            [one.runs_per_second for one in self.loads if one.peer == peer] or [float("nan")]
        )


class Peer(Service):
    """A service and its database. `old` is the ID of its oldest run."""

    def __init__(self, name: str, service: Service, database: Database) -> None:
        super().__init__(name, service.url, service.session, service.pid)
        self.database = database
        self.old = UUID(int=0)

    async def get(self, path: str) -> None:
        path = path.format(old=format_id(Prefix.RUN, self.old))
        async with self.session.get(self.url + path) as response:
            body = await response.read()
            assert response.status == 200, (path, body[:500])

    async def start(self) -> float:
        """Return the milliseconds of the request that starts a run. Wait until the run ends."""
        begun = time.perf_counter()
        run_id = await self._start("plain", next(numbers))
        took = time.perf_counter() - begun
        await self._events(run_id)
        return took * MS

    async def query(self, act: Callable[[Tx], Awaitable[object]]) -> float:
        """Return the milliseconds of a query on an open connection, and roll it back."""
        async with self.database.pool.connect() as tx:
            await tx.execute(text("SELECT 1"))
            begun = time.perf_counter()
            await act(tx)
            took = time.perf_counter() - begun
            await tx.rollback()
            return took * MS

    async def make_sources(self) -> list[UUID]:
        """Execute the runs to copy: plain ones, approved ones and, last, a parked one."""
        found: list[str] = []
        for place in range(1, SOURCES + 1):
            if place % 4 and place < SOURCES:
                found.append(await self._start("plain", next(numbers)))
                await self._events(found[-1])
                continue
            paused = await self.pause(next(numbers))
            found.append(paused.run_id)
            if place < SOURCES:
                await self.approve(paused)
        return [one for run_id in found if (one := parse_id(Prefix.RUN, run_id))]

    async def find_oldest(self) -> None:
        async with self.database.pool.connect() as tx:
            found = await search_runs(
                tx, PROJECT, RunFilter(), after=None, limit=1, descending=False
            )
        self.old = found.runs[0].id


async def measure(sitting: Sitting) -> Chapter:
    total = sitting.sizes.stored * SOURCES // (SOURCES - 1)
    found = Growth()
    async with _peer(sitting, EMPTY) as (empty, _), _peer(sitting, FULL) as (full, url):
        filling = await open_filling(url, await full.make_sources(), total)
        done = 0
        for stage in (total // share for share in STAGES if total // share >= MIN_STAGE):
            await _fill(filling, done, stage, found)
            await full.find_oldest()
            await _requests(found, (empty, full), stage, ROUNDS * sitting.sizes.repeats)
            done = stage
        await filling.close()
        found.bytes = await sitting.postgres.table_bytes(url)
        for request in REQUESTS:
            async with full.database.pool.connect() as tx:
                found.rows[request.name] = await count_rows(tx, request, full.old)
        await _throughput(sitting, found, (empty, full))
    return _report(found, total)


@asynccontextmanager
async def _peer(sitting: Sitting, name: str) -> AsyncGenerator[tuple[Peer, str]]:
    async with sitting.serving(f"growth_{name}") as (service, url):
        database = open_database(url, pool_size=1)
        peer = Peer(name, service, database)
        await warm_up(peer)
        await peer.find_oldest()
        try:
            yield peer, url
        finally:
            await database.close()


async def _fill(filling: Filling, done: int, stage: int, found: Growth) -> None:
    begun = time.perf_counter()
    await filling.copy(done + 1, stage)
    await filling.settle()
    found.seconds += time.perf_counter() - begun
    print(f"  {stage:,} runs, filled in {found.seconds:.0f} s", flush=True)


async def _requests(found: Growth, peers: Sequence[Peer], stage: int, rounds: int) -> None:
    async def time_it(name: str, act: Callable[[Peer], Awaitable[float | None]]) -> None:
        took: dict[str, list[float]] = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in peers:
                begun = time.perf_counter()
                own = await act(peer)
                took[peer.name].append((time.perf_counter() - begun) * MS if own is None else own)
        empty, full = (statistics.median(took[peer.name]) for peer in peers)
        found.times.setdefault(name, {})[stage] = (empty, full)

    gc.collect()
    await time_it(ACCEPT, lambda peer: peer.start())
    await time_it(WHOLE_RUN, lambda peer: peer.run(next(numbers)))
    for request in REQUESTS:
        await time_it(request.name, lambda peer, path=request.path: peer.get(path))
    for name, act in QUERIES.items():
        await time_it(name, lambda peer, act=act: peer.query(act))


async def _throughput(sitting: Sitting, found: Growth, peers: Sequence[Peer]) -> None:
    meter = Meter(sitting.postgres, lambda: 0.0)
    for repeat in range(2 * sitting.sizes.repeats):
        # The order alternates, because the second measurement finds the caches warm.
        for peer in peers if repeat % 2 == 0 else peers[::-1]:
            load = await meter.load(peer, CONCURRENCY, sitting.sizes.seconds)
            found.loads.append(load)
            rate = f"{load.runs_per_second:8,.0f} runs/s"
            print(f"  {repeat + 1}  {peer.name:11}  {rate}  {load.cpu:6.2f} ms CPU", flush=True)


def _report(found: Growth, total: int) -> Chapter:
    parked = total // SOURCES
    detail = (
        f"{number(found.rate(FULL))} with {total:,} runs; {number(found.rate(EMPTY))} with none"
    )
    lists = {name: rows for name, rows in found.rows.items() if rows[1] > 1}
    worst = max(lists, key=lambda name: lists[name][0] / lists[name][1])
    read, shown = lists[worst]
    figures = [
        Figure("large-tables", found.rate(FULL) / found.rate(EMPTY), detail),
        Figure("rows-touched", read / shown, f"{worst}: {read:,} rows read, {shown} shown"),
    ]
    charts = dict(_charts(found))
    section = [
        f"## Growth: {total - parked:,} finished runs and {parked:,} parked runs",
        "",
        f"The database contains copies of {SOURCES} real runs, {number(found.bytes / 1e9)} GB with"
        " its indexes. The table shows the median times in milliseconds, in parentheses those of a"
        " service with an empty database. Both services got the requests in turns. The charts show"
        " the ratio of both times, which the load of the machine affects less.",
        "",
        *_table(found),
        "",
        *(f"![{name}](charts/{name}.svg)" for name in charts),
    ]
    return Chapter(figures, section, charts)


def _table(found: Growth) -> Iterator[str]:
    stages = list(found.times[ACCEPT])
    names = [f"{stage:,} runs" for stage in stages]
    yield from head(["request", *names, "rows read", "rows shown"], left=1)
    for name, times in found.times.items():
        cells = [f"{number(full)} ({number(empty)})" for empty, full in times.values()]
        read_and_shown = [f"{one:,}" for one in found.rows.get(name, ())]
        yield row([name, *cells, *(read_and_shown or ["", ""])])


def _charts(found: Growth) -> Iterator[tuple[str, str]]:
    names = list(found.times)
    groups = {
        "growth-runs": ("Lists of runs", [name for name in names if name.startswith("runs")]),
        "growth-search": ("Search", [name for name in names if name.startswith("search")]),
        "growth-approvals": ("Approvals and the inbox", ["inbox", *_of("approvals", names)]),
        "growth-work": ("New runs, claims and sweeps", [ACCEPT, WHOLE_RUN, *QUERIES][:7]),
        "growth-old": ("Old runs", [*_of("an old", names), *_of("events", names)]),
    }
    for file, (title, chosen) in groups.items():
        lines = {
            name: [
                (float(stage), full / empty) for stage, (empty, full) in found.times[name].items()
            ]
            for name in chosen
        }
        x = make_axis("runs in the database", [at for at, _ in lines[chosen[0]]], log=True)
        ratios = [ratio for line in lines.values() for _, ratio in line]
        y = make_axis("times", [0.1, *ratios], log=True)
        yield file, line_chart(f"{title}: time, relative to an empty database", x, y, lines)


def _of(prefix: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(prefix)]
