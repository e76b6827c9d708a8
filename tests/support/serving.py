"""An aiohttp application on a thread of its own and a real loopback port, for tests that stay
synchronous; and `Hold`, by which a test stops a server's answer exactly where it wants."""

import asyncio
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from aiohttp import web

START_SECONDS = 10.0
HOLD_SECONDS = 60.0
SHUTDOWN_SECONDS = 0.1
MAX_BODY_BYTES = 64 * 1024 * 1024
BACKLOG = 2048
ACCEPT_ROUNDS = 10
"""Of the event loop; asyncio takes three from accepting a connection to handing it over."""


class Hold:
    """Whoever reaches it waits until `release`; the test waits for them with `arrived`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = False
        self._arrivals = 0
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def reach(self) -> None:
        event = asyncio.Event()
        with self._changed:
            self._arrivals += 1
            self._changed.notify_all()
            if self._open:
                return
            self._waiting.append((asyncio.get_running_loop(), event))
        await event.wait()

    def arrived(self, count: int = 1, timeout: float = HOLD_SECONDS) -> None:
        """Raises TimeoutError if fewer than `count` arrive within `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._arrivals >= count, timeout):
                raise TimeoutError(f"{self._arrivals} of {count} arrived within {timeout} s")

    def release(self) -> None:
        """Lets everyone go on, now and later."""
        with self._changed:
            self._open = True
            waiting, self._waiting = self._waiting, []
        for loop, event in waiting:
            with suppress(RuntimeError):  # that server was closed meanwhile
                loop.call_soon_threadsafe(event.set)


class Server:
    """Serves `app` on 127.0.0.1 between `start` and `close`. A handler whose client goes away is
    cancelled."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=type(self).__name__)

    def app(self) -> web.Application:
        raise NotImplementedError

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> Self:
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError("the test server did not start")
        if self._failure is not None:
            raise self._failure
        return self

    def close(self) -> None:
        if self._loop is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # it ended by itself
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    def join(self) -> None:
        self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # shown to the test by `start`
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        runner = web.AppRunner(
            self.app(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_SECONDS,
        )
        await runner.setup()
        transports: list[asyncio.Transport] = []
        try:
            listening = socket.create_server(("127.0.0.1", self._port), backlog=BACKLOG)
            await web.SockSite(runner, listening, backlog=BACKLOG).start()
            self._port = int(runner.addresses[0][1])
            self._ready.set()
            await self._stop.wait()
            self._loop.remove_reader(listening)
            transports = await _transports(runner)
        finally:
            await runner.cleanup()
        for transport in transports:
            transport.abort()  # one whose client does not read would never be done closing


async def _transports(runner: web.AppRunner) -> list[asyncio.Transport]:
    """Of all connections, also of those that were accepted just now. A server that closes meanwhile
    would lose them unclosed (asyncio's own `Server._attach` refuses them then)."""
    for _ in range(ACCEPT_ROUNDS):
        await asyncio.sleep(0)
    assert runner.server is not None
    found = (connection.transport for connection in runner.server.connections)
    return [transport for transport in found if transport is not None]
