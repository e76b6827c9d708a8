"""One project floods the queue: how long the runs of another project wait for their start.

The flooding project starts its runs as fast as its clients can. Meanwhile the other project starts
a run at fixed intervals, and reads how long the run was queued.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import aiohttp
import orjson

from bench.goals import Chapter
from bench.loops import percentile, repeated
from bench.service import Service
from bench.sitting import Sitting
from bench.tables import head, number, row

RUNS: Final = 10_000
"""Runs of the flood with `--full`."""
FEW: Final = 2_000
PLACES: Final = 8
"""Runs that the worker executes at the same time. With more places, runs hardly wait."""
CLIENTS: Final = 64
INTERVAL_SECONDS: Final = 0.2
QUIET_SECONDS: Final = 10.0
MS: Final = 1000
_SCOPES: Final = ("runs:read", "runs:write", "tools:write")


class Peer(Service):
    """A service, as one project uses it."""

    async def start(self, number: int) -> str:
        return await self._start("plain", number)

    async def read_wait(self, run_id: str) -> float:
        """Wait until a run has ended. Return the seconds that it was queued, by the database."""
        await self._events(run_id)
        async with self.session.get(f"{self.url}/v1/runs/{run_id}") as response:
            run = orjson.loads(await response.read())
        started, created = (
            datetime.fromisoformat(run[name]) for name in ("started_at", "created_at")
        )
        return (started - created).total_seconds()

    @asynccontextmanager
    async def in_new_project(self, name: str, fake: str) -> AsyncGenerator["Peer"]:
        project = await self._post("/v1/projects", {"name": name})
        body = {"name": name, "scopes": _SCOPES}
        key = (await self._post(f"/v1/projects/{project['id']}/keys", body))["key"]
        headers = self.session.headers.copy()
        headers["authorization"] = f"Bearer {key}"
        timeout = self.session.timeout
        async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
            peer = Peer(name, self.url, session, self.pid)
            await peer.register(fake)
            yield peer


async def measure(sitting: Sitting) -> Chapter:
    total = RUNS if sitting.sizes.full else FEW
    async with sitting.serving("flood", {"RUNWARD_WORKER_CONCURRENCY": str(PLACES)}) as (
        service,
        _,
    ):
        flooding = Peer("flooding", service.url, service.session, service.pid)
        async with flooding.in_new_project("quiet", sitting.fake) as quiet:
            async with _starting_runs(quiet) as before:
                await asyncio.sleep(QUIET_SECONDS)
            async with _starting_runs(quiet) as during:
                flood = await repeated(flooding.start, total, CLIENTS)
                longest = max([await flooding.read_wait(one) for one in flood[-CLIENTS:]])
            async with _starting_runs(quiet) as after:
                await asyncio.sleep(QUIET_SECONDS)
    waits = {"before": before, "during": during, "after": after}
    return Chapter(section=_report(total, longest, waits))


@asynccontextmanager
async def _starting_runs(peer: Peer) -> AsyncGenerator[list[float]]:
    """Start runs at fixed intervals, and add the seconds that each of them was queued."""
    waits: list[float] = []
    stop = asyncio.Event()

    async def start(number: int) -> None:
        waits.append(await peer.read_wait(await peer.start(number)))

    async def repeat() -> None:
        number = 0
        async with asyncio.TaskGroup() as group:
            while not stop.is_set():
                group.create_task(start(number := number + 1))
                await asyncio.sleep(INTERVAL_SECONDS)

    task = asyncio.create_task(repeat())
    try:
        yield waits
    finally:
        stop.set()
        await task


def _report(total: int, longest: float, waits: dict[str, list[float]]) -> list[str]:
    lines = [
        f"## A flood of {total:,} runs",
        "",
        f"The worker has {PLACES} places. The last {CLIENTS} runs of the flood were queued for up"
        f" to {number(longest)} s.",
        "",
        *head(["queue time of the other project, ms", "p50", "p99", "max", "runs"], left=1),
    ]
    for name, took in waits.items():
        times = (percentile(took, 0.5), percentile(took, 0.99), max(took))
        lines.append(row([name, *(number(one * MS) for one in times), f"{len(took):,}"]))
    return lines
