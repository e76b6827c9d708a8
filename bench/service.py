"""Runward as a process of its own, used over HTTP like any client does: POST a run, then read its
events over SSE to the end."""

import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, TypeAlias

import aiohttp
import orjson

from bench import machine, processes
from bench.work import EXPECTED, INSTRUCTIONS, PARAMETERS, WrongAnswerError, prompt

MANY: Final = "100000"
REQUEST_SECONDS: Final = 60.0
STREAM: Final = {"Accept": "text/event-stream"}
_OUTPUT: Final = orjson.dumps(EXPECTED)


@dataclass(frozen=True, slots=True)
class Paused:
    """A run that waits for a decision, and the number of its last event."""

    run_id: str
    approval_id: str
    last_event: int


class Service:
    name = "Runward"

    def __init__(self, url: str, session: aiohttp.ClientSession, pid: int) -> None:
        self.url = url
        self.session = session
        self.pid = pid

    def cpu_seconds(self) -> float:
        return machine.cpu_seconds(self.pid)

    async def register(self, fake: str) -> None:
        """The tool and the agent of the work, and their twins that ask before they call."""
        for tool, agent, approval in (("lookup", "plain", "never"), ("ask", "careful", "always")):
            about = {"description": "Look a fact up.", "parameters": PARAMETERS}
            spec = {"name": tool, "type": "webhook", "url": f"{fake}/tool", "approval": approval}
            await self._post("/v1/tools", about | spec)
            config = {"model": "openai:fake", "instructions": INSTRUCTIONS, "tools": [tool]}
            await self._post("/v1/agents", {"name": agent, **config})

    async def run(self, number: int) -> None:
        run_id = await self._start("plain", number)
        _check(await self._events(run_id))

    async def pause(self, number: int) -> Paused:
        run_id = await self._start("careful", number)
        events = await self._events(run_id, until="idle")
        data = [orjson.loads(line[6:]) for line in events.split(b"\n") if line[:6] == b"data: "]
        waiting = data[-1]["data"]["waiting_for"][0]
        return Paused(run_id, waiting["approval_id"], data[-1]["sequence"])

    async def approve(self, paused: Paused) -> float:
        """Seconds from sending the decision to the last event at a reader that follows."""
        path = f"/v1/runs/{paused.run_id}/events?after={paused.last_event}"
        async with self.session.get(self.url + path, headers=STREAM) as stream:
            await stream.content.readuntil(b"\n\n")
            begun = time.perf_counter()
            await self._post(
                f"/v1/approvals/{paused.approval_id}/decision", {"decision": "approve"}
            )
            _check(await stream.read())
            return time.perf_counter() - begun

    async def follow(self, paused: Paused) -> aiohttp.ClientResponse:
        """A reader that has had every event and waits for more; close it."""
        path = f"/v1/runs/{paused.run_id}/events?after={paused.last_event}"
        response = await self.session.get(
            self.url + path, headers=STREAM, timeout=aiohttp.ClientTimeout(None)
        )
        await response.content.readuntil(b"\n\n")
        return response

    async def _start(self, agent: str, number: int) -> str:
        return (await self._post("/v1/runs", {"agent": agent, "input": prompt(number)}))["id"]

    async def _events(self, run_id: str, until: str = "") -> bytes:
        query = f"?until={until}" if until else ""
        path = f"/v1/runs/{run_id}/events{query}"
        async with self.session.get(self.url + path, headers=STREAM) as response:
            _check_status(response.status, path)
            return await response.read()

    async def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        async with self.session.post(self.url + path, data=orjson.dumps(body)) as response:
            answer = await response.read()
        _check_status(response.status, path)
        return orjson.loads(answer)


def _check_status(status: int, path: str) -> None:
    if status >= 300:
        raise WrongAnswerError(f"{path} answered {status}.")


def _check(events: bytes) -> None:
    if b"\nevent: run.completed\n" not in events or _OUTPUT not in events:
        raise WrongAnswerError(f"A run did not complete: {events[-1000:]!r}")


Env: TypeAlias = dict[str, str]


def environment(port: int, fake: str, key: str) -> Env:
    """Of a service that may reach the fake model and tool, and has no limit in the way."""
    return {
        "RUNWARD_HOST": "127.0.0.1",
        "RUNWARD_PORT": str(port),
        "RUNWARD_BOOTSTRAP_KEY": key,
        "RUNWARD_SECRET_KEY": token_hex(32),
        "RUNWARD_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "RUNWARD_STREAMS_PER_KEY": MANY,
        "OPENAI_BASE_URL": f"{fake}/v1",
        "OPENAI_API_KEY": "none",
    }


@asynccontextmanager
async def serving(database: str, fake: str, log: Path) -> AsyncGenerator[Service]:
    """`python -m runward serve` on that database, with everything registered."""
    port, key = processes.free_port(), token_hex(32)
    url = f"http://127.0.0.1:{port}"
    env = environment(port, fake, key) | {"DATABASE_URL": database}
    env |= {name: value for name, value in os.environ.items() if name in _PASSED_ON}
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    async with processes.python("-m", "runward", "serve", env=env, log=log) as process, session:
        await processes.answers(process, f"{url}/readyz", log)
        service = Service(url, session, process.pid)
        await service.register(fake)
        yield service


_PASSED_ON: Final = ("RUNWARD_WORKER_CONCURRENCY", "RUNWARD_DATABASE_CONNECTIONS")


@asynccontextmanager
async def fake_model(log: Path) -> AsyncGenerator[tuple[str, int]]:
    """The address and pid of the model and tool of all sides."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    async with processes.python("-m", "bench.fake_model", str(port), env={}, log=log) as process:
        await processes.answers(process, f"{url}/", log)
        yield url, process.pid


async def seconds_to_ready(data_dir: Path, log: Path) -> float:
    """From the command to the first answer, on the embedded PostgreSQL in `data_dir`."""
    port = processes.free_port()
    env = {"RUNWARD_DATA_DIR": str(data_dir), "RUNWARD_PORT": str(port)}
    begun = time.perf_counter()
    async with processes.python("-m", "runward", "serve", env=env, log=log) as process:
        await processes.answers(process, f"http://127.0.0.1:{port}/readyz", log)
        return time.perf_counter() - begun
