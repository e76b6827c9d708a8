"""Closed loops: each client starts its next run when its last run has ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Final, TypeVar

T = TypeVar("T")
numbers: Final[Iterator[int]] = count(1)
"""The numbers of the runs of this process."""


async def closed_loop(
    work: Callable[[int], Awaitable[None]],
    concurrency: int,
    seconds: float,
    most: int | None = None,
) -> list[float]:
    """Return the seconds that each run took. `most` limits the number of runs that start."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    started = count()

    async def client() -> None:
        while (begun := time.perf_counter()) < end and (most is None or next(started) < most):
            await work(next(numbers))
            took.append(time.perf_counter() - begun)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return took


async def repeated(work: Callable[[int], Awaitable[T]], times: int, concurrency: int) -> list[T]:
    """Return the results of exactly `times` runs."""
    left = iter(range(times))
    results: list[T] = []

    async def client() -> None:
        for _ in left:  # shared by all clients
            results.append(await work(next(numbers)))  # noqa: PERF401

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(client())
    return results


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
