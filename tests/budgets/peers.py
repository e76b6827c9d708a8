"""The model, the webhook tool and the client of the measured runs, on threads with blocking
sockets. They send prepared bytes, and so use almost no memory while a run is measured."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

from bench import fake_model

Json: TypeAlias = dict[str, Any]

BUFFER_BYTES: Final = 4_194_304
ANSWER_SECONDS: Final = 20.0
RECEIVED_BYTES: Final = 65_536
_HEAD_END: Final = b"\r\n\r\n"
_STREAM_END: Final = b"0\r\n\r\n"


class ModelAndTool:
    """A server that answers at once: a model that first requests `calls` tool calls and then
    answers with `words` words, and a webhook tool. The tool answers when all calls have arrived.
    `run_in_service` calls a function in the service's thread, so that the service receives all
    results at the same time."""

    def __init__(self, run_in_service: Callable[[Callable[[], object]], object]) -> None:
        self._run_in_service = run_in_service
        self._lock = threading.Lock()
        self._waiting: list[socket.socket] = []
        self._calls = 1
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._requests = self._answer = b""
        self._result = _response(b'{"ok":true,"result":"42"}', "application/json")
        self._threads = [start_thread(self._accept)]

    def close(self) -> None:
        """Stop to listen. The service has closed its connections."""
        close_socket(self._listening)
        for thread in self._threads:
            thread.join()

    def prepare(self, *, tool: str, calls: int, words: int, letters: int = 0) -> None:
        """`letters`: the length of each word, if it is not a short one."""
        self._calls = calls
        query: Json = {"properties": {"query": {}}}
        definition: Json = {"function": {"name": tool, "parameters": query}}
        self._requests = _stream(fake_model.Script(k=calls), tools=[definition])
        self._answer = _stream(fake_model.Script(words=words))
        if letters:
            self._answer = _response(_frame("x" * letters) * words + _last_frames(), _EVENTS)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                self._threads.append(start_thread(partial(self._serve, connection)))

    def _serve(self, connection: socket.socket) -> None:
        received = b""
        with connection, suppress(OSError):
            while data := connection.recv(RECEIVED_BYTES):
                received += data
                while (end := _request_end(received)) is not None:
                    request, received = received[:end], received[end:]
                    if request.startswith(b"POST /tool "):
                        self._answer_call(connection)
                    else:
                        connection.sendall(self._respond(request))

    def _answer_call(self, connection: socket.socket) -> None:
        with self._lock:
            self._waiting.append(connection)
            if len(self._waiting) == self._calls:
                waiting, self._waiting = self._waiting, []
                self._run_in_service(lambda: [one.send(self._result) for one in waiting])

    def _respond(self, request: bytes) -> bytes:
        wants_tools = b'"tools":' in request and b'"role":"tool"' not in request
        return self._requests if wants_tools else self._answer


_EVENTS: Final = "text/event-stream"


def _stream(script: fake_model.Script, tools: list[Any] | None = None) -> bytes:
    directives = f"[[k={script.k} words={script.words}]]"
    request = {
        "model": "fake",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": directives}],
        **({"tools": tools} if tools else {}),
    }
    return _response(b"".join(fake_model.complete(request).chunks), _EVENTS)


def _frame(word: str) -> bytes:
    return _event({"choices": [{"index": 0, "delta": {"content": word}}]})


def _last_frames() -> bytes:
    usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    end = _event({"choices": [{"index": 0, "finish_reason": "stop"}]})
    return end + _event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _response(body: bytes, media_type: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}"
    return head.encode() + _HEAD_END + body


def _request_end(received: bytes) -> int | None:
    """Return the length of the first request, or None if it is incomplete."""
    head, found, _ = received.partition(_HEAD_END)
    if not found:
        return None
    end = len(head) + 4 + _content_length(head)
    return end if len(received) >= end else None


def _content_length(head: bytes) -> int:
    lengths = (line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(next(lengths, b":0").partition(b":")[2])


def start_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def close_socket(opened: socket.socket) -> None:
    """Close a socket that another thread may be waiting for."""
    with suppress(OSError):
        opened.shutdown(socket.SHUT_RDWR)
    opened.close()


class Client:
    """One HTTP connection to the service."""

    def __init__(self, address: tuple[str, int], key: str) -> None:
        self._connection = socket.create_connection(address, ANSWER_SECONDS)
        self._headers = f"host: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        self._buffer = bytearray(BUFFER_BYTES)
        self.received_bytes = 0

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        self._send("POST", path, body)
        size, at = self._read_answer()
        return json.loads(self._buffer[at:size])

    def stream(self, path: str, body: Mapping[str, Any]) -> None:
        """Start a run and read its events to the end."""
        self._send("POST", path, body, "accept: text/event-stream\r\n")
        self.read_events()

    def read_events(self) -> None:
        """Read the events to the end of the run."""
        size = self._receive(_STREAM_END, at_end=True)
        assert self._buffer.find(b"\nevent: run.completed\n", 0, size) > 0, self._buffer[
            max(0, size - 1000) : size
        ]

    def _send(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, headers: str = ""
    ) -> None:
        content = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            headers += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}{headers}\r\n"
        self._connection.sendall(head.encode() + content)

    def _read_answer(self) -> tuple[int, int]:
        """Return the size of a response, and where its body begins."""
        size = self._receive(_HEAD_END)
        at = self._buffer.find(_HEAD_END) + 4
        head = bytes(self._buffer[:at])
        end = at + _content_length(head)
        while size < end:
            size += self._receive_more(size)
        assert int(head.split(b" ", 2)[1]) < 300, self._buffer[:1000]
        return size, at

    def _receive(self, marker: bytes, *, at_end: bool = False) -> int:
        """Read until the marker arrives. Return the number of bytes."""
        size = 0
        while True:
            size += self._receive_more(size)
            begin = max(0, size - len(marker)) if at_end else 0
            if self._buffer.find(marker, begin, size) >= 0:
                return size

    def _receive_more(self, size: int) -> int:
        count = self._connection.recv_into(memoryview(self._buffer)[size:])
        assert count, "The service closed the connection."
        self.received_bytes += count
        return count
