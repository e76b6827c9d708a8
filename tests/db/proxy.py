"""A network between the store and PostgreSQL that fails at a chosen moment.

It forwards bytes, and breaks the connection on which `marker` passes by on its way to the server,
once for every call of `break_at`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Final

from sqlalchemy import make_url

_READY: Final = b"Z\x00\x00\x00\x05"
"""ReadyForQuery (PostgreSQL's protocol 3.0), after which the server has nothing more to say."""
_UNSUPPORTED: Final = b"SFATAL\0VFATAL\0C08P01\0Munsupported startup parameter: "
_STARTING_UP: Final = b"SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0"


class Break(Enum):
    BEFORE = auto()  # the server never gets the statement
    ANSWER_LOST = auto()  # the server has done it, and nobody hears of it
    WHILE_RUNNING = auto()  # the client is cut off while the server works
    SWALLOWED = auto()  # the server is cut off, and the client waits for an answer
    DELIVERED_LATE = auto()  # the client is cut off; the server gets the statement at `deliver`


class Proxy:
    def __init__(self, url: str) -> None:
        self._target = make_url(url)
        self._plan: tuple[Break, bytes] | None = None
        self._late: list[tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._refusals = 0
        self._parameter: str | None = None
        self.hide_ends = False
        """Whether clients keep their connections after the server has ended its side."""
        self.broken = 0
        """Connections that were broken on purpose."""

    def break_at(self, marker: str, how: Break) -> None:
        self._plan = (how, marker.encode())

    def refuse(self, connections: int) -> None:
        """The next so many are told that the server is starting up."""
        self._refusals = connections

    def refuse_parameter(self, name: str) -> None:
        """Refuse clients that set this parameter as they connect, as PgBouncer does."""
        self._parameter = name

    def cut(self) -> None:
        """Break all connections. The server goes on with what it has begun."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def deliver(self) -> None:
        """What was held back reaches the server, which has answered when this returns."""
        for reader, writer, data in self._late:
            writer.write(data)
            await _until_ready(reader)
        self._late.clear()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[str]:
        """Yields the URL that leads through here."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        through = self._target.difference_update_query(["host", "port"])
        url = through.set(host="127.0.0.1", port=port).update_query_dict({"ssl": "disable"})
        try:
            yield url.render_as_string(hide_password=False)
        finally:
            server.close()
            self.cut()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        folder, port = self._target.query.get("host"), self._target.query.get("port")
        if isinstance(folder, str) and folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{port or 5432}")
        return await asyncio.open_connection(self._target.host, self._target.port or 5432)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if self._refusals:
            self._refusals -= 1
            await reader.read(65536)
            _refuse(writer, _STARTING_UP)
            return
        hello = await reader.read(65536)
        if self._parameter is not None and f"\0{self._parameter}\0".encode() in hello:
            _refuse(writer, _UNSUPPORTED + self._parameter.encode() + b"\0\0")
            return
        up_reader, up_writer = await self._connect()
        self._writers.append(up_writer)
        up_writer.write(hello)
        down = asyncio.create_task(_pump(up_reader, writer, close=not self.hide_ends))
        with suppress(OSError):
            await self._pump_up(reader, writer, (up_reader, up_writer), down)
        down.cancel()

    async def _pump_up(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        down: asyncio.Task[None],
    ) -> None:
        up_reader, up_writer = up
        tail = b""
        while data := await reader.read(65536):
            plan = self._plan
            if plan is None or plan[1] not in tail + data:
                tail = data[-256:]
                up_writer.write(data)
                continue
            self._plan = None
            await _stopped(down)
            match plan[0]:
                case Break.BEFORE:
                    up_writer.transport.abort()
                case Break.ANSWER_LOST:
                    up_writer.write(data)
                    await _until_ready(up_reader)
                    up_writer.transport.abort()
                case Break.WHILE_RUNNING:
                    up_writer.write(data)
                    await up_writer.drain()
                case Break.DELIVERED_LATE:
                    self._late.append((up_reader, up_writer, data))
                case Break.SWALLOWED:
                    self.broken += 1
                    up_writer.transport.abort()
                    await reader.read()
                    return
            self.broken += 1
            writer.transport.abort()
            return
        up_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, close: bool) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    if close:
        writer.close()


def _refuse(writer: asyncio.StreamWriter, message: bytes) -> None:
    writer.write(b"E" + (len(message) + 4).to_bytes(4, "big") + message)
    writer.close()


async def _until_ready(reader: asyncio.StreamReader) -> None:
    seen = b""
    while _READY not in seen[-6:]:
        data = await reader.read(65536)
        if not data:
            return
        seen = seen[-6:] + data


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
