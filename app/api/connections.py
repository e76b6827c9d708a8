"""Client connections: how many may be open, and how long and how large a request's head may be."""

import asyncio
from asyncio import Transport
from typing import Any, ClassVar, Final, cast

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

log = structlog.get_logger()

HEAD_SECONDS: Final = 15.0
"""From the connection, or the first byte of a later request, to the end of the headers."""
MAX_HEAD_BYTES: Final = 256 * 1024
"""Received without an end of the headers."""
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)
_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits that it does not have."""

    max_connections: ClassVar[int]
    head_seconds: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _head_bytes = 0
    _refused = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.max_connections:
            log.warning("connection_refused", open=len(self.connections))
            self._refused = True
            transport.write(_FULL)
            transport.close()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        idle = cast(Any, self.cycle) is None or self.cycle.response_complete
        if idle and self._timer is None:
            self._expect_head()
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.transport.write(_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if not self._refused:
            super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def limited(max_connections: int, head_seconds: float = HEAD_SECONDS) -> type[LimitedProtocol]:
    values = {"max_connections": max_connections, "head_seconds": head_seconds}
    return type("Limited", (LimitedProtocol,), values)
