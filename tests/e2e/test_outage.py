"""PostgreSQL goes away in the middle of the work: nothing but 503, and nothing is lost."""

import asyncio
import shutil
from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import NullPool, make_url
from sqlalchemy import text as text_of
from sqlalchemy.ext.asyncio import create_async_engine

from runward.store import migrations
from tests.e2e.conftest import Processes
from tests.support.models.chat_server import Call, ModelServer, calls, text
from tests.support.postgres import Cluster, scratch_folder, sqlalchemy_url
from tests.support.services.service import Service
from tests.support.tools.server import Behaviour, ToolServer

RUNS = 20
MODEL = "outage"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = scratch_folder()
    cluster = Cluster(folder)
    yield cluster
    cluster.close()
    shutil.rmtree(folder, ignore_errors=True)


async def test_runs_survive_a_crash_of_postgresql(
    cluster: Cluster, model: ModelServer, tools: ToolServer
) -> None:
    await migrations.upgrade(cluster.url)
    start = Processes(cluster.url, model)
    try:
        service = start("serve")
        client = start.client(service).new_project("outage")
        start.keep(client)
        client.register_tool("pay", tools.tool("pay", Behaviour(hold="counter")))
        model.by_turn(MODEL, calls(Call("c1", "pay", '{"x":"1"}')), text("done"))
        started = [client.start_run(model=f"openai:{MODEL}", tools=["pay"]) for _ in range(RUNS)]
        tools.hold("counter").arrived(8)

        cluster.kill()
        refused = client.request("POST", "/v1/runs", {"model": f"openai:{MODEL}", "input": "go"})
        assert refused.status_code == 503
        assert refused.headers["Retry-After"]
        assert client.request("GET", "/readyz").status_code == 503
        tools.hold("counter").release()
        cluster.start_again()

        for run in started:
            ended = client.settle(run["id"])
            assert (ended["status"], ended["output"]) == ("completed", "done")
            events = client.call("GET", f"/v1/runs/{run['id']}/events", limit=1000)["data"]
            assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
        assert len(tools.all_hits()) == RUNS
    finally:
        start.close()


def test_a_process_that_gets_no_connection_says_so_and_ends(database_url: str) -> None:
    role = f"crowded_{uuid4().hex}"
    with asyncio.Runner() as runner:
        runner.run(_execute(database_url, f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0"))
        try:
            url = make_url(database_url).set(username=role).render_as_string(hide_password=False)
            worker = Service("worker", url)
            with worker:
                assert worker.process.wait(60) == 3
                assert (
                    "does not accept connections at the moment: too many connections"
                    in worker.output()
                )
                assert "Traceback" not in worker.output()
        finally:
            runner.run(_execute(database_url, f"DROP ROLE {role}"))


async def _execute(url: str, statement: str) -> None:
    engine = create_async_engine(sqlalchemy_url(url), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text_of(statement))
