"""One socket write for everything that a connection writes in one turn of the event loop."""

import asyncio
from typing import Any, Final, TypeAlias

_Bytes: TypeAlias = "bytes | bytearray | memoryview[Any]"
MAX_BYTES: Final = 65_536
"""Number of bytes that are written at once, even if the turn has not ended. It is the limit above
which the server waits until the client has read."""


class BufferedTransport(asyncio.Transport):
    """Joins the head, the body and the end of a response, which the server writes separately. Each
    write to a socket is a system call."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._chunks: list[_Bytes] = []
        self._size = 0

    def write(self, data: _Bytes) -> None:
        if not self._chunks:
            self._loop.call_soon(self.flush)
        self._chunks.append(data)
        self._size += len(data)
        if self._size >= MAX_BYTES:
            self.flush()

    def flush(self) -> None:
        chunks, self._chunks, self._size = self._chunks, [], 0
        if chunks and not self._transport.is_closing():
            self._transport.write(b"".join(chunks))

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)
