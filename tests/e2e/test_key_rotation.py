"""The secret key and the data key of a deployment are replaced while runs use secrets and wait for
callbacks. Workers that encrypt values again are killed with SIGKILL."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from sqlalchemy import text

from runward.store import readiness
from runward.store.access import keys
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.access.secrets import put_secret, read_secrets
from runward.store.access.vault import DataKey, Vault
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.wrapping import LocalKey
from runward.store.postgres.db import Database, open_database
from tests.e2e.command_line import CommandLine
from tests.e2e.conftest import Processes
from tests.e2e.test_later import call_back, for_later
from tests.support.kms import KmsServer
from tests.support.models.chat_server import ModelServer
from tests.support.services.client import Client
from tests.support.services.service import SECRET_KEY, Service
from tests.support.tools.server import ToolServer

pytestmark = pytest.mark.timeout(240)
T = TypeVar("T")

NEW_KEY: Final = "another-secret-key-0123456789abcdef0123456789abcdef"
BOTH: Final = {"RUNWARD_SECRET_KEY": NEW_KEY, "RUNWARD_PREVIOUS_SECRET_KEYS": SECRET_KEY}
ONLY_NEW: Final = {"RUNWARD_SECRET_KEY": NEW_KEY, "RUNWARD_PREVIOUS_SECRET_KEYS": ""}
WAIT_SECONDS: Final = 60
NOT_FOUND: Final = 404
SECRETS: Final = 3000
KILLS: Final = 3
AGE: Final = "UPDATE data_keys SET created_at = created_at - interval '10 minutes'"
WITH_NEW: Final = "SELECT count(*) FROM secrets WHERE substring(value FROM 1 FOR 8) = :id"
AUDITED: Final = (
    "SELECT string_agg(action || ' ' || resource_id, ', ' ORDER BY number) FROM audit_entries"
    " WHERE actor_type = 'operator' AND resource_type = 'data_key'"
)
DRAINED: Final = "SELECT count(*) FROM data_keys WHERE drained_at IS NOT NULL"


def on_database(start: Processes, act: Callable[[Database], Awaitable[T]]) -> T:
    async def run() -> T:
        database = open_database(start.database_url, pool_size=2)
        try:
            return await act(database)
        finally:
            await database.close()

    return asyncio.run(run())


def query(start: Processes, statement: str, **values: Any) -> Any:
    async def run(database: Database) -> Any:
        async with database.pool.begin() as tx:
            result = await tx.execute(text(statement), values)
            return result.scalar_one() if result.returns_rows else None

    return on_database(start, run)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_log(event: str, *services: Service) -> None:
    wait_for(lambda: all(event in service.output() for service in services))


class Rotation:
    """An API process and a worker that are replaced one after the other, and the runs that were
    accepted meanwhile. All of them wait for a callback."""

    def __init__(self, start: Processes, model: ModelServer, tools: ToolServer) -> None:
        self.start = start
        self.paying, self.worker, first, self.first_hit = for_later(start, model, tools)
        tools.witness = None  # it reads from the first process
        self.api = self.paying.api
        self.waiting = [first]

    def restart(self, env: dict[str, str]) -> None:
        """Start a run on each pair of processes."""
        former_worker, self.worker = self.worker, self.paying.worker(**env)
        former_worker.terminate()
        self.accept()
        former, self.api = self.api, self.start("api", env=env)
        self.paying.client = Client(self.api.url, self.paying.client.key)
        self.start.keep(self.paying.client)
        self.accept()
        former.terminate()

    def accept(self) -> None:
        self.waiting.append(self.paying.accepted())

    def finish(self, tools: ToolServer) -> None:
        """Call back for each run. Each request of a tool had its secrets and signatures."""
        hits = tools.hits("pay")
        assert len(hits) == len(self.waiting)
        for hit, run_id in zip(hits, self.waiting, strict=True):
            assert hit.verified
            if self.paying.client.get_run(run_id)["status"] != "completed":
                assert call_back(hit, self.api, status="completed", output="x").is_success
                self.paying.finish(run_id)


def test_runs_that_use_secrets_go_on_while_both_keys_are_replaced(
    start: Processes, model: ModelServer, tools: ToolServer, tmp_path: Path
) -> None:
    on = Rotation(start, model, tools)
    on.paying.client.call("PUT", "/v1/secrets/TOKEN", {"value": "t0ken"})
    headers = {"X-Token": {"secret": "TOKEN"}, "X-Fixed": "fixed"}
    on.paying.client.call("PATCH", "/v1/tools/pay", {"headers": headers})

    def data_keys(*words: str, **env: str) -> Any:
        env = {"DATABASE_URL": start.database_url, **env}
        done = CommandLine(tmp_path).run_fork("data-keys", *words, "--json", **env)
        assert done.code == 0, done.err
        return json.loads(done.out)

    on.restart(BOTH)
    assert call_back(on.first_hit, on.api, status="progress", progress=0.5).is_success
    new_id = data_keys("rotate", **BOTH)["id"]
    wait_for_log("data_keys_changed", on.api, on.worker)  # both can read with the new key
    on.accept()
    query(start, AGE)
    wait_for(lambda: query(start, DRAINED) == 1)
    on.accept()
    on.restart(ONLY_NEW)
    old, new = data_keys("list", **ONLY_NEW)
    assert (old["status"], old["values"], new["status"]) == ("previous", 0, "current")
    assert new["values"] > 0
    assert len({name for one in (old, new) for name in one["secret_keys"]}) == 1
    on.finish(tools)
    sent = [(hit.headers["x-token"], hit.headers["x-fixed"]) for hit in tools.hits("pay")[1:]]
    assert set(sent) == {("t0ken", "fixed")}

    data_keys("remove", old["id"], "--yes", **ONLY_NEW)
    assert [one["id"] for one in data_keys("list", **ONLY_NEW)] == [new_id]
    recorded = f"data_key.created {new_id}, data_key.deleted {old['id']}"
    assert query(start, AUDITED) == recorded
    late = {"status": "completed", "output": "x"}
    wait_for(lambda: call_back(on.first_hit, on.api, **late).status_code == NOT_FOUND)
    on.accept()
    on.finish(tools)
    assert on.paying.broken(*on.waiting) == []


async def prepare(database: Database) -> DataKey:
    """Store many secrets, then add a data key that is active."""
    ring = KeyRing(database, [LocalKey(SECRET_KEY)])
    vault = await ring.open()
    async with database.pool.begin() as tx:
        await readiness.prepare_database(tx, vault)
        await keys.ensure_default_project(tx)
        for name in names():
            await put_secret(tx, vault, DEFAULT_PROJECT, name, name)
    new = await ring.add_key()
    async with database.pool.begin() as tx:
        await tx.execute(text(AGE))
    return new


def names() -> list[str]:
    return [f"S{number:04}" for number in range(SECRETS)]


def test_killed_workers_leave_every_value_readable_and_others_go_on(start: Processes) -> None:
    new = on_database(start, prepare)
    counts: list[int] = [0]
    for _ in range(KILLS):
        worker = start("worker")
        wait_for(lambda: query(start, WITH_NEW, id=new.id) > counts[-1])
        worker.kill()
        counts.append(query(start, WITH_NEW, id=new.id))
    assert 0 < counts[1] < counts[-1] < SECRETS
    for _ in range(2):
        start("worker")
    wait_for(lambda: query(start, DRAINED) == 1)

    async def read(database: Database) -> dict[str, str]:
        async with database.pool.connect() as tx:
            return await read_secrets(tx, Vault(new), DEFAULT_PROJECT, names())

    assert on_database(start, read) == {name: name for name in names()}


def test_a_service_whose_key_is_in_kms_goes_on_while_kms_is_down(start: Processes) -> None:
    with closing(KmsServer()) as kms:
        env = {"RUNWARD_SECRET_KEY": f"aws-kms:{kms.create_key()}", **kms.environment}
        client = start.client(start("api", env=env))
        wait_for_log("worker_started", start("worker", env=env))
    client.call("PUT", "/v1/secrets/TOKEN", {"value": "t0ken"})
    run = client.start_run(model="offline:rules", input="hello")
    assert client.settle(run["id"])["status"] == "completed"
