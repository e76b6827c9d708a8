"""Limits of client connections: their number, and the time and size of a request's headers."""

import asyncio
from asyncio import Transport
from http import HTTPStatus
from typing import Any, ClassVar, Final, cast
from uuid import uuid4

import structlog
from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from runward.api.http.problems import FRAMEWORK_ERRORS, MEDIA_TYPE, build_problem
from runward.api.http.write_buffer import BufferedTransport
from runward.domain.errors import UnavailableError

log = structlog.get_logger()

HEAD_SECONDS: Final = 15.0
"""Maximum number of seconds until all headers have arrived. Measured from the start of the
connection, or from the first byte of a later request."""
MAX_HEAD_BYTES: Final = 256 * 1024
"""Maximum number of bytes received before the end of the headers, or of the trailers."""
_TOO_MANY_CONNECTIONS: Final = "Too many connections are open. Retry after one second."


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with additional limits."""

    max_connections: ClassVar[int]
    head_seconds: ClassVar[float]
    _timer: asyncio.TimerHandle | None = None
    _in_head = False
    _in_trailers = False
    _head_bytes = 0
    _is_refused = False
    _ignores_data = False

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.max_connections:
            log.warning("connection_refused", open=len(self.connections))
            self._is_refused = True
            transport.write(
                _encode_refusal(
                    503, UnavailableError.code, _TOO_MANY_CONNECTIONS, b"Retry-After: 2\r\n"
                )
            )
            transport.close()
            return
        super().connection_made(BufferedTransport(transport, self.loop))
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self._ignores_data:
            return
        super().data_received(data)
        if self.transport.is_closing():
            return
        idle = cast(Any, self.cycle) is None or self.cycle.response_complete
        if idle and self._timer is None:
            self._expect_head()
        if self._in_head or self._in_trailers:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # Trailers are not headers (RFC 9110, 6.5.1).
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        if not self._is_supported():
            raise ValueError("the version or the framing of the request is not supported")
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """Trailers follow the last chunk, which has no body."""
        self._in_trailers, self._head_bytes = True, 0

    def on_body(self, body: bytes) -> None:
        self._in_trailers = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_trailers = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400)

    def _unsupported_upgrade_warning(self) -> None:
        """Respond as if no upgrade was requested, then close the connection: the parser reads no
        further request."""
        self._close_after_answers()

    def _is_supported(self) -> bool:
        codings = [value for name, value in self.headers if name == b"transfer-encoding"]
        chunked = not codings or [each.strip().lower() for each in codings] == [b"chunked"]
        return chunked and cast(Any, self.parser).get_http_version() in {"1.0", "1.1"}

    def _refuse(self, status: int) -> None:
        """Respond to an unreadable request with a problem, and close the connection. Complete
        requests before it get their responses first. A response that is being sent is cut off."""
        before = cast(RequestResponseCycle | None, self.cycle)
        if before is None or (before.response_complete and not before.more_body):
            answers = True
        elif before.more_body:
            answers = not (before.response_started or self.pipeline)
        else:
            self._close_after_answers()
            return
        self._ignores_data = True
        if answers:
            code, detail = FRAMEWORK_ERRORS[status]
            self.transport.write(_encode_refusal(status, code, detail))
        self.transport.close()

    def _close_after_answers(self) -> None:
        self._ignores_data = True
        if self.cycle.response_complete:
            self.transport.close()
        self.cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if not self._is_refused:
            super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def make_limited_protocol(
    max_connections: int, head_seconds: float = HEAD_SECONDS
) -> type[LimitedProtocol]:
    values = {"max_connections": max_connections, "head_seconds": head_seconds}
    return type("Limited", (LimitedProtocol,), values)


def _encode_refusal(status: int, code: str, detail: str, headers: bytes = b"") -> bytes:
    """Return a problem as the complete response of a connection. `headers`: additional header
    lines."""
    request_id = f"req_{uuid4().hex}"
    body = to_json(build_problem(status, code, detail, request_id=request_id))
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nConnection: close\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"X-Request-Id: {request_id}\r\nX-Content-Type-Options: nosniff\r\n"
        "Cache-Control: no-store\r\n"
    )
    return head.encode() + headers + b"\r\n" + body
