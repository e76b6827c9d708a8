"""One query for all tasks that need its result at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SharedQueries:
    """Runs queries, each once for all callers with the same key."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, key: Hashable, query: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the query. If a query with this key is running, wait for its result.
        Such a query may have begun before this call, so the key must contain everything that the
        result must include."""
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(query())
            task.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(task)

    def _end(self, key: Hashable, done: asyncio.Task[Any]) -> None:
        del self._running[key]
        if not done.cancelled():
            done.exception()  # The callers raise it. All of them may have been cancelled.
