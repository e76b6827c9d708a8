"""Group commit: what arrives while one flush is in flight goes into the next, as one statement.

No timers: an idle process commits at once, a busy one batches.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")
FlushResult: TypeAlias = R | BaseException | asyncio.Task[R]
"""A task: this entry could not go with the others and is on its way alone."""

MAX_BATCH: Final = 256
"""Entries in one flush."""


class GroupCommit(Generic[T, R]):
    """`flush` gets up to MAX_BATCH entries and answers with one result or error for each. At the
    end whoever still waits is cancelled: whether his entry was committed is unknown."""

    def __init__(self, flush: Callable[[Sequence[T]], Awaitable[Sequence[FlushResult[R]]]]):
        self._flush = flush
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._unanswered: set[asyncio.Future[R]] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[R]] = set()

    async def __aenter__(self) -> "GroupCommit[T, R]":
        self._task = asyncio.create_task(self._run(), name="group-commit")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._task is not None
        tasks: list[asyncio.Task[Any]] = [self._task, *self._alone]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._unanswered:
            future.cancel()

    async def __call__(self, entry: T) -> R:
        """Return when the entry is committed, or raise its error."""
        assert self._task is not None
        assert not self._task.done(), "nothing is committed before the beginning or after the end"
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        self._wake.set()
        return await future

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                count = min(len(self._waiting), MAX_BATCH)
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    results = await self._flush([entry for entry, _ in batch])
                except Exception as error:  # handed to those who wait for it
                    results = [error] * len(batch)
                for (_, future), result in zip(batch, results, strict=True):
                    self._resolve(future, result)

    def _resolve(self, future: asyncio.Future[R], result: FlushResult[R]) -> None:
        if isinstance(result, asyncio.Task):
            alone = cast("asyncio.Task[R]", result)
            self._alone.add(alone)
            alone.add_done_callback(lambda task: self._resolve_alone(future, task))
        elif future.done():
            return
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _resolve_alone(self, future: asyncio.Future[R], task: asyncio.Task[R]) -> None:
        self._alone.discard(task)
        if task.cancelled():
            future.cancel()
        else:
            self._resolve(future, task.exception() or task.result())
