"""A proxy between the service and PostgreSQL that counts what is sent through it.

It reads version 3.0 of PostgreSQL's protocol. Each direction of a connection has a thread, so that
the service's event loop does not schedule anything for the proxy.
"""

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from sqlalchemy import URL, make_url

from tests.budgets.peers import close_socket, start_thread

BUFFER_BYTES: Final = 1_048_576
KEPT_BYTES: Final = 16_384
"""The SQL of a statement is shorter."""
WAIT_SECONDS: Final = 20.0
_CHANGES: Final = re.compile(rb"\b(INSERT|UPDATE|DELETE|pg_notify|NOTIFY)\b", re.IGNORECASE)
_FLUSH: Final = b"SELECT pg_stat_force_next_flush()\0"
_IDLE: Final = b"I"


class Wire:
    """The counts of all connections, and the address for the service."""

    def __init__(self, url: str) -> None:
        self.target = make_url(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._connections: list[_Connection] = []
        self.counts: Counter[str] = Counter()
        self.executed: set[str] = set()
        """The SQL of all statements."""
        self._threads = [start_thread(self._accept)]

    @property
    def url(self) -> str:
        port = self._listening.getsockname()[1]
        through = self.target.difference_update_query(["host", "port"])
        through = through.set(host="127.0.0.1", port=port).update_query_dict({"ssl": "disable"})
        return through.render_as_string(hide_password=False)

    def close(self) -> None:
        """Stop to listen. The service has closed its connections."""
        close_socket(self._listening)
        for thread in self._threads:
            thread.join()

    def flush_statistics(self) -> None:
        """Have the server process of each connection report the rows that it has touched. No
        statement may be in flight."""
        for connection in self._connections:
            connection.flush_statistics()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = _connect(self.target)
                connection = _Connection(client, server, self.counts, self.executed)
                self._connections.append(connection)
                self._threads += map(start_thread, (connection.forward, connection.answer))


class _Connection:
    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        counts: Counter[str],
        executed: set[str],
    ) -> None:
        self._client, self._server, self._counts = client, server, counts
        self._executed = executed
        self._texts: dict[bytes, bytes] = {}
        """SQL of the prepared statements, by name."""
        self._bound = b""
        self._changes = False
        """Whether the current transaction changes data or notifies."""
        self._state = threading.Condition()
        self._pending = 0
        """Requests without a complete response."""
        self._flushing = False
        self._closed = False

    def flush_statistics(self) -> None:
        with self._state:
            self._await(lambda: self._closed or self._pending == 0)
            if self._closed:
                return
            self._flushing = True
            self._server.sendall(b"Q" + (len(_FLUSH) + 4).to_bytes(4, "big") + _FLUSH)
            self._await(lambda: self._closed or not self._flushing)

    def _await(self, condition: Callable[[], bool]) -> None:
        assert self._state.wait_for(condition, WAIT_SECONDS)

    def forward(self) -> None:
        """Copy what the service sends."""
        messages = _Messages(started=False)
        for data in _received(self._client):
            with self._state:
                self._await(lambda: not self._flushing)
                self._counts["bytes to PostgreSQL"] += len(data)
                for kind, body in messages.feed(data):
                    self._count_request(kind, body)
                self._server.sendall(data)
        self._close()

    def _close(self) -> None:
        with self._state:
            self._closed = True
            self._state.notify_all()
        close_socket(self._client)
        close_socket(self._server)

    def _count_request(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"P":
                name, _, rest = body.partition(b"\0")
                self._texts[name] = rest.partition(b"\0")[0]
            case b"B":
                self._bound = self._texts.get(body.split(b"\0", 2)[1], b"")
            case b"E":
                self._count_statement(self._bound)
            case b"Q":
                self._count_statement(body)
                self._count_round_trip()
            case b"S" | b"":
                self._count_round_trip()
            case _:
                pass

    def _count_round_trip(self) -> None:
        self._pending += 1
        self._counts["round trips"] += 1

    def _count_statement(self, sql: bytes) -> None:
        self._counts["statements"] += 1
        self._executed.add(sql.rstrip(b"\0").decode())
        self._changes = self._changes or _CHANGES.search(sql) is not None

    def answer(self) -> None:
        """Copy what PostgreSQL sends."""
        messages = _Messages(started=True)
        with suppress(OSError):
            for data in _received(self._server):
                with self._state:
                    flushing = self._flushing
                    for kind, body in messages.feed(data):
                        if kind == b"Z":
                            self._end_request(body)
                    self._state.notify_all()
                if not flushing:
                    self._client.sendall(data)
        self._close()

    def _end_request(self, status: bytes) -> None:
        if self._flushing:
            self._flushing = False
            return
        self._pending -= 1
        if status == _IDLE:
            self._counts["write transactions"] += self._changes
            self._changes = False


class _Messages:
    """Splits a stream into messages, and keeps only the beginning of each. The service's first
    message has no type."""

    def __init__(self, *, started: bool) -> None:
        self._kept = b""
        self._skipped = 0
        self._started = started

    def feed(self, data: memoryview) -> Iterator[tuple[bytes, bytes]]:
        """Yield the type and the first bytes of each message that is complete, or long enough."""
        while data or self._kept:
            skipped = min(self._skipped, len(data))
            self._skipped, data = self._skipped - skipped, data[skipped:]
            begin = self._kept + bytes(data[:KEPT_BYTES])
            head = 5 if self._started else 4
            if len(begin) < head:
                self._kept = begin
                return
            end = head - 4 + int.from_bytes(begin[head - 4 : head], "big")
            if len(begin) < min(end, KEPT_BYTES):
                self._kept = begin
                return
            used = min(end, len(self._kept) + len(data))
            data = data[used - len(self._kept) :]
            self._kept, self._skipped, self._started = b"", end - used, True
            yield begin[: head - 4], begin[head:end]


def _received(connection: socket.socket) -> Iterator[memoryview]:
    buffer = bytearray(BUFFER_BYTES)
    with suppress(OSError):
        while size := connection.recv_into(buffer):
            yield memoryview(buffer)[:size]


def _connect(target: URL) -> socket.socket:
    folder, port = target.query.get("host"), target.query.get("port")
    if isinstance(folder, str) and folder.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"{folder}/.s.PGSQL.{port or 5432}")
        return connection
    return socket.create_connection((target.host or "127.0.0.1", target.port or 5432))
