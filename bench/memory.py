"""P12: the resident memory of an idle `serve` process, and of each run that waits for its model."""

import asyncio
from typing import Final

from bench import loops, machine, measures
from bench.goals import Chapter, Figure
from bench.sitting import Sitting

CARRIED: Final = 64
"""Runs that a process has at the same time by default (RUNWARD_WORKER_CONCURRENCY)."""
LATENCY_MS: Final = 3000
STARTED_SECONDS: Final = 2.0
"""Within this time, all runs have sent their request to the model, and none has its response."""
KIB: Final = 1024


async def measure(sitting: Sitting) -> Chapter:
    async with sitting.serving("memory") as (service, _):
        await asyncio.sleep(measures.SETTLING_SECONDS)
        idle = machine.resident_bytes(service.pid)
        await loops.repeated(service.run, CARRIED * 4, CARRIED)
        await asyncio.sleep(measures.SETTLING_SECONDS)
        before = machine.resident_bytes(service.pid)
        async with asyncio.TaskGroup() as group:
            for number in range(CARRIED):
                text = f"Question {number}. [[latency={LATENCY_MS}]]"
                group.create_task(service.complete({"agent": "plain", "input": text}))
            await asyncio.sleep(STARTED_SECONDS)
            grown = machine.resident_bytes(service.pid) - before
    return Chapter(
        [
            Figure("idle-memory", idle / KIB / KIB, "tools and agents registered, no runs"),
            Figure(
                "carried-memory",
                max(0.0, grown / CARRIED / KIB),
                f"{CARRIED} runs that wait for the model, after {CARRIED * 4} other runs",
            ),
        ]
    )
