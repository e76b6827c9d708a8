"""Processes freeze, lose connections unseen, and start with a wrong key or without a schema. A
neighbor's runs go on. `-s` prints the neighbor's latency during each fault; figures are printed,
never asserted."""

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from runward.store.postgres.addresses import read_url
from tests.db.proxy import Proxy
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.postgres import Databases
from tests.support.services.neighbor import working
from tests.support.services.service import Command
from tests.support.serving import Hold
from tests.support.tools.server import ToolServer

LEASE_SECONDS = 3.0
WAIT_SECONDS = 10
END_LISTENING = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND query LIKE 'LISTEN %'
"""


@pytest.mark.timeout(180)
def test_faults_of_some_processes_leave_the_others_as_they_were(
    start: Processes, model: ModelServer, tools: ToolServer, databases: Databases
) -> None:
    with relayed(start.database_url) as listen_url, databases.empty() as empty:
        env = {"RUNWARD_LISTEN_URL": listen_url}
        api = start("api", env=env)
        frozen = start("worker", lease_seconds=LEASE_SECONDS, env=env)
        client = start.client(api).new_project("neighbor")
        start.keep(client)
        asked, thinking = calls(Call("c1", "greet", '{"x":"1"}')), Hold()
        client.register_tool("greet", tools.tool("greet"))
        model.by_turn("neighbor", asked, text("done"))
        model.script("slow", replace(asked, hold=thinking), asked, text("done"))
        run = client.start_run(model="openai:slow", tools=["greet"])
        thinking.arrived()
        frozen.pause()
        processes = [api, frozen, start("worker", lease_seconds=LEASE_SECONDS, env=env)]
        with working(client) as neighbor:
            with neighbor.measured("a worker is frozen"):
                assert client.settle(run["id"])["status"] == "completed"
            with neighbor.measured("it thaws"):
                thinking.release()
                frozen.resume()
            with neighbor.measured("LISTEN connections end unseen"):
                assert asyncio.run(end_listening(start.database_url)) == len(processes)
            with neighbor.measured("a worker has another key"):
                output = refusal(start, "worker", {"RUNWARD_SECRET_KEY": "another " * 8})
                assert "RUNWARD_SECRET_KEY" in output
            with neighbor.measured("an API has no schema"):
                assert "migrate" in refusal(Processes(empty, model), "api", {})
        assert [hit.attempt for hit in tools.hits() if hit.run_id == run["id"]] == [1]
        assert [one.terminate() for one in processes] == [0, 0, 0]
        assert not any("Traceback" in one.output() for one in processes)


@contextmanager
def relayed(database_url: str) -> Generator[str]:
    """Yield an address of the database whose clients do not see the server end a connection."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = Proxy(database_url)
    proxy.hide_ends = True
    opened = proxy.open()
    try:
        yield asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(WAIT_SECONDS)
        closing = opened.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(closing, loop).result(WAIT_SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def end_listening(database_url: str) -> int:
    """End the server's side of every LISTEN connection. Return how many there were."""
    database: Any = asyncpg
    connection = await database.connect(read_url(database_url).dsn)
    try:
        return await connection.fetchval(END_LISTENING)
    finally:
        await connection.close()


def refusal(start: Processes, command: Command, env: dict[str, str]) -> str:
    """Return the output of a process that refuses to start."""
    try:
        service = start(command, env=env)
    except AssertionError as error:  # it ended before it was ready
        return str(error)
    assert service.process.wait(WAIT_SECONDS * 3) != 0
    return service.output()
