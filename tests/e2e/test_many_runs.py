"""Many runs at once through two API and two worker processes on one PostgreSQL: all complete, and
nobody, polling or streaming, through whichever process, sees a gap.

RUNWARD_MANY_RUNS=1000 makes it a load test; figures are printed, never asserted.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

import httpx2
import pytest

from tests.checker import Evidence, Reader, broken
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import PAGE, TERMINAL, Client, Json, frames
from tests.support.tools.server import ToolServer

RUNS = int(os.environ.get("RUNWARD_MANY_RUNS", "100"))
AT_ONCE = 32
STREAMS_AT_ONCE = 12
SMALL_PAGE = 3
EVERY_NTH_IN_SMALL_PAGES = 10
RUN_SECONDS = 30 + RUNS * 0.5

T = TypeVar("T")
S = TypeVar("S")
Event: TypeAlias = Json


async def each(
    values: Iterable[S], work: Callable[[S], Awaitable[T]], at_once: int = AT_ONCE
) -> list[T]:
    """The results of `work`, in the order of `values`; no more than `at_once` at a time."""
    turnstile = asyncio.Semaphore(at_once)

    async def one(value: S) -> T:
        async with turnstile:
            return await work(value)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(value)) for value in values]
    return [task.result() for task in tasks]


@dataclass(slots=True)
class Callers:
    """Clients that go round the API processes; every status is kept."""

    https: list[httpx2.AsyncClient]
    statuses: list[tuple[str, int]]

    async def call(self, number: int, method: str, path: str, body: Json | None = None) -> Json:
        answer = await self.https[number % len(self.https)].request(method, path, json=body)
        self.statuses.append((f"{method} {path}", answer.status_code))
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def start(self, number: int) -> str:
        body: Json = {
            "model": "openai:many",
            "instructions": "",
            "tools": ["work"],
            "input": f"run {number}",
        }
        return (await self.call(number, "POST", "/v1/runs", body))["id"]

    async def settle(self, run_id: str) -> Json:
        async with asyncio.timeout(RUN_SECONDS):
            while True:
                run = await self.call(0, "GET", f"/v1/runs/{run_id}?wait=20")
                if run["status"] in TERMINAL:
                    return run

    async def poll(self, run_id: str, limit: int = PAGE) -> list[Event]:
        found: list[Event] = []
        while True:
            after = len(found)
            page = await self.call(
                0, "GET", f"/v1/runs/{run_id}/events?after={after}&limit={limit}"
            )
            found += page["data"]
            if not page["has_more"]:
                return found

    async def stream(self, run_id: str) -> list[Event]:
        """From the other process, until the server ends it; transient frames are left out."""
        path, headers = f"/v1/runs/{run_id}/events", {"Accept": "text/event-stream"}
        async with (
            asyncio.timeout(RUN_SECONDS),
            self.https[-1].stream("GET", path, headers=headers) as answer,
        ):
            self.statuses.append((f"GET {path} (stream)", answer.status_code))
            lines = [line async for line in answer.aiter_lines()]
        return [frame.data for frame in frames(lines) if frame.id is not None]


@pytest.mark.timeout(120 + RUN_SECONDS * 2)
def test_many_runs_complete_and_no_reader_sees_a_gap(
    start: Processes, model: ModelServer, tools: ToolServer, migrated_databases: Databases
) -> None:
    apis = [start("api"), start("api")]
    model.by_turn("many", calls(Call("c1", "work", '{"x":"1"}')), text("done"))
    operator = start.client(apis[0])
    client = operator.new_project("many")
    start.keep(client)
    tools.secrets("work", client.register_tool("work", tools.tool("work"))["secret"])
    start("worker")
    start("worker")
    urls = [api.url for api in apis]
    before = transactions(migrated_databases)
    evidence, seconds = asyncio.run(rush(urls, client))
    commits = transactions(migrated_databases) - before
    evidence = replace(evidence, hits=tools.hits("work"))
    report = (
        f"\n{RUNS} runs in {seconds:.1f} s ({RUNS / seconds:.0f} runs/s), "
        f"{commits / RUNS:.2f} write transactions a run\n"
    )
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, report.encode())
    assert len(evidence.runs) == RUNS
    assert {run["status"] for run in evidence.runs.values()} == {"completed"}
    assert len(evidence.hits) == RUNS
    assert model.violations == []
    assert broken(evidence) == []


def transactions(databases: Databases) -> int:
    """How many transactions of the server have had an id, that is: wrote. Other tests' too."""
    [count] = databases.execute("SELECT pg_current_xact_id()::text::bigint")
    assert isinstance(count, int)
    return count


async def rush(urls: list[str], client: Client) -> tuple[Evidence, float]:
    """Everything that clients saw, and the seconds from the first POST to the last end."""
    headers = {"Authorization": f"Bearer {client.key}"}
    limits = httpx2.Limits(max_connections=None)
    https = [
        httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=60, trust_env=False, limits=limits
        )
        for url in urls
    ]
    callers = Callers(https, [])
    try:
        began = time.monotonic()
        ids = await each(range(RUNS), callers.start)
        live = asyncio.create_task(each(ids[:STREAMS_AT_ONCE], callers.stream))
        settled = await each(ids, callers.settle)
        seconds = time.monotonic() - began
        logs = await each(ids, callers.poll)
        some = ids[::EVERY_NTH_IN_SMALL_PAGES]
        pages = await each(some, lambda run_id: callers.poll(run_id, SMALL_PAGE))
        lived = await live
        replays = await each(ids, callers.stream, STREAMS_AT_ONCE)
    finally:
        for http in https:
            await http.aclose()
    readers = [
        *readers_of("live", ids, lived, logs),
        *readers_of("small pages", some, pages, None),
        *readers_of("replay", ids, replays, logs),
    ]
    runs = {run["id"]: run for run in settled}
    logged = dict(zip(ids, logs, strict=True))
    return Evidence(runs, logged, readers=readers, statuses=callers.statuses), seconds


def readers_of(
    name: str, ids: list[str], seen: list[list[Event]], whole: list[list[Event]] | None
) -> list[Reader]:
    """`whole`: what a reader that stayed until the end must have seen the length of."""
    if whole is not None:
        short = [run_id for run_id, a, b in zip(ids, seen, whole, strict=False) if len(a) < len(b)]
        assert short == [], f"{name}: streams that ended early"
    return [Reader(run_id, name, events) for run_id, events in zip(ids, seen, strict=False)]
