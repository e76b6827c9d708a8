"""A wire between a client and a service that a test can cut."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

WAIT_SECONDS = 60.0


class TcpRelay:
    """`url` leads to the service. New connections are taken also after a cut."""

    def __init__(self, to: str) -> None:
        parts = urlsplit(to)
        assert parts.hostname is not None and parts.port is not None
        self._to = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Condition()
        self._taken = 0
        self._open: list[socket.socket] = []
        self._carrying: list[threading.Thread] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> int:
        """All connections of now; how many."""
        with self._lock:
            cut, self._open = self._open, []
        for one in cut:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        return len(cut)

    def wait_for(self, count: int) -> None:
        """Until so many connections were taken, those that were cut included."""
        with self._lock:
            assert self._lock.wait_for(lambda: self._taken >= count, WAIT_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join()
        for one in self._carrying:
            one.join()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._carrying.append(threading.Thread(target=self._carry, args=(client,)))
            self._carrying[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._to) as service:
            with self._lock:
                self._open.append(client)
                self._taken += 1
                self._lock.notify_all()
            back = threading.Thread(target=_pump, args=(service, client), daemon=True)
            back.start()
            _pump(client, service)
            back.join()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65_536):
            target.sendall(piece)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
