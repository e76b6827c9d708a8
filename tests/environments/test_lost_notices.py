"""No notification ever arrives: in this database `pg_notify` only counts its calls. Other processes
then find every change by polling, workers within a second and readers within two. The bounds below
add slack for a busy machine. Without polling, no change would arrive at all.
"""

import asyncio
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import pytest

from runward.store.postgres.addresses import read_url
from tests.environments.processes import Environment, Process, environment
from tests.support.models.chat_server import Call, calls, text
from tests.support.postgres import Databases
from tests.support.services.client import ApiError, Client, Json
from tests.support.tools.server import Behaviour

pytestmark = pytest.mark.timeout(120)

WORKER_SECONDS = 1.0
READER_SECONDS = 2.0
SLACK_SECONDS = 3.0
RUNS = 3
MUTE = (
    "CREATE SCHEMA mute",
    "CREATE SEQUENCE mute.lost",
    "CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS"
    " $$BEGIN PERFORM nextval('mute.lost'); END$$",
)


@dataclass(frozen=True, slots=True)
class Deaf:
    """An API process and a worker that hear nothing of each other."""

    here: Environment
    client: Client
    url: str

    def tool(self, name: str, *behaviours: Behaviour, **fields: Any) -> Json:
        return self.client.register_tool(name, self.here.tools.tool(name, *behaviours), **fields)

    def run(self, *asked: Call, model: str, **fields: Any) -> str:
        self.here.model.by_turn(model, calls(*asked), text("done"))
        tools = [call.name for call in asked]
        return self.client.start_run(model=f"openai:{model}", tools=tools, **fields)["id"]

    def arrives(self, tool: str, count: int = 1) -> None:
        """A worker polls, so it acts within its interval."""
        self.here.tools.wait_for(tool, count, timeout=WORKER_SECONDS + SLACK_SECONDS)

    def query(self, statement: str) -> Any:
        return asyncio.run(query(self.url, statement))


@pytest.fixture(scope="module")
def deaf(migrated_databases: Databases) -> Iterator[Deaf]:
    with migrated_databases.migrated() as url, environment() as here:
        for statement in MUTE:
            asyncio.run(query(url, statement))
        path = quote("-csearch_path=mute,pg_catalog,public")
        process = Process(f"{url}&options={path}", {"RUNWARD_LEASE_SECONDS": "30"})
        here.start("worker", process)
        api = here.start("api", process)
        with api.client() as operator, operator.new_project("deaf") as client:
            yield Deaf(here, client, url)


async def query(url: str, statement: str) -> Any:
    database: Any = asyncpg
    connection = await database.connect(read_url(url).dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


@contextmanager
def lost(deaf: Deaf) -> Generator[None]:
    """Check that notifications were lost meanwhile: else this shows nothing."""
    count = "SELECT last_value FROM mute.lost"
    before = deaf.query(count)
    yield
    assert deaf.query(count) > before


def test_a_worker_finds_new_runs_within_a_second(deaf: Deaf) -> None:
    deaf.here.model.respond("short", lambda _: text("done"))
    with lost(deaf):
        for _ in range(RUNS):
            run = deaf.client.start_run(model="openai:short")
            ended = deaf.client.settle(run["id"])
            waited = moment(ended["started_at"]) - moment(ended["created_at"])
            assert waited < WORKER_SECONDS + SLACK_SECONDS


def test_a_stream_and_a_held_answer_are_at_most_two_seconds_late(deaf: Deaf) -> None:
    deaf.tool("slow", Behaviour(hold="slow"))
    with lost(deaf), ThreadPoolExecutor(2) as pool:
        run_id = deaf.run(Call("c1", "slow", '{"x":"1"}'), model="streamed")
        reader = pool.submit(lateness, deaf.client, run_id)
        held = pool.submit(settled_late, deaf.client, run_id)
        deaf.arrives("slow")
        deaf.here.tools.hold("slow").release()
        assert max(reader.result()) < READER_SECONDS + SLACK_SECONDS
        assert held.result() < READER_SECONDS + SLACK_SECONDS


def test_a_call_that_is_approved_starts_although_another_one_is_in_flight(deaf: Deaf) -> None:
    deaf.tool("endless", Behaviour(hold="endless"))
    deaf.tool("asks", approval="always")
    with lost(deaf):
        both = (Call("c1", "endless", '{"x":"1"}'), Call("c2", "asks", '{"x":"1"}'))
        run_id = deaf.run(*both, model="both")
        deaf.arrives("endless")
        deaf.client.decide_call(run_id, "c2", "approve")
        deaf.arrives("asks")
    deaf.here.tools.hold("endless").release()
    assert deaf.client.settle(run_id)["status"] == "completed"


def test_a_call_in_flight_is_dropped_when_its_run_is_cancelled(deaf: Deaf) -> None:
    deaf.tool("dropped", Behaviour(hold="dropped"))
    with lost(deaf):
        run_id = deaf.run(Call("c1", "dropped", '{"x":"1"}'), model="dropped")
        deaf.arrives("dropped")
        deaf.client.cancel(run_id)
        deaf.here.tools.until(
            lambda hits: any(hit.key == "dropped" and hit.outcome for hit in hits),
            WORKER_SECONDS + SLACK_SECONDS,
        )
    [hit] = deaf.here.tools.hits("dropped")
    assert hit.outcome == "abandoned"


def test_a_new_guardrail_holds_for_runs_that_start_later(deaf: Deaf) -> None:
    deaf.tool("guarded")
    reject = Behaviour("return", value={"action": "reject", "message": "No."})
    rail = {"stage": "input", "type": "webhook", "url": deaf.here.tools.tool("rail", reject)}

    def hits() -> int:
        run_id = deaf.run(Call("c1", "guarded", '{"x":"1"}'), model="guarded")
        assert deaf.client.settle(run_id)["status"] == "completed"
        return sum(hit.run_id == run_id for hit in deaf.here.tools.hits("guarded"))

    assert hits() == 1
    with lost(deaf):
        deaf.client.call("PUT", "/v1/policy", {"guardrails": [rail]})
        until(lambda: hits() == 0)
    deaf.client.call("PUT", "/v1/policy", {"guardrails": []})


def test_a_new_key_of_a_project_s_model_is_used_by_runs_that_start_later(deaf: Deaf) -> None:
    deaf.here.model.respond("paid", lambda _: text("done"))

    def key() -> str:
        run_id = deaf.client.start_run(model="openai:paid")["id"]
        assert deaf.client.settle(run_id)["status"] == "completed"
        return deaf.here.model.requests("paid")[-1].headers["authorization"]

    assert key() == "Bearer sk-test"  # the one of the service's environment
    with lost(deaf):
        for name, value in (
            ("OPENAI_BASE_URL", deaf.here.model.base_url),
            ("OPENAI_API_KEY", "sk-own"),
        ):
            deaf.client.call("PUT", f"/v1/secrets/{name}", {"value": value})
        until(lambda: key() == "Bearer sk-own")


def test_an_api_process_learns_within_a_second_of_a_tool_that_another_one_deleted(
    deaf: Deaf,
) -> None:
    def is_known() -> bool:
        try:
            deaf.client.start_run(model="offline:rules", tools=["short_lived"])
        except ApiError as error:
            return error.status != 422
        return True

    deaf.tool("short_lived")
    assert is_known()
    deaf.query("UPDATE tools SET deleted_at = now() WHERE name = 'short_lived'")
    until(lambda: not is_known())


def until(true: Callable[[], bool]) -> None:
    """Try until it is true, at most for a polling interval and the slack."""
    end = time.monotonic() + WORKER_SECONDS + SLACK_SECONDS
    while not true():
        assert time.monotonic() < end


def moment(shown: str) -> float:
    return datetime.fromisoformat(shown).timestamp()


def lateness(client: Client, run_id: str) -> list[float]:
    """For how long each event of the run was stored before its reader had it, in seconds."""
    return [
        time.time() - moment(frame.data["created_at"])
        for frame in client.stream(run_id)
        if frame.id is not None
    ]


def settled_late(client: Client, run_id: str) -> float:
    ended = client.get_run(run_id, wait=30)
    return time.time() - moment(ended["ended_at"])
