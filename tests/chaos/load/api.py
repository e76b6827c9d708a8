"""An HTTP client of several API processes. It records each exchange and each SSE frame."""

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from tests.chaos.load.plan import Json
from tests.checker.evidence import Exchange, Frame, Log, StreamEnd

TIMEOUT_SECONDS: Final = 20.0
SILENCE_SECONDS: Final = 5.0
"""After so long without a frame, the reader comes back through another API."""
PAUSE_SECONDS: Final = 0.3
LONGEST_RETRY_AFTER: Final = 2.0
SHOWN_CHARS: Final = 4096
MAX_FRAME_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class Answer:
    """`status`: `None` without an answer."""

    status: int | None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def accepted(self) -> bool:
        return self.status is not None and self.status < 300

    @property
    def code(self) -> str:
        """The code of a problem, or an empty text."""
        try:
            return str(self.body["code"])
        except (KeyError, TypeError):
            return ""


@dataclass(frozen=True, slots=True)
class Client:
    """`name` and `plan` are for the evidence."""

    name: str
    bearer: str
    plan: str | None = None

    def headers(self, key: str | None) -> dict[str, str]:
        authorized = {"Authorization": f"Bearer {self.bearer}"}
        return authorized if key is None else authorized | {"Idempotency-Key": key}


class Api:
    """`apis`: base URLs, which are used in turn. Counts what the summary shows."""

    def __init__(self, folder: Path, apis: list[str]) -> None:
        self.apis = apis
        self.statuses: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self._turns = itertools.cycle(range(len(apis)))
        self._exchanges = Log(folder, "http.jsonl")
        self._frames = Log(folder, "streams.jsonl")
        self._streams = itertools.count(1)
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=True,
        )

    async def close(self) -> None:
        await self._http.close()

    def next_api(self) -> int:
        return next(self._turns)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        client: Client,
        key: str | None = None,
        race: str | None = None,
        api: int | None = None,
    ) -> Answer:
        """Send one request, once. If there is no answer in time, the connection is closed."""
        api = self.next_api() if api is None else api % len(self.apis)
        headers = client.headers(key)
        at, error, answer = time.time(), None, Answer(None)
        try:
            async with (
                asyncio.timeout(TIMEOUT_SECONDS),
                self._http.request(
                    method, self.apis[api] + path, json=body, headers=headers
                ) as response,
            ):
                raw = await response.read()
                answer = Answer(response.status, _parsed(raw), dict(response.headers))
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        self._exchanges.write(
            Exchange(
                at=at,
                ended_at=time.time(),
                client=f"{client.name}@{api}",
                method=method,
                path=path,
                status=answer.status,
                request=body,
                response=answer.body,
                idempotency_key=key,
                error=error,
                plan=client.plan,
                race=race,
            )
        )
        self._count(method, path, answer, error)
        return answer

    def _count(self, method: str, path: str, answer: Answer, error: str | None) -> None:
        kind = "no answer" if answer.status is None else str(answer.status)
        self.statuses[kind] += 1
        if answer.status is not None and answer.status >= 500 and answer.status != 503:
            self.unexpected.append(f"{method} {path}: {answer.status} {answer.body}")

    async def insist(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        """Send it until it is answered: no answer, 503, 429 and a key that is in flight are tried
        again through the next API. Only for requests that may be repeated; the caller bounds the
        time."""
        api = more.pop("api", None)
        api = self.next_api() if api is None else api
        while True:
            answer = await self.send(method, path, body, api=api, **more)
            in_flight = answer.status == 409 and answer.code == "idempotency_in_flight"
            if answer.status not in (None, 429, 503) and not in_flight:
                return answer
            self.counts["requests sent again"] += 1
            await asyncio.sleep(_pause(answer))
            api += 1

    async def abandon(
        self, path: str, body: Any, *, half: bool, client: Client, key: str | None
    ) -> None:
        """POST and close the connection: in the middle of the body (`half`), or without reading
        the answer."""
        api = self.next_api()
        url = urlsplit(self.apis[api])
        raw = orjson.dumps(body)
        headers = client.headers(key) | {
            "Host": url.netloc,
            "Content-Type": "application/json",
            "Content-Length": str(len(raw)),
        }
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        head = "\r\n".join([*lines, "", ""]).encode()
        at = time.time()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(url.hostname, url.port)
                writer.write(head + (raw[: len(raw) // 2] if half else raw))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        self.counts[
            "requests closed before the end of the body"
            if half
            else "requests closed before the response"
        ] += 1
        self._exchanges.write(
            Exchange(
                at=at,
                ended_at=time.time(),
                client=f"{client.name}@{api}",
                method="POST",
                path=path,
                status=None,
                request=body,
                idempotency_key=key,
                error="the client closed the connection",
                plan=client.plan,
            )
        )

    async def stream(
        self,
        path: str,
        run_id: str,
        after: int,
        *,
        client: Client,
        method: str = "GET",
        body: Any = None,
        key: str | None = None,
    ) -> AsyncGenerator[tuple[int | None, str, Json]]:
        """Read one SSE connection: (sequence number, type, data) of each frame. It ends with the
        connection, whichever way. With POST the run's id is taken from the first event."""
        name = f"s{next(self._streams)}"
        headers = client.headers(key) | {"Accept": "text/event-stream"}
        headers |= {"Last-Event-ID": str(after)} if after else {}
        at, closed, status, error = time.time(), "client", None, None
        shown: Any = None
        api = self.next_api()
        try:
            async with self._http.request(
                method, self.apis[api] + path, json=body, headers=headers
            ) as response:
                status = response.status
                if status != 200:
                    shown, closed = _parsed(await response.read()), f"status {status}"
                    return
                async with aclosing(_frames(response.content)) as frames:
                    async for event_id, event, data in frames:
                        parsed: Json = json.loads(data)
                        run_id = run_id or parsed["run_id"]
                        self._frames.write(
                            Frame(time.time(), name, run_id, after, event, data, event_id)
                        )
                        yield None if event_id is None else int(event_id), event, parsed
            closed = "server"
        except (aiohttp.ClientError, TimeoutError, OSError) as problem:
            error = closed = f"{type(problem).__name__}: {problem}"
        finally:
            if status == 200:
                self._frames.write(StreamEnd(time.time(), name, closed))
            self._exchanges.write(
                Exchange(
                    at=at,
                    ended_at=time.time(),
                    client=f"{client.name}@{api}",
                    method=method,
                    path=path,
                    status=status,
                    request=body,
                    response=shown,
                    idempotency_key=key,
                    error=error,
                    plan=client.plan,
                )
            )
            self._count(method, path, Answer(status, shown), error)
            self.counts["streams"] += 1


async def _frames(content: aiohttp.StreamReader) -> AsyncGenerator[tuple[str | None, str, str]]:
    """Yield (id, event, data) by the rules of the HTML standard, as far as the service uses them.
    Raises TimeoutError after a silence."""
    waiting = b""
    while True:
        async with asyncio.timeout(SILENCE_SECONDS):
            chunk = await content.readany()
        if not chunk:
            return
        waiting += chunk
        if len(waiting) > MAX_FRAME_BYTES:
            raise OSError("a frame is too large")
        *whole, waiting = waiting.split(b"\n\n")
        for text in whole:
            found = dict(
                line.split(": ", 1)
                for line in text.decode().split("\n")
                if not line.startswith(":") and ": " in line
            )
            if "data" in found:
                yield found.get("id"), found.get("event", "message"), found["data"]


def _pause(answer: Answer) -> float:
    try:
        return min(LONGEST_RETRY_AFTER, max(0.05, float(answer.headers.get("Retry-After", ""))))
    except ValueError:
        return PAUSE_SECONDS


def _parsed(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")[:SHOWN_CHARS]
