"""Requests and responses over HTTP/1.1 connections.

A connection carries one exchange at a time: a request, and its response, which a reader receives
while it arrives. Nothing waits between two parts of a response, so that an exchange wakes its task
only once. httptools parses the responses, as it parses the requests to Runward's own API. It
rejects ambiguous lengths and invalid characters. This module limits everything else.
"""

import asyncio
import select
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

MAX_FIELD_BYTES: Final = 8190
MAX_FIELDS: Final = 128
"""Maximum number of headers and trailers of a response."""
MAX_QUIET_BYTES: Final = 128 * 1024
"""Maximum number of bytes of a head or of trailers, which the parser keeps until a header is
complete."""
DRAIN_SECONDS: Final = 0.25
"""Seconds to wait for the end of a response whose reader is done, so that its connection can be
reused."""

HeaderFields: TypeAlias = list[tuple[bytes, bytes]]
"""The headers of a response, with names in lower case."""


class BrokenResponseError(ConnectionError):
    """Raised if a response is not valid or not complete. The message repeats nothing of it."""


class ResponseReader(Protocol):
    """Reads a response. If a method raises an exception, the exchange ends with this exception.
    `done`: the rest of the response does not matter. `sent` is set before the first byte of the
    request is sent."""

    done: bool
    sent: bool

    def begin(self, status: int, fields: HeaderFields) -> None: ...

    def feed(self, data: bytes) -> bool:
        """Read content. Returns whether a part of it is left. Then the connection pauses, and calls
        `feed(b"")` after other tasks have run."""
        ...


def format_head(method: str, target: str, authority: str, headers: Mapping[str, str]) -> bytes:
    """Return a request without its body and the length of the body. `authority`: the value of the
    `Host` header. Raises ValueError if a header contains a line break."""
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if fields.count("\n") != len(headers) or fields.count("\r") != len(headers) or "\0" in fields:
        raise ValueError("a header contains a character that is not allowed")
    return f"{method} {target} HTTP/1.1\r\nHost: {authority}\r\n{fields}".encode()


def add_body(head: bytes, body: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def read_fields(fields: HeaderFields, names: Collection[bytes]) -> dict[str, str]:
    """Return the headers with these names. The values of repeated headers are joined."""
    found: dict[str, str] = {}
    for raw, content in fields:
        if raw in names:
            name, value = raw.decode(), content.decode(errors="replace")
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


class HttpConnection(asyncio.Protocol):
    """An open connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.keeps_alive = True
        """Whether the server keeps the connection open after the current response."""
        self._exchange: _Exchange | None = None
        self._is_new = True
        self._early = b""
        """The beginning of a response that arrived before the first request was sent."""
        self._poll = select.poll()

    async def exchange(self, request: bytes, reader: ResponseReader) -> None:
        """Send a request, and pass its response to `reader`. Raises BrokenResponseError, and the
        exceptions of `reader`. After an exception or a cancellation, the connection is closed."""
        exchange = self._exchange = _Exchange(self, reader)
        self._is_new = False
        reader.sent = True
        if self.transport is not None:
            self.transport.write(request)
        if self._early:
            exchange.parse(self._early)
            self._early = b""
        if self.is_closing:
            exchange.cut_off(None)
        try:
            await exchange.ended
        except BaseException:
            self.close()
            raise
        finally:
            self._exchange = None
            exchange.release()

    @property
    def is_closing(self) -> bool:
        return self.transport is None or self.transport.is_closing()

    def can_be_reused(self) -> bool:
        """Return whether the connection is open, and the server has sent nothing since the last
        response. Otherwise, a request could be lost or get a wrong response."""
        return self.keeps_alive and not self.is_closing and not self._poll.poll(0)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        if self._exchange is not None:
            self._exchange.parse(data)
        elif self._is_new and len(self._early) + len(data) < MAX_QUIET_BYTES:
            self._early += data
        else:  # It is not the response to any request.
            self.close()

    def eof_received(self) -> None:
        if self._exchange is not None:
            self._exchange.cut_off(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._exchange is not None:
            self._exchange.cut_off(exc)


class _Exchange:
    """The response to one request. httptools calls the methods whose names begin with `on_`."""

    __slots__ = (
        "_backlog",
        "_connection",
        "_counts",
        "_draining",
        "_fields",
        "_has_begun",
        "_loop",
        "_next",
        "_parser",
        "_quiet",
        "_reader",
        "ended",
    )

    def __init__(self, connection: HttpConnection, reader: ResponseReader) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._connection = connection
        self._reader = reader
        self._fields: HeaderFields = []
        self._has_begun = False
        self._counts = True
        """Whether bytes count towards MAX_QUIET_BYTES."""
        self._quiet = 0
        self._backlog: list[bytes] | None = None
        """Content that arrived before the reader read the content before it."""
        self._next: Callable[[], None] | None = None
        """What follows the content: the end of the response, or the end of the connection."""
        self._draining: asyncio.TimerHandle | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)

    def parse(self, data: bytes) -> None:
        if self._parser is None or self.ended.done():
            self._connection.close()
            return
        if self._counts:
            self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._connection.close()
            self._end(BrokenResponseError(f"the response is not valid HTTP ({error})"))
        if self._quiet > MAX_QUIET_BYTES:
            self._end(BrokenResponseError("the response has too large a head"))
        self._go_on()

    def cut_off(self, error: Exception | None) -> None:
        """End the response, because its connection has ended. A body without a length is complete
        then."""
        if self._backlog is not None:
            self._next = self._next or partial(self.cut_off, error)
        elif self._has_begun and error is None and not _has_length(self._fields):
            self._end()
        else:
            self._end(BrokenResponseError("the server closed the connection"))

    def release(self) -> None:
        """Stop the timer, and drop what refers to this object. Without such cycles, objects are
        freed at once, and not by a garbage collection that stops all runs."""
        self._parser = self._next = None
        if self._draining is not None:
            self._draining.cancel()

    def _is_over(self) -> bool:
        """Return whether the parser reads bytes after the end of the response."""
        return self._next is not None or self.ended.done()

    def on_message_begin(self) -> None:
        if self._is_over():  # The server sent a second response.
            self._connection.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_over():
            return
        if max(len(name), len(value)) > MAX_FIELD_BYTES or len(self._fields) >= MAX_FIELDS:
            self._end(BrokenResponseError("the response has too many or too large headers"))
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_over():
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        if status < 200 and status != 101:  # The response itself follows.
            self._fields.clear()
            self._quiet = 0
            return
        self._has_begun = True
        self._counts = False
        self._connection.keeps_alive = self._parser.should_keep_alive()
        try:
            self._reader.begin(status, self._fields)
        except Exception as error:
            self._end(error)
        if status == 101:  # The bytes that follow are not HTTP.
            self._leave()

    def on_chunk_header(self) -> None:
        self._counts = True  # Trailers follow the last chunk.
        self._quiet = 0

    def on_chunk_complete(self) -> None:
        self._counts = False

    def on_body(self, data: bytes) -> None:
        self._quiet = 0
        if self._is_over():
            return
        if self._backlog is None:
            self._feed(data)
        else:
            self._backlog.append(data)

    def on_message_complete(self) -> None:
        if self._has_begun and not self._is_over():
            self._next = self._end

    def _feed(self, data: bytes) -> None:
        try:
            is_left = self._reader.feed(data)
        except Exception as error:
            self._end(error)
            return
        if is_left:
            self._backlog = []
            if (transport := self._connection.transport) is not None:
                transport.pause_reading()
            self._loop.call_soon(self._continue)

    def _continue(self) -> None:
        """Pass the rest of the content to the reader."""
        if self.ended.done():
            return
        data, self._backlog = b"".join(self._backlog or ()), None
        self._feed(data)
        transport = self._connection.transport
        if self._backlog is None and transport is not None and not transport.is_closing():
            transport.resume_reading()
        self._go_on()

    def _go_on(self) -> None:
        """End the response if it is complete. If the reader is done, limit the wait for this."""
        if self._backlog is not None or self.ended.done():
            return
        if self._next is not None:
            self._next()
        elif self._reader.done and self._draining is None:
            self._draining = self._loop.call_later(DRAIN_SECONDS, self._leave)

    def _leave(self) -> None:
        self._connection.close()
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        if self.ended.done():
            return
        transport = self._connection.transport
        if error is not None or (transport is not None and transport.get_write_buffer_size()):
            self._connection.close()
        if error is None or self._reader.done:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)


def _has_length(fields: HeaderFields) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in fields)
