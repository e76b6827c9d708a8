"""Runward as a separate process. Clients use it over HTTP: they start a run with POST, and read its
events over SSE until the run ends."""

import os
import time
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, TypeAlias

import aiohttp
import orjson

from bench import machine, processes
from bench.processes import THIS, Version
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
    def __init__(self, name: str, url: str, session: aiohttp.ClientSession, pid: int) -> None:
        self.name = name
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

    async def complete(
        self, body: Mapping[str, Any], read: Callable[[bytes], None] | None = None
    ) -> None:
        """Start any run, and pass its events to `read` as they arrive. Raises WrongAnswerError."""
        run_id = (await self._post("/v1/runs", body))["id"]
        events, rest = [b""], b""
        path = f"/v1/runs/{run_id}/events"
        async with self.session.get(self.url + path, headers=STREAM) as response:
            _check_status(response.status, path)
            async for chunk in response.content.iter_any():
                *complete, rest = (rest + chunk).split(b"\n\n")
                if complete and read:
                    read(b"\n".join(complete))
                events = complete or events
        if b"event: run.completed\n" not in events[-1]:
            raise WrongAnswerError(f"A run did not complete: {events[-1][-1000:]!r}")

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
NO_SETTINGS: Final[Mapping[str, str]] = {}


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
async def serving(
    database: str,
    fake: str,
    log: Path,
    version: Version = THIS,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> AsyncGenerator[Service]:
    """Start `python -m runward serve` on a database, and register the tools and agents."""
    env = {**_environment(database, fake), **settings}
    async with _serve(env, log, version) as process, _client(process, env, log, version) as service:
        await service.register(fake)
        yield service


@asynccontextmanager
async def cluster(
    database: str, fake: str, log: Path, version: Version, workers: int
) -> AsyncGenerator[tuple[Service, list[int]]]:
    """Migrate a database, and start one API and several workers on it. Return the API and the
    process IDs of the workers."""
    env = _environment(database, fake)
    async with AsyncExitStack() as stack:

        async def start(command: str) -> Process:
            run = processes.python(
                "-m", "runward", command, env=env, log=log, checkout=version.checkout
            )
            return await stack.enter_async_context(run)

        await (await start("migrate")).wait()
        process = await start("api")
        pids = [(await start("worker")).pid for _ in range(workers)]
        service = await stack.enter_async_context(_client(process, env, log, version))
        await service.register(fake)
        yield service, pids


def _environment(database: str, fake: str) -> Env:
    env = environment(processes.free_port(), fake, token_hex(32)) | {"DATABASE_URL": database}
    return env | {name: value for name, value in os.environ.items() if name in _PASSED_ON}


@asynccontextmanager
async def _client(
    process: Process, env: Env, log: Path, version: Version
) -> AsyncGenerator[Service]:
    """Wait until the process is ready."""
    url = f"http://127.0.0.1:{env['RUNWARD_PORT']}"
    key = env["RUNWARD_BOOTSTRAP_KEY"]
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        headers={"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    async with session:
        await processes.answers(process, f"{url}/readyz", log)
        yield Service(version.name, url, session, process.pid)


_PASSED_ON: Final = ("RUNWARD_WORKER_CONCURRENCY", "RUNWARD_DATABASE_CONNECTIONS")


@asynccontextmanager
async def fake_model(log: Path) -> AsyncGenerator[tuple[str, int]]:
    """The address and pid of the model and tool of all sides."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    async with processes.python("-m", "bench.fake_model", str(port), env={}, log=log) as process:
        await processes.answers(process, f"{url}/", log)
        yield url, process.pid


def _serve(env: Env, log: Path, version: Version) -> AbstractAsyncContextManager[Process]:
    return processes.python("-m", "runward", "serve", env=env, log=log, checkout=version.checkout)


async def seconds_to_ready(data_dir: Path, log: Path, version: Version = THIS) -> float:
    """Return the time from the command to the first response, with the embedded PostgreSQL."""
    port = processes.free_port()
    env = {"RUNWARD_DATA_DIR": str(data_dir), "RUNWARD_PORT": str(port)}
    begun = time.perf_counter()
    async with _serve(env, log, version) as process:
        await processes.answers(process, f"http://127.0.0.1:{port}/readyz", log)
        return time.perf_counter() - begun
