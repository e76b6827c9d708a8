"""The event-stream parser reads what the HTML standard says a stream may hold. The client sends the
query that its caller gives."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.services.client import Client, Frame, frames


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["id: 1", "event: run.created", 'data: {"a": 1}', ""],
            [Frame(1, "run.created", {"a": 1})],
        ),
        (["event:message.delta", 'data:{"a":1}', ""], [Frame(None, "message.delta", {"a": 1})]),
        (['data: {"a":', "data: 1}", ""], [Frame(None, "message", {"a": 1})]),
        ([": heartbeat", "", ": heartbeat", ""], []),
        (["retry: 1000", "", "id: 2", "data: {}", ""], [Frame(2, "message", {})]),
        (["id: 3", "data: {}"], []),  # cut off before its end
    ],
)
def test_frames_are_read(lines: list[str], expected: list[Frame]) -> None:
    assert list(frames(lines)) == expected


class _Echo(BaseHTTPRequestHandler):
    """Answers with the path of the request."""

    def do_GET(self) -> None:
        body = json.dumps({"path": self.path}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@pytest.fixture
def client() -> Iterator[Client]:
    with HTTPServer(("127.0.0.1", 0), _Echo) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            with Client(f"http://127.0.0.1:{server.server_port}", "key") as client:
                yield client
        finally:
            server.shutdown()


def test_a_query_in_the_path_is_sent(client: Client) -> None:
    assert client.call("GET", "/runs?limit=2") == {"path": "/runs?limit=2"}
    assert client.call("GET", "/runs?limit=2", wait=None) == {"path": "/runs?limit=2"}
    assert client.call("GET", "/runs", limit=2) == {"path": "/runs?limit=2"}
    with pytest.raises(AssertionError, match="already has a query"):
        client.call("GET", "/runs?limit=2", wait=1)
