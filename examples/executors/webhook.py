"""A shell as a signed webhook, for another machine or container than Runward's.

    SHELL_SECRET=whsec_… ROOT=/srv/workspaces PORT=9000 python webhook.py

Register it with `"type": "webhook", "implements": "shell", "url": "http://127.0.0.1:9000/shell"`;
the answer has the secret. It needs the package `runward_commands` of this repository, which needs
Python 3.11 alone. Each run has a folder of its own below ROOT. A call that is received twice
with the same ID runs once. A cancellation notice ends it.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError, Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runward_commands.shell import run_commands

MAX_AGE_SECONDS = 300
MAX_BODY_BYTES = 1_048_576
MAX_REMEMBERED = 1000
DEFAULT_SECONDS, SPARE_SECONDS = 60.0, 2.0
DEFAULT_BYTES, ALL_BYTES = 8192, 48_000


class Shell:
    """The calls by their globally unique IDs, on an event loop of their own."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self._loop = asyncio.new_event_loop()
        self._calls: dict[str, Future[dict[str, Any]]] = {}
        self._one_at_a_time = threading.Lock()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def answer(self, call_id: str, call: dict[str, Any]) -> dict[str, Any]:
        with self._one_at_a_time:
            if call_id not in self._calls:
                self._calls[call_id] = asyncio.run_coroutine_threadsafe(self._run(call), self._loop)
                for old in list(self._calls)[:-MAX_REMEMBERED]:
                    if self._calls[old].done():
                        del self._calls[old]
        try:
            return self._calls[call_id].result()
        except CancelledError:
            return {"is_error": True, "error": "The call was cancelled."}

    def cancel(self, call_id: str) -> None:
        if call_id in self._calls:
            self._calls[call_id].cancel()

    async def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        arguments = call["arguments"]
        commands, asked = arguments["commands"], arguments.get("max_output_length")
        folder = self._root / Path(call["run_id"]).name
        folder.mkdir(mode=0o700, exist_ok=True)
        output = await run_commands(
            commands,
            folder,
            seconds_each=(arguments.get("timeout_ms") or DEFAULT_SECONDS * 1000) / 1000,
            seconds=call["deadline_ms"] / 1000 - SPARE_SECONDS,
            max_bytes=min(asked or DEFAULT_BYTES, ALL_BYTES // (2 * len(commands))),
        )
        return {"output": output} | ({} if asked is None else {"max_output_length": asked})


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> bool:
    """Return whether the request has a valid signature (Standard Webhooks). `webhook-signature`
    has `v1,` and the base64 of an HMAC-SHA-256 over ID, timestamp and body, once per secret."""
    call_id, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isdigit() or abs(time.time() - int(sent_at)) > MAX_AGE_SECONDS:
        return False
    signed = f"{call_id}.{sent_at}.".encode() + body
    given = [one[3:] for one in headers.get("webhook-signature", "").split() if one[:3] == "v1,"]
    for secret in secrets:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        right = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if any(hmac.compare_digest(one.encode(), right.encode()) for one in given):
            return True
    return False


def make_server(port: int, root: Path, secrets: Iterable[str]) -> ThreadingHTTPServer:
    """Return a server that listens on HOST, by default 127.0.0.1. Call `serve_forever`."""
    shell, known = Shell(root), list(secrets)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if self.path != "/shell":
                return self.answer(404, {"error": "no such tool"})
            if not is_signed(headers, body, known):
                return self.answer(401, {"error": "the signature is not valid"})
            call = json.loads(body)
            if call["type"] == "tool_call":
                return self.answer(200, shell.answer(headers["webhook-id"], call))
            if call["type"] == "tool_call.cancelled":
                shell.cancel(headers["webhook-id"].removesuffix("_cancelled"))
            return self.answer(200, {})

        def answer(self, status: int, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Do not log requests, because commands may be confidential."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    return Server((os.environ.get("HOST", "127.0.0.1"), port), Handler)


def main() -> None:
    server = make_server(
        int(os.environ.get("PORT", "9000")),
        Path(os.environ["ROOT"]),
        os.environ.get("SHELL_SECRET", "").split(),
    )
    print(f"Listening on http://127.0.0.1:{server.server_port}/shell", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
