"""A tool that says exactly these bytes and hangs up: what no HTTP library would send."""

import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager

MAX_HEAD_BYTES = 65_536


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Server)
        length = 0
        while (line := self.rfile.readline(MAX_HEAD_BYTES)).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        self.rfile.read(length)
        self.server.hits += 1
        self.wfile.write(self.server.says)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, says: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.says = says
        self.hits = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


@contextmanager
def saying(says: bytes) -> Generator[_Server]:
    """A server whose `url` answers every request with `says`; `hits` counts them."""
    with _Server(says) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """`length`: what Content-Length says, where that is not the truth."""
    said = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {said}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body
