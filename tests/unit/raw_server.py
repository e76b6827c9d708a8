"""A TCP server on loopback that says exactly what a test tells it, byte by byte."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeAlias


class Line:
    """One connection, seen from the server."""

    def __init__(
        self, server: "RawServer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """The next request, whole; raises IncompleteReadError where there is none."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        whole = head + await self._reader.readexactly(length)
        self._server.requests.append(whole)
        return whole

    async def say(self, answer: bytes) -> None:
        self._writer.write(answer)
        await self._writer.drain()

    async def closed(self) -> None:
        """Until the client has ended the connection."""
        while await self._reader.read(65_536):
            pass

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect the client to another server, until one of them ends its connection."""

        async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                to.write(data)
            to.close()

        await asyncio.gather(copy(self._reader, writer), copy(reader, self._writer))

    def reset(self) -> None:
        connection: socket.socket = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Script: TypeAlias = Callable[[Line], Awaitable[None]]


class RawServer:
    """The n-th connection follows the n-th script, all later ones the last; then it is closed."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._scripts = scripts
        self._tls = tls

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/tool"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            await script(Line(self, reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("Content-Type: application/json")
    return "\r\n".join((*lines, "", "")).encode() + body


def saying(raw: bytes) -> Script:
    """Reads one request and says `raw`."""

    async def script(line: Line) -> None:
        await line.request()
        await line.say(raw)

    return script


def keeping_alive(body: bytes = b"{}") -> Script:
    async def script(line: Line) -> None:
        while True:
            await line.request()
            await line.say(answer(body))

    return script
