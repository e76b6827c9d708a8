"""The webhook tools. They record each request, then respond as its plan says."""

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web

from tests.chaos.load.answers import break_off, cut, drip
from tests.chaos.load.plan import Json, number_of, plan_id_in, plan_of
from tests.checker.evidence import CallbackSent, Log, ToolEnd, ToolHit

KNOWN_FILE: Final = "load.json"
"""Written by the clients before the first run: the API's addresses and the tools' secrets."""
SLOW_SECONDS: Final = 0.4
LATER_SECONDS: Final = 0.2
LATER_SLOW_SECONDS: Final = 1.5
TOO_LATE_SECONDS: Final = 1.8
HANG_SECONDS: Final = 30.0
CALLBACK_ATTEMPTS: Final = 60
CALLBACK_PAUSE_SECONDS: Final = 0.5
CALLBACK_TIMEOUT_SECONDS: Final = 5.0
TOO_LARGE_BYTES: Final = 1_200_000
DEEP: Final = 100


class Known:
    """The clients' `load.json`, read when it is needed first."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / KNOWN_FILE
        self._found: Json | None = None

    def _read(self) -> Json:
        if self._found is None:
            found: Json = orjson.loads(self._path.read_bytes())
            self._found = found
        return self._found

    def secret(self, key: str) -> str | None:
        return self._read()["secrets"].get(key)

    @property
    def apis(self) -> list[str]:
        return self._read()["apis"]


class Tools:
    """Answers `/tools/PROJECT/TOOL` and writes `tools.jsonl`."""

    def __init__(self, log: Log, folder: Path, seed: int) -> None:
        self._log = log
        self._known = Known(folder)
        self._seed = seed
        self._number = 0
        self._active = 0
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(CALLBACK_TIMEOUT_SECONDS))
        self._sending: set[asyncio.Task[None]] = set()

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/tools/{key:.+}", self._called)

    async def close(self) -> None:
        for task in self._sending:
            task.cancel()
        await self._http.close()

    async def _called(self, http: web.Request) -> web.StreamResponse:
        raw = await http.read()
        body: Json = orjson.loads(raw)
        headers = {name.lower(): value for name, value in http.headers.items()}
        is_call = body.get("type") == "tool_call"
        behavior = self._behavior(body) if is_call else "notice"
        key = http.match_info["key"]
        number = self.arrive(key, headers, body, behavior, verified=self._verify(key, raw, headers))
        outcome = "abandoned"
        try:
            response = await ANSWERS[behavior](self, http, body)
            outcome = "abandoned" if behavior in _BROKEN else "answered"
            return response
        finally:
            self.end(number, outcome)

    def arrive(
        self,
        key: str,
        headers: dict[str, str],
        body: Json,
        behavior: str,
        *,
        verified: bool | None = None,
        transport: str = "webhook",
    ) -> int:
        """Write down a hit before anything else happens. Return its number."""
        self._number += 1
        self._active += 1
        self._log.write(
            ToolHit(
                number=self._number,
                at=time.time(),
                key=key,
                headers=headers,
                body=body,
                active=self._active,
                verified=verified,
                behavior=behavior,
                transport=transport,
            )
        )
        return self._number

    def end(self, number: int, outcome: str) -> None:
        self._active -= 1
        self._log.write(ToolEnd(number=number, at=time.time(), outcome=outcome))

    def _behavior(self, body: Json) -> str:
        """Return what the plan says about this attempt. An unplanned call is answered."""
        arguments: Json = body.get("arguments") or {}
        plan_id = plan_id_in(str(arguments.get("plan")))
        if plan_id is None:
            return "answer"
        call = plan_of(self._seed, number_of(plan_id)).calls.get(str(arguments.get("call")))
        return "answer" if call is None else call.behavior(int(body.get("attempt", 1)))

    def _verify(self, key: str, raw: bytes, headers: dict[str, str]) -> bool:
        secret = self._known.secret(key)
        if secret is None:
            return False
        signed = f"{headers.get('webhook-id')}.{headers.get('webhook-timestamp')}.".encode() + raw
        material = base64.b64decode(secret.removeprefix("whsec_"))
        right = b"v1," + base64.b64encode(hmac.digest(material, signed, hashlib.sha256))
        given = headers.get("webhook-signature", "").split()
        return any(hmac.compare_digest(right, one.encode()) for one in given)

    def call_back(self, body: Json, *steps: tuple[float, str, Json]) -> None:
        """Send callbacks one after another: delay in seconds, kind, body."""
        task = asyncio.create_task(self._send_all(body, steps))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_all(self, body: Json, steps: tuple[tuple[float, str, Json], ...]) -> None:
        for delay, kind, said in steps:
            await asyncio.sleep(delay)
            await self.send_callback(body, kind, said)

    async def send_callback(self, body: Json, kind: str, said: Json) -> None:
        """Send one callback until it is answered otherwise than by 503, to one API after
        another: the same result again has no effect."""
        path = "/v1/callbacks/" + body["callback"]["url"].rpartition("/")[2]
        for attempt in range(CALLBACK_ATTEMPTS):
            api = self._known.apis[attempt % len(self._known.apis)]
            try:
                async with self._http.post(f"{api}{path}", json=said) as response:
                    status: int | None = response.status
                    await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError):
                status = None
            self._log.write(
                CallbackSent(time.time(), kind, body["call_id"], status, run_id=body["run_id"])
            )
            if status not in (None, 503):
                return
            await asyncio.sleep(CALLBACK_PAUSE_SECONDS)


Answer = Callable[[Tools, web.Request, Json], Awaitable[web.StreamResponse]]


def _result(body: Json) -> Json:
    return {"call": body["call_id"], "done": True}


def _plain(status: int, text: str, kind: str = "application/json", **headers: str) -> Answer:
    async def answer(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type=kind, headers=headers)

    return answer


async def _succeed(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    return web.json_response(_result(body))


async def _slow(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    await asyncio.sleep(SLOW_SECONDS)
    return web.json_response(_result(body))


async def _hang(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    await asyncio.sleep(HANG_SECONDS)
    return web.Response(status=500)


async def _reset(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    break_off(http)
    return web.Response()


async def _reset_after(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    await asyncio.sleep(LATER_SECONDS)
    break_off(http)
    return web.Response()


async def _cut(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    return await cut(http)


async def _drip(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    return await drip(http)


async def _binary(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    return web.Response(body=bytes(range(256)), content_type="application/octet-stream")


def _accepted(*steps: tuple[float, str, Json | None]) -> Answer:
    """Answer 202 and call back. `None` stands for the call's result."""

    async def answer(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
        done = {"status": "completed", "output": _result(body)}
        tools.call_back(body, *((delay, kind, said or done) for delay, kind, said in steps))
        return web.json_response({}, status=202)

    return answer


async def _early(tools: Tools, http: web.Request, body: Json) -> web.StreamResponse:
    """Call back, and answer 202 a moment later: the callback overtakes it."""
    done = {"status": "completed", "output": _result(body)}
    tools.call_back(body, (0.0, "early", done))
    await asyncio.sleep(LATER_SECONDS)
    return web.json_response({}, status=202)


_PROGRESS: Final[Json] = {"status": "progress", "progress": 0.5, "message": "half"}
_OTHER: Final[Json] = {"status": "completed", "output": "another result"}
ANSWERS: Final[dict[str, Any]] = {
    "answer": _succeed,
    "slow": _slow,
    "hang": _hang,
    "reset_before": _reset,
    "reset_after": _reset_after,
    "cut": _cut,
    "drip": _drip,
    "error_500": _plain(500, "out of order", "text/plain"),
    "error_503": _plain(503, '{"error": "busy"}'),
    "error_429": _plain(429, '{"error": "busy"}'),
    "retry_after": _plain(503, '{"error": "busy"}', **{"Retry-After": "1"}),
    "is_error": _plain(200, json.dumps({"is_error": True, "error": "no such order"})),
    "not_json": _plain(200, '{"half": '),
    "deep": _plain(200, "[" * DEEP + "]" * DEEP),
    "too_large": _plain(200, "x" * TOO_LARGE_BYTES, "text/plain"),
    "empty": _plain(200, "", "text/plain"),
    "binary": _binary,
    "later": _accepted((LATER_SECONDS, "first", None)),
    "later_slow": _accepted((LATER_SLOW_SECONDS, "first", None)),
    "twice": _accepted(
        (LATER_SECONDS, "first", None), (0.0, "again", None), (0.0, "other", _OTHER)
    ),
    "early": _early,
    "failed_later": _accepted((LATER_SECONDS, "first", {"status": "failed", "message": "no"})),
    "progress": _accepted((0.05, "progress", _PROGRESS), (LATER_SECONDS, "first", None)),
    "too_late": _accepted((TOO_LATE_SECONDS, "late", None)),
    "never": _accepted(),
    "notice": _plain(200, "{}"),
}
_BROKEN: Final = frozenset({"reset_before", "reset_after", "cut"})
