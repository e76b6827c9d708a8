"""A webhook server that does what a test tells it, well or badly, and keeps its own log of hits.

In a test: `with ToolServer() as tools: tools.tool("a", Behaviour("echo"))`, then register the URL
`tools.url_of("a")`. As a process of its own, driven over HTTP by `tests.support.tools.process`:

    python -m tests.support.tools.server --port 9200 --log hits.jsonl [--tools tools.json]
"""

import argparse
import asyncio
import json
import os
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.serving import HOLD_SECONDS, MAX_BODY_BYTES, Hold, Server
from tests.support.tools import hits
from tests.support.tools.hits import Hit

MEET_SECONDS = 5.0
CHUNK = b"x" * 65_536


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One way to answer. First `meet` calls must be in flight (bounded), then `hold` (a name) must
    be released, then `sleep` seconds pass, then `kind` says what comes back:

    echo: text `tool(value)`; return: `value` as JSON; raw: `value` as the body with `content_type`;
    raise, raise_cancelled: 500 with `message`; raise_timeout: 504; is_error: an error as a result;
    later: 202; redirect: 307 to `value`; invalid_json; reset; truncated; drip: `size` bytes, one
    every 50 ms; huge: `size` bytes of text. `status` and `headers` override.
    """

    kind: str = "echo"
    value: Any = None
    message: str = "boom"
    sleep: float = 0.0
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    content_type: str = "text/plain"
    size: int = 0
    meet: int = 0
    hold: str | None = None


Plain: TypeAlias = tuple[int, str, str]
"""Status, content type, body."""

Witness: TypeAlias = Callable[[Hit], Awaitable[bool]]
"""Answers whether an outside reader already sees that this attempt was started."""


class ToolServer(Server):
    def __init__(
        self, port: int = 0, log: Path | None = None, witness: Witness | None = None
    ) -> None:
        super().__init__(port)
        self._log = log
        self.witness = witness
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._behaviours: dict[str, tuple[Behaviour, ...]] = {}
        self._secrets: dict[str, tuple[str, ...]] = {}
        self._holds: dict[str, Hold] = {}
        self._seen: Counter[str] = Counter()
        self._number = 0
        self._active = 0
        self._peak = 0
        self._met = asyncio.Event()

    @property
    def peak(self) -> int:
        """The most tool calls that were in flight at once."""
        return self._peak

    def tool(self, key: str, *behaviours: Behaviour) -> str:
        """The n-th hit of `key` gets the n-th behaviour, all later ones the last. The URL."""
        self._behaviours[key] = behaviours or (Behaviour(),)
        return self.url_of(key)

    def url_of(self, key: str) -> str:
        return f"{self.url}/tools/{key}"

    def secrets(self, key: str, *secrets: str) -> None:
        """From now on requests for `key` must bear a signature by one of these."""
        self._secrets[key] = secrets

    def hold(self, name: str) -> Hold:
        with self._changed:
            return self._holds.setdefault(name, Hold())

    def all_hits(self) -> list[Hit]:
        """Everything that arrived, notices and guardrails too."""
        with self._changed:
            lines = list(self._lines)
        return hits.fold(lines)

    def hits(self, key: str | None = None) -> list[Hit]:
        return [
            hit for hit in self.all_hits() if hit.type == "tool_call" and key in (None, hit.key)
        ]

    def wait_for(self, key: str, count: int = 1, timeout: float = HOLD_SECONDS) -> list[Hit]:
        """The hits of `key` as soon as there are `count`. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen[key] >= count, timeout):
                raise TimeoutError(f"{self._seen[key]} of {count} hits of {key}")
        return self.hits(key)

    def until(
        self, true_of: Callable[[list[Hit]], bool], timeout: float = HOLD_SECONDS
    ) -> list[Hit]:
        """All hits as soon as `true_of` them. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: true_of(hits.fold(self._lines)), timeout):
                raise TimeoutError(f"still {hits.fold(self._lines)}")
        return self.all_hits()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_route("*", "/tools/{key:.+}", self._called)
        app.router.add_put("/control/tools/{key}", self._control_tool)
        app.router.add_get("/control/hits", self._control_hits)
        app.router.add_get("/control/holds/{name}/{count}", self._control_arrived)
        app.router.add_delete("/control/holds/{name}", self._control_release)
        return app

    async def _called(self, http: web.Request) -> web.StreamResponse:
        key, raw = http.match_info["key"], await http.read()
        headers = {name.lower(): value for name, value in http.headers.items()}
        hit = Hit(0, time.time(), key, headers, _json_object(raw), self._active + 1)
        hit.verified = self._verify(key, raw, headers)
        counts = hit.type == "tool_call"
        hit.number = number = self._arrive(hit)
        outcome = "abandoned"
        try:
            if self.witness is not None and counts:
                seen = await self.witness(hit)
                self._write({"line": "seen", "number": number, "started_seen": seen})
            if not counts and key not in self._behaviours:
                return web.json_response({})
            response = await self._behave(http, hit)
            outcome = "answered"
            return response
        finally:
            self._active -= counts
            self._write({"line": "end", "number": number, "at": time.time(), "outcome": outcome})

    def _verify(self, key: str, raw: bytes, headers: dict[str, str]) -> bool | None:
        if key not in self._secrets:
            return None
        for secret in self._secrets[key]:
            try:
                Webhook(secret).verify(raw, headers, json_parse=False)
            except WebhookVerificationError:
                continue
            return True
        return False

    def _arrive(self, hit: Hit) -> int:
        with self._changed:
            self._number += 1
            hit.number = self._number
            if hit.type == "tool_call":
                self._active += 1
                self._peak = max(self._peak, self._active)
            if hit.type in ("tool_call", "guardrail", "hook"):
                self._seen[hit.key] += 1
            self._append(json.dumps({"line": "hit", **asdict(hit)}))
            self._changed.notify_all()
        self._met.set()
        self._met = asyncio.Event()
        return hit.number

    def _write(self, line: dict[str, Any]) -> None:
        with self._changed:
            self._append(json.dumps(line))
            self._changed.notify_all()

    def _append(self, line: str) -> None:
        self._lines.append(line)
        if self._log is not None:
            with self._log.open("a") as log:
                log.write(line + "\n")

    async def _behave(self, http: web.Request, hit: Hit) -> web.StreamResponse:
        behaviours = self._behaviours.get(hit.key)
        if behaviours is None:
            return web.json_response({"error": f"no tool {hit.key!r} here"}, status=404)
        behaviour = behaviours[min(self._seen[hit.key], len(behaviours)) - 1]
        await self._meet(behaviour.meet)
        if behaviour.hold is not None:
            await self.hold(behaviour.hold).reach()
        await asyncio.sleep(behaviour.sleep)
        return await _answer(http, hit, behaviour)

    async def _meet(self, count: int) -> None:
        try:
            async with asyncio.timeout(MEET_SECONDS):
                while self._peak < count:
                    await self._met.wait()
        except TimeoutError:
            pass  # the test will see that they never met

    async def _control_tool(self, http: web.Request) -> web.Response:
        """`{"behaviours": […], "secrets": […]}`, each optional."""
        wanted, key = await http.json(), http.match_info["key"]
        if "behaviours" in wanted:
            self.tool(key, *(Behaviour(**behaviour) for behaviour in wanted["behaviours"]))
        if "secrets" in wanted:
            self.secrets(key, *wanted["secrets"])
        return web.json_response({"url": self.url_of(key)})

    async def _control_hits(self, http: web.Request) -> web.Response:
        return web.json_response([asdict(hit) for hit in self.all_hits()])

    async def _control_arrived(self, http: web.Request) -> web.Response:
        hold, count = self.hold(http.match_info["name"]), int(http.match_info["count"])
        await asyncio.to_thread(hold.arrived, count)
        return web.json_response({})

    async def _control_release(self, http: web.Request) -> web.Response:
        self.hold(http.match_info["name"]).release()
        return web.json_response({})


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}  # pyright: ignore[reportUnknownVariableType]


async def _answer(http: web.Request, hit: Hit, behaviour: Behaviour) -> web.StreamResponse:
    if behaviour.kind in ("reset", "truncated", "drip", "huge"):
        return await _answer_badly(http, behaviour)
    status, content_type, body = _PLAIN[behaviour.kind](hit, behaviour)
    headers = {"Location": str(behaviour.value)} if behaviour.kind == "redirect" else {}
    return web.Response(
        status=behaviour.status or status,
        body=body.encode(),
        content_type=content_type,
        headers={**headers, **behaviour.headers},
    )


def _echo(hit: Hit, _: Behaviour) -> Plain:
    return 200, "text/plain", f"{hit.tool}({next(iter(hit.arguments.values()), '')})"


def _is_error(_: Hit, behaviour: Behaviour) -> Plain:
    error = {"is_error": True, "content": [{"type": "text", "text": behaviour.message}]}
    return 200, "application/json", json.dumps(error)


_PLAIN: dict[str, Callable[[Hit, Behaviour], Plain]] = {
    "echo": _echo,
    "return": lambda _, it: (200, "application/json", json.dumps(it.value)),
    "raw": lambda _, it: (200, it.content_type, str(it.value)),
    "raise": lambda _, it: (500, "text/plain", it.message),
    "raise_cancelled": lambda _, it: (500, "text/plain", it.message),
    "raise_timeout": lambda _, it: (504, "text/plain", it.message),
    "is_error": _is_error,
    "later": lambda _, it: (202, "application/json", json.dumps(it.value or {})),
    "redirect": lambda _, it: (307, "text/plain", ""),
    "invalid_json": lambda _, it: (200, "application/json", '{"half": '),
}


async def _answer_badly(http: web.Request, behaviour: Behaviour) -> web.StreamResponse:
    response = web.StreamResponse(
        status=behaviour.status or 200, headers={"Content-Type": "text/plain", **behaviour.headers}
    )
    match behaviour.kind:
        case "reset":
            _reset(http)
        case "truncated":
            response.content_length = 1000
            await response.prepare(http)
            await response.write(b"only the beg")
            if http.transport is not None:
                http.transport.close()
        case "drip":
            await response.prepare(http)
            for _ in range(behaviour.size):
                await response.write(b".")
                await asyncio.sleep(0.05)
        case _:
            await response.prepare(http)
            for _ in range(0, behaviour.size, len(CHUNK)):
                await response.write(CHUNK)
    return response


def _reset(http: web.Request) -> None:
    """Ends the connection with RST, not FIN."""
    if http.transport is None:
        return
    connection: socket.socket = http.transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    http.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True, help="hits are appended here")
    parser.add_argument("--tools", type=Path, help='JSON: {"name": [behaviour, …], …}')
    options = parser.parse_args()
    server = ToolServer(options.port, options.log)
    if options.tools is not None:
        for key, behaviours in json.loads(options.tools.read_text()).items():
            server.tool(key, *(Behaviour(**behaviour) for behaviour in behaviours))
    with server:
        print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True)
        server.join()


if __name__ == "__main__":
    main()
