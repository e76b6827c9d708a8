"""A relay between one process and PostgreSQL that can freeze or cut its connections.

If it freezes or cuts, the server's responses are lost first, and the server's side of the
connection ends a moment later. A COMMIT that was sent has then taken effect, and the process cannot
know it. If it hides the server's end, the client receives the last bytes of the server, and its
connection stays open.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, cast

LOST_ANSWERS_SECONDS: Final = 0.05
"""For how long the server still hears a client that no longer hears the server."""


class Relay:
    """Forwards connections to the socket at `path`. `dead` connections lead nowhere, and stay open
    for the client until they are dropped."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._pairs: set[_Pair] = set()
        self._passing = asyncio.Event()
        self._passing.set()
        self._refusing = False
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        """Return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for pair in list(self._pairs):
            pair.abort()

    async def cut(self, seconds: float) -> int:
        """Cut all connections, and refuse new ones meanwhile. Return how many were cut."""
        self._refusing = True
        pairs = await self._lose_answers()
        for pair in pairs:
            pair.abort()
        await asyncio.sleep(seconds)
        self._refusing = False
        return len(pairs)

    async def freeze(self, seconds: float, *, new_ones: bool) -> int:
        """End the server's side of all connections, and tell the clients so only afterwards. New
        connections wait as long, too, where `new_ones` is true. Return how many were frozen."""
        if new_ones:
            self._passing.clear()
        pairs = await self._lose_answers()
        for pair in pairs:
            pair.abort_server()
        await asyncio.sleep(seconds)
        self._passing.set()
        for pair in pairs:
            pair.abort()
        return len(pairs)

    async def hide_end(self, seconds: float, end: Callable[[], Awaitable[None]]) -> int:
        """Let `end` end the server's side of the connections, and tell the clients so only after
        `seconds`. Return how many ended."""
        pairs = [pair for pair in self._pairs if pair.connected]
        for pair in pairs:
            pair.hiding = True
        await end()
        await asyncio.sleep(seconds)
        hidden = [pair for pair in pairs if pair.hidden]
        for pair in pairs:
            pair.hiding = False
        for pair in hidden:
            pair.abort()
        return len(hidden)

    async def _lose_answers(self) -> list["_Pair"]:
        pairs = [pair for pair in self._pairs if pair.connected and not pair.deaf]
        for pair in pairs:
            pair.deaf = True
        await asyncio.sleep(LOST_ANSWERS_SECONDS)
        return pairs

    def _accept(self) -> asyncio.Protocol:
        pair = _Pair(self._pairs)
        if not self._refusing:
            task = asyncio.create_task(self._connect(pair))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            pair.refused = True
        return pair.client

    async def _connect(self, pair: "_Pair") -> None:
        await self._passing.wait()
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: pair.server, self.path)
        except OSError:  # PostgreSQL is away
            pair.abort()


class _Pair:
    """The two sides of a connection, and what the client said before the server's was there."""

    def __init__(self, pairs: "set[_Pair]") -> None:
        self.client, self.server = _Side(self), _Side(self)
        self.early: list[bytes] = []
        self.deaf = False
        self.hiding = self.hidden = False
        self.refused = False
        self.ended = False
        self._pairs = pairs
        pairs.add(self)

    @property
    def connected(self) -> bool:
        return self.server.transport is not None

    def made(self, side: "_Side") -> None:
        if self.refused or self.ended:
            self.abort()
        elif side is self.server and side.transport is not None:
            for data in self.early:
                side.transport.write(data)
            self.early.clear()

    def received(self, side: "_Side", data: bytes) -> None:
        other = self.other(side)
        if side is self.server and self.deaf:
            return
        if other.transport is not None:
            if not other.transport.is_closing():
                other.transport.write(data)
        elif not self.deaf:
            self.early.append(data)

    def lost(self, side: "_Side") -> None:
        if side is self.server and self.hiding:
            self.hidden = True
        elif side is self.client or not self.deaf:
            self.abort()

    def other(self, side: "_Side") -> "_Side":
        return self.server if side is self.client else self.client

    def abort_server(self) -> None:
        if self.server.transport is not None:
            self.server.transport.abort()

    def abort(self) -> None:
        self.ended = True
        self._pairs.discard(self)
        for side in (self.client, self.server):
            if side.transport is not None:
                side.transport.abort()


class _Side(asyncio.Protocol):
    def __init__(self, pair: _Pair) -> None:
        self.transport: asyncio.Transport | None = None
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._pair.made(self)

    def data_received(self, data: bytes) -> None:
        self._pair.received(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.lost(self)

    def pause_writing(self) -> None:
        self._other_reading(paused=True)

    def resume_writing(self) -> None:
        self._other_reading(paused=False)

    def _other_reading(self, *, paused: bool) -> None:
        other = self._pair.other(self).transport
        if other is None or other.is_closing():
            return
        if paused:
            other.pause_reading()
        else:
            other.resume_reading()
