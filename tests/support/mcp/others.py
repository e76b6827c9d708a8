"""MCP servers that others wrote, just as they are: a process over streamable HTTP, and a proxy that
notes what is said to one."""

import json
import os
import socket
import subprocess
import threading
import time
from collections import Counter
from types import TracebackType
from typing import Self

import httpx2
from aiohttp import web

from tests.support.services.client import NO_TLS, Json
from tests.support.services.service import free_port
from tests.support.serving import HOLD_SECONDS, MAX_BODY_BYTES, Server

READY_SECONDS = 60.0


class OthersServer:
    """Between `start` and `close`. `{port}` in its arguments and environment is the port; it is
    there once it has printed `ready`."""

    def __init__(self, command: list[str], ready: str, env: dict[str, str] | None = None) -> None:
        self._port = free_port()
        self._command = [one.format(port=self._port) for one in command]
        self._env = {name: one.format(port=self._port) for name, one in (env or {}).items()}
        self._expected = ready
        self._ready = threading.Event()
        self._said: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def start(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            env=os.environ | self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(READY_SECONDS):
            self.close()
            raise TimeoutError(f"{self._command} is not ready: {''.join(self._said)}")
        self._await_port()
        return self

    def _await_port(self) -> None:
        """Some servers print that they are ready before they listen."""
        end = time.monotonic() + READY_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), READY_SECONDS).close()
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return

    def close(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._said.append(line)
                if self._expected in line:
                    self._ready.set()


class Tap(Server):
    """Passes everything on to the server at `target`, both ways and at once."""

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target
        self._changed = threading.Condition()
        self._heard: list[Json] = []

    @property
    def mcp_url(self) -> str:
        return f"{self.url}/mcp"

    def heard(self, method: str) -> list[Json]:
        """The messages of that method, in the order in which they came."""
        with self._changed:
            return [one for one in self._heard if one.get("method") == method]

    def wait_for(self, method: str, count: int = 1) -> list[Json]:
        """The same, as soon as there are so many. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.heard(method)) >= count, HOLD_SECONDS):
                methods = Counter(str(one.get("method")) for one in self._heard)
                raise TimeoutError(f"no {count} of {method}: {dict(methods)}")
            return self.heard(method)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/mcp", self._pass_on)
        return app

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        with self._changed:
            self._heard += [json.loads(body)] if body else []
            self._changed.notify_all()
        headers = [(name, value) for name, value in request.headers.items() if name != "Host"]
        async with (
            httpx2.AsyncClient(trust_env=False, verify=NO_TLS, timeout=None) as http,
            http.stream(request.method, self._target, headers=headers, content=body) as answer,
        ):
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name not in ("transfer-encoding", "content-length", "connection")
            }
            response = web.StreamResponse(status=answer.status_code, headers=kept)
            await response.prepare(request)
            async for chunk in answer.aiter_raw():
                await response.write(chunk)
        return response
