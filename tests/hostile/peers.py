"""Hostile TCP servers on a thread of their own, and the memory of a process that they attack."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.serving import ACCEPT_ROUNDS, START_SECONDS
from tests.unit.raw_server import RawServer, Script

T = TypeVar("T")


class Peers:
    """One `RawServer` for each name, all on one event loop."""

    def __init__(self, scripts: Mapping[str, Sequence[Script]]) -> None:
        self.servers: dict[str, RawServer] = {}
        self._scripts = scripts
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._loop.set_exception_handler(_ignore)
        self._thread.start()
        self._submit(self._open()).result(START_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._submit(self._close()).result(START_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _open(self) -> None:
        for name, scripts in self._scripts.items():
            self.servers[name] = await self._stack.enter_async_context(RawServer(*scripts))

    async def _close(self) -> None:
        with suppress(OSError):
            await self._stack.aclose()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(ACCEPT_ROUNDS):
            await asyncio.sleep(0)  # for connections to end


def _ignore(_loop: asyncio.AbstractEventLoop, _context: dict[str, Any]) -> None:
    """A client that ends a connection while a peer still writes is right to do so."""


class Memory:
    """The largest resident memory of a process since the object was made."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # VmHWM begins anew
        self._before = self._bytes("VmRSS")

    @property
    def growth_bytes(self) -> int:
        return self._bytes("VmHWM") - self._before

    def _bytes(self, field: str) -> int:
        for line in self._status.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0]) * 1024
        raise LookupError(field)
