"""The text search on a server with the extension pg_trgm, which the embedded database lacks."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from sqlalchemy import make_url, text

from runward.store import migrations
from runward.store.access import keys
from runward.store.access.keys import DEFAULT_PROJECT
from runward.store.postgres.db import Tx, open_database
from runward.store.runs import search
from runward.store.runs.search import FoundRuns, RunFilter, search_runs
from tests.environments.servers import PostgresServer, postgres, postgres_15

pytestmark = pytest.mark.timeout(120)

RUNS: Final = 40
MANY: Final = 5_000
SEED: Final = text(
    """
INSERT INTO runs (project_id, id, status, agent, config, output, error, metadata, ended_at)
SELECT id, CAST(lpad(to_hex(n), 32, '0') AS uuid),
  CASE n WHEN 1 THEN 'failed' WHEN 2 THEN 'requires_action' ELSE 'completed' END,
  'clerk', '{"model": "offline:rules"}', to_json('run ' || n || CASE n WHEN 3 THEN
    ' Größe: "needle" 100%_x' WHEN 5 THEN repeat('ab ', 5000) || 'far away' ELSE '' END),
  CASE n WHEN 1 THEN CAST('{"code": "internal_error", "message": "The heron broke."}' AS json) END,
  CASE n WHEN 2 THEN jsonb_build_object('order', E'line\\nA-"1017"') ELSE '{}' END,
  CASE n WHEN 2 THEN NULL ELSE now() END
FROM projects, generate_series(1, :runs) n"""
)
ITEMS: Final = text(
    """
INSERT INTO run_items (project_id, run_id, seq, kind, turn, items)
SELECT project_id, id, 1, 'input', 0, CASE WHEN id = CAST(lpad('4', 32, '0') AS uuid)
  THEN json_build_array(json_build_object('role', 'user', 'content', json_build_array(
    json_build_object('type', 'input_text', 'text', 'An image 5.'),
    json_build_object('type', 'input_text', 'text',
      repeat('long ', 2000) || E'first\\nSECOND "line"'))))
  ELSE '[{"role": "user", "content": "Nothing."}, {"role": "system", "content": "system word"}]'
  END FROM runs"""
)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres(postgres_15()) as server:
        yield server


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_SEARCHED_RUNS", 5)


@asynccontextmanager
async def database(
    server: PostgresServer, name: str, role: str | None = None, runs: int = RUNS
) -> AsyncGenerator[Tx]:
    """A new database with runs. `role`: a role that may not create extensions migrates it."""
    server.execute(f"CREATE DATABASE {name}")
    url = make_url(server.url).set(database=name)
    admin = open_database(url.render_as_string(hide_password=False), pool_size=1)
    if role is not None:
        async with admin.pool.begin() as tx:
            await tx.execute(text(f"CREATE ROLE {role} LOGIN"))
            await tx.execute(text(f"GRANT CREATE, USAGE ON SCHEMA public TO {role}"))
        url = url.set(username=role)
    await migrations.upgrade(url.render_as_string(hide_password=False))
    async with admin.pool.begin() as tx:
        await keys.ensure_default_project(tx)
        await tx.execute(SEED, {"runs": runs})
        await tx.execute(ITEMS)
    async with admin.autocommit.connect() as tx:
        await tx.execute(text("VACUUM ANALYZE"))
        yield tx
    await admin.close()


async def look(tx: Tx, sought: str, limit: int = 10) -> tuple[list[int], FoundRuns]:
    found = await search_runs(
        tx, DEFAULT_PROJECT, RunFilter(text=sought), after=None, limit=limit, descending=True
    )
    return [run.id.int for run in found.runs], found


def test_one_request_finds_a_text_in_any_run(server: PostgresServer) -> None:
    async def check() -> None:
        async with database(server, "all_texts") as tx:
            for sought, expected in {
                "HERON broke": [1],
                'A-"1017"': [2],
                "line\nA": [2],
                '"NEEDLE" 100%_': [3],
                "größe": [3],
                'first\nsecond "LINE"': [4],
                "far AWAY": [5],
                "image 5": [4],
                "system word": [],
                "100%__": [],
                "ostrich": [],
            }.items():
                ids, found = await look(tx, sought)
                assert (sought, ids, found.resume_after) == (sought, expected, None)
            assert (await look(tx, "offline:rules", 100))[0] == [*range(RUNS, 0, -1)]
            ids, found = await look(tx, "run 3", 7)
            assert ids == [39, 38, 37, 36, 35, 34, 33]

    asyncio.run(check())


def test_a_text_without_three_letters_in_a_row_is_searched_step_by_step(
    server: PostgresServer,
) -> None:
    async def check() -> None:
        async with database(server, "short_texts") as tx:
            ids, found = await look(tx, '"n')
            assert ids == []
            assert found.resume_after is not None

    asyncio.run(check())


def test_the_search_reads_no_table_from_end_to_end(server: PostgresServer) -> None:
    async def check() -> None:
        async with database(server, "plans", runs=MANY) as tx:
            sent = f"SELECT id FROM runs WHERE {search.CANDIDATES}"
            values = {"project_id": DEFAULT_PROJECT, "sought": "%heron%", "escaped": "%heron%"}
            plan = "\n".join((await tx.execute(text(f"EXPLAIN {sent}"), values)).scalars())
            for index in ("runs_text", "run_items_text", "runs_open"):
                assert f" {index} " in plan

    asyncio.run(check())


def test_a_role_that_may_not_create_extensions_searches_step_by_step(
    server: PostgresServer,
) -> None:
    async def check() -> None:
        async with database(server, "no_extension", "humble") as tx:
            ids, found = await look(tx, "heron")
            assert ids == []
            assert found.resume_after is not None

    asyncio.run(check())
