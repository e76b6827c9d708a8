"""Retention of many finished runs, while new runs execute: its pace, its locks, and the space.

The database is filled with copies of real runs, as for `growth`. Then the cleaner of a worker
removes their content and their events, without the pauses of a worker.
"""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import asyncpg
import structlog

from bench.goals import Chapter
from bench.growth import SOURCES, Peer
from bench.growth_fill import open_filling
from bench.loops import closed_loop, percentile
from bench.measures import warm_up
from bench.sitting import Sitting
from bench.tables import head, number, row
from runward.domain.retention import DataClass, RetentionLimits
from runward.store.postgres.db import open_database
from runward.worker.cleaner import Cleaner

LIMITS: Final = RetentionLimits({DataClass.RUNS: 1, DataClass.EVENTS: 1}, {})
MAX_SECONDS: Final = 1_800
"""The cleaner stops after this time."""
CLIENTS: Final = 4
SAMPLE_SECONDS: Final = 0.02
MS: Final = 1000
_TABLES: Final = ("runs", "run_items", "run_events", "tool_calls", "approvals")
_SIZES: Final = """
SELECT relname, pg_table_size(oid) AS heap, pg_indexes_size(oid) AS indexes FROM pg_class
WHERE relname = ANY($1) AND relkind = 'r'"""
_VACUUMS: Final = """
SELECT relname, n_dead_tup AS dead, autovacuum_count AS vacuums FROM pg_stat_user_tables
WHERE relname = ANY($1)"""
_WAITS: Final = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@dataclass(slots=True)
class Removal:
    """The work of the cleaner. `waits`: sessions that waited for a lock, in all samples. `vacuums`:
    the dead rows and the number of autovacuums of each table."""

    steps: list[float] = field(default_factory=list[float])
    samples: int = 0
    waits: int = 0
    is_whole: bool = False
    vacuums: dict[str, str] = field(default_factory=dict[str, str])


async def measure(sitting: Sitting) -> Chapter:
    total = sitting.sizes.stored * SOURCES // (SOURCES - 1)
    latencies: dict[str, list[float]] = {}
    sizes: dict[str, dict[str, tuple[int, int]]] = {}
    async with sitting.serving("retention") as (service, url):
        database = open_database(url, pool_size=1)
        peer = Peer("runward", service, database)
        await warm_up(peer)
        seconds = sitting.sizes.seconds * sitting.sizes.repeats
        latencies["with few runs"] = await closed_loop(peer.run, CLIENTS, seconds)
        filling = await open_filling(url, await peer.make_sources(), total)
        await filling.copy(1, total)
        await filling.settle()
        connection = filling.connection
        await connection.execute("SET session_replication_role = 'origin'")
        await connection.execute("SELECT pg_stat_reset()")
        sizes["filled"] = await _read_sizes(connection)
        latencies["filled"] = await closed_loop(peer.run, CLIENTS, seconds)
        print(f"  {total:,} runs", flush=True)
        removal, latencies["during"] = await _remove(peer, url, connection)
        sizes["cleaned"] = await _read_sizes(connection)
        for one in await connection.fetch(_VACUUMS, _TABLES):
            removal.vacuums[one["relname"]] = f"{one['dead']:,}, {one['vacuums']}"
        latencies["after"] = await closed_loop(peer.run, CLIENTS, seconds)
        await filling.settle()
        sizes["vacuumed"] = await _read_sizes(connection)
        left = await connection.fetchval(
            "SELECT count(*) FROM runs WHERE ended_at < now() - interval '1 day'"
            " AND erased_at IS NULL"
        )
        await filling.close()
        await database.close()
    return Chapter(section=_report(total, removal, left, latencies, sizes))


async def _read_sizes(connection: "asyncpg.Connection") -> dict[str, tuple[int, int]]:
    rows = await connection.fetch(_SIZES, _TABLES)
    return {one["relname"]: (one["heap"], one["indexes"]) for one in rows}


async def _remove(
    peer: Peer, url: str, connection: "asyncpg.Connection"
) -> tuple[Removal, list[float]]:
    """Remove everything while runs execute. Return the seconds that these runs took."""
    # Otherwise, the cleaner would print a line for each batch.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    removal, database = Removal(), open_database(url, pool_size=1)
    cleaner = Cleaner(database, LIMITS)
    await cleaner.begin()
    took: list[float] = []
    async with _sampling(connection, removal):
        cleaning = asyncio.create_task(_clean(cleaner, removal))
        while not cleaning.done():
            took += await closed_loop(peer.run, CLIENTS, 1.0)
        await cleaning
    await database.close()
    return removal, took


async def _clean(cleaner: Cleaner, removal: Removal) -> None:
    begun = time.perf_counter()
    while not cleaner.is_done and time.perf_counter() - begun < MAX_SECONDS:
        step = time.perf_counter()
        await cleaner.step()
        removal.steps.append(time.perf_counter() - step)
    removal.is_whole = cleaner.is_done
    print(f"  cleaned in {time.perf_counter() - begun:.0f} s", flush=True)


@asynccontextmanager
async def _sampling(connection: "asyncpg.Connection", removal: Removal) -> AsyncGenerator[None]:
    async def sample() -> None:
        while True:
            removal.waits += int(await connection.fetchval(_WAITS) or 0)
            removal.samples += 1
            await asyncio.sleep(SAMPLE_SECONDS)

    task = asyncio.create_task(sample())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _report(
    total: int,
    removal: Removal,
    left: int,
    latencies: dict[str, list[float]],
    sizes: dict[str, dict[str, tuple[int, int]]],
) -> list[str]:
    seconds = sum(removal.steps)
    end = "It removed everything." if removal.is_whole else f"It stopped after {MAX_SECONDS} s."
    typical, longest = (
        number(one * MS) for one in (percentile(removal.steps, 0.5), max(removal.steps))
    )
    lines = [
        f"## Retention: {total:,} runs",
        "",
        f"The cleaner worked for {number(seconds)} s. {end} {left:,} old runs have content. A step"
        f" of two batches took {typical} ms at p50 and {longest} ms at most. In {removal.samples:,}"
        f" samples, {removal.waits} sessions waited for a lock.",
        "",
        *head([f"time of a new run, c={CLIENTS}, ms", "p50", "p99", "runs"], left=1),
    ]
    for name, took in latencies.items():
        times = [number(percentile(took, share) * MS) for share in (0.5, 0.99)]
        lines.append(row([name, *times, f"{len(took):,}"]))
    columns = ["MB of the table + its indexes", *sizes, "dead rows, autovacuums"]
    lines += ["", *head(columns, left=1)]
    for table in _TABLES:
        pairs = (sizes[stage][table] for stage in sizes)
        cells = (f"{heap / 1e6:.1f} + {indexes / 1e6:.1f}" for heap, indexes in pairs)
        lines.append(row([f"`{table}`", *cells, removal.vacuums[table]]))
    return lines
