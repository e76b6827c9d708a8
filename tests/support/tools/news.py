"""Hears when the tools of any project change: the notification that the service's own processes
get. The API has no event of it."""

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from runward.store.postgres.addresses import read_url
from tests.support.services.client import Client, Json

T = TypeVar("T")

PATIENCE_SECONDS: Final = 30.0


class ToolNews:
    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._changed = threading.Condition()
        self._count = 0
        self._listening = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def until(self, look: Callable[[], T | None]) -> T:
        """What `look` finds, now or after the next news. Raises TimeoutError."""
        while True:
            with self._changed:
                seen = self._count
            if (found := look()) is not None:
                return found
            with self._changed:
                if self._count == seen and not self._changed.wait(PATIENCE_SECONDS):
                    raise TimeoutError(f"no news of tools within {PATIENCE_SECONDS} s")

    def tool(self, client: Client, name: str, version: int) -> Json:
        """In that version or a later one, as soon as it is there."""

        def look() -> Json | None:
            response = client.request("GET", f"/v1/tools/{name}")
            found: Json = response.json() if response.status_code == 200 else {"version": 0}
            return found if found["version"] >= version else None

        return self.until(look)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._listening.wait(PATIENCE_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        database: Any = asyncpg
        connection = await database.connect(read_url(self._url).dsn)
        try:
            await connection.add_listener("runward_tools", self._heard)
            self._listening.set()
            await self._stop.wait()
        finally:
            await connection.close()

    def _heard(self, *about: Any) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()
