"""Reads that may lag use a standby. If it lags or fails, they use the primary."""

import asyncio
import socket
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

import pytest
from sqlalchemy import text

from runward.operating.findings import check_replica
from runward.store import migrations
from runward.store.postgres import replica
from runward.store.postgres.db import Tx, open_database
from runward.store.postgres.replica import ReplicaReader
from tests.environments.servers import PostgresServer, postgres, postgres_18
from tests.support.services.service import Service

pytestmark = pytest.mark.timeout(120)

CAUGHT_UP: Final = (
    "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()"
)

LONGEST_READ_SECONDS: Final = 5.0
"""Less than the connection timeout of the database."""

AGE: Final = "SET runward.erasing = 'on'; UPDATE runs SET ended_at = ended_at - interval '2 days'"


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    with postgres(postgres_18()) as server:
        asyncio.run(migrations.upgrade(server.url))
        yield server


@pytest.fixture(scope="module")
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    server = PostgresServer(postgres_18(), primary.folder.with_name("standby"))
    server.copy_from(primary)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def paused(standby: PostgresServer) -> Generator[None]:
    """The standby replays nothing."""
    standby.execute("SELECT pg_wal_replay_pause()")
    standby.until("SELECT pg_get_wal_replay_pause_state()", "paused")
    try:
        yield
    finally:
        standby.execute("SELECT pg_wal_replay_resume()")


def test_searches_and_previews_read_the_standby_until_it_fails(
    primary: PostgresServer, standby: PostgresServer
) -> None:
    env = {"RUNWARD_REPLICA_URL": standby.url}
    with Service("serve", primary.url, env=env) as service, service.client() as client:

        def run(word: str) -> str:
            body = {"model": "offline:rules", "input": f"needle {word}"}
            made = client.call("POST", "/v1/runs", body, wait=30)
            assert made["status"] == "completed"
            primary.execute(AGE)
            return str(made["id"])

        def find() -> list[str]:
            return [found["id"] for found in client.call("GET", "/v1/runs", q="needle")["data"]]

        first = run("one")
        primary.until(CAUGHT_UP, "1")
        with paused(standby):
            second = run("two")
            assert find() == [first]
            preview = client.call("POST", "/v1/retention/preview", {"runs": 1})
            assert preview["runs"]["rows"] == 1
            listed = [found["id"] for found in client.call("GET", "/v1/runs")["data"]]
            assert listed == [second, first]
        primary.until(CAUGHT_UP, "1")
        assert find() == [second, first]
        standby.stop()
        assert find() == [second, first]
        assert "replica_not_used" in service.output()
    standby.start()


def test_a_standby_that_lags_is_not_read_until_it_has_caught_up(
    primary: PostgresServer, standby: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.0)

    async def read_ports() -> list[int]:
        databases = [open_database(one.url, pool_size=1) for one in (primary, standby)]
        reader = ReplicaReader(*(one.autocommit for one in databases))

        async def read_port(tx: Tx) -> int:
            return int(await tx.scalar(text("SELECT current_setting('port')")))

        ports = [await reader.read(read_port)]
        with monkeypatch.context() as patch:
            patch.setattr(replica, "MAX_LAG", timedelta(0))
            ports.append(await reader.read(read_port))
            assert (await check_replica(standby.url)).status == "warn"
        ports.append(await reader.read(read_port))
        for database in databases:
            await database.close()
        return ports

    primary.execute("CREATE TABLE a_commit ()")
    primary.until(CAUGHT_UP, "1")
    assert asyncio.run(read_ports()) == [standby.port, primary.port, standby.port]
    assert asyncio.run(check_replica(standby.url)).status == "ok"
    assert asyncio.run(check_replica(primary.url)).status == "warn"
    assert asyncio.run(check_replica("standby")).detail.startswith("RUNWARD_REPLICA_URL is not a")
    standby.stop()
    assert "does not answer" in asyncio.run(check_replica(standby.url)).detail


def test_a_standby_that_does_not_answer_delays_only_one_read(
    primary: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.0)

    async def read(silent: socket.socket) -> None:
        url = f"postgresql://runward@127.0.0.1:{silent.getsockname()[1]}/postgres"
        databases = [open_database(one, pool_size=4) for one in (primary.url, url)]
        reader = ReplicaReader(*(one.autocommit for one in databases))

        async def read_port(tx: Tx) -> int:
            return int(await tx.scalar(text("SELECT current_setting('port')")))

        assert await reader.read(read_port) == primary.port
        assert _count_connections(silent) == 1
        monkeypatch.setattr(replica, "RETRY_SECONDS", 60.0)
        ports = await asyncio.gather(*(reader.read(read_port) for _ in range(4)))
        assert ports == [primary.port] * 4
        assert _count_connections(silent) == 1
        for database in databases:
            await database.close()

    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        asyncio.run(read(silent))
    assert time.monotonic() - began < LONGEST_READ_SECONDS


def _count_connections(server: socket.socket) -> int:
    """Accept and close all connections that wait, and return their number."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            server.accept()[0].close()
            count += 1
    return count
