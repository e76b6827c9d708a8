import asyncio
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, NullPool, Table, event, make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from runward.domain.errors import OperatorError
from runward.store import migrations
from runward.store.migration_scripts import default_differs, is_compared
from runward.store.postgres import registry_tables
from runward.store.postgres.connection_errors import DatabaseRefusedError
from runward.store.postgres.tables import metadata
from runward.store.readiness import UnmigratedDatabaseError, check_schema, list_revisions
from tests.db.proxy import Proxy
from tests.db.store import until

MADE_EMPTY = ("0001", "0002", "0003", "0004", "0005", "0006")
"""Revisions of the first version, which no database with runs has ever been at."""
SMALL = {one.name for one in vars(registry_tables).values() if isinstance(one, Table)}
LARGE = {table.name for table in metadata.tables.values()} - SMALL - {"deployment"}


async def current(url: str) -> str | None:
    """Return the database's revision, as Alembic reads it; None before the first migration."""

    def read(connection: Connection) -> str | None:
        return MigrationContext.configure(connection).get_current_revision()

    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.connect() as connection:
        revision = await connection.run_sync(read)
    await engine.dispose()
    return revision


async def is_current(url: str) -> bool:
    """Return whether a service would start on the database's schema."""
    engine = create_async_engine(url, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            await check_schema(connection)
    except UnmigratedDatabaseError:
        return False
    finally:
        await engine.dispose()
    return True


async def test_many_processes_may_migrate_at_once(empty_database_url: str) -> None:
    assert not await is_current(empty_database_url)

    await asyncio.gather(*(migrations.upgrade(empty_database_url) for _ in range(4)))

    assert await current(empty_database_url) == list_revisions()[-1]
    assert await is_current(empty_database_url)


async def test_the_migrated_schema_is_the_one_in_the_models(database_url: str) -> None:
    def differences(connection: Connection) -> list[Any]:
        options = {"compare_server_default": default_differs, "include_object": is_compared}
        return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)

    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []
    await engine.dispose()


async def test_a_newer_version_s_schema_is_left_alone(database_url: str) -> None:
    engine = create_async_engine(database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'from_the_future'"))
    await engine.dispose()

    await migrations.upgrade(database_url)

    assert await current(database_url) == "from_the_future"
    assert await is_current(database_url)


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory("migrations").get_heads()) == 1


# What a migration may do while runs are at work.


@contextmanager
def statements() -> Generator[dict[str, list[str]]]:
    """All that are executed on any connection, by the revision that they lead to."""
    found: dict[str, list[str]] = {}
    pending: list[str] = []

    def record(_: object, __: object, statement: str, *___: object) -> None:
        pending.append(" ".join(statement.split()))
        if re.match(r"(INSERT INTO|UPDATE) alembic_version ", statement):
            revision = re.findall(r"'(\w+)'", statement)[0]
            found[revision] = pending[:-1]
            pending.clear()

    event.listen(Engine, "before_cursor_execute", record)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", record)


HARMFUL = {
    r"CREATE (UNIQUE )?INDEX (?!CONCURRENTLY )": "builds an index without CONCURRENTLY",
    r".* ADD CONSTRAINT .*(CHECK|FOREIGN KEY|EXCLUDE)\b.*(?<! NOT VALID)$": "has no NOT VALID",
    r".* ADD CONSTRAINT .*(UNIQUE|PRIMARY KEY)\b(?! USING INDEX)": "builds an index",
    r".* ALTER COLUMN .*( TYPE | SET NOT NULL)": "reads or rewrites the table",
    r".* ADD COLUMN .*DEFAULT .*\w\(": "rewrites the table: the default is not a constant",
    r".*( DROP COLUMN| RENAME )|DROP TABLE": "takes away what the version before needs",
}
"""Statements that lock a table for as long as it takes to read it, or that do not only expand."""
TABLE = re.compile(r'(?:CREATE (?:UNIQUE )?INDEX .*? ON|(?:ALTER|DROP) TABLE) "?(\w+)')


def problems(executed: Iterable[str], large: set[str]) -> Iterator[str]:
    """What is wrong with statements on `large` tables that they do not create themselves."""
    made: set[str] = set()
    for one in executed:
        if created := re.match(r'CREATE TABLE "?(\w+)', one):
            made.add(created[1])
        elif (named := TABLE.match(one)) and named[1] in large - made:
            yield from (f"{why}: {one}" for bad, why in HARMFUL.items() if re.match(bad, one))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX a ON runs (id)",
        "CREATE UNIQUE INDEX a ON runs (id) WHERE id > 1",
        "ALTER TABLE runs ADD CONSTRAINT a CHECK (turn > 0)",
        "ALTER TABLE runs ADD CONSTRAINT a FOREIGN KEY(x) REFERENCES y (z)",
        "ALTER TABLE runs ADD CONSTRAINT a UNIQUE (x)",
        "ALTER TABLE runs ALTER COLUMN a TYPE BIGINT",
        "ALTER TABLE runs ALTER COLUMN a SET NOT NULL",
        "ALTER TABLE runs ADD COLUMN a timestamptz DEFAULT clock_timestamp() NOT NULL",
        "ALTER TABLE runs DROP COLUMN a",
        "ALTER TABLE runs RENAME a TO b",
    ],
)
def test_a_statement_that_locks_a_large_table_is_found(statement: str) -> None:
    assert list(problems([statement], LARGE))
    assert not list(problems(["CREATE TABLE runs (id uuid)", statement], LARGE))
    assert not list(problems([statement.replace("runs", "projects")], LARGE))


async def test_migrations_lock_no_table_that_may_be_large(empty_database_url: str) -> None:
    with statements() as executed:
        await migrations.upgrade(empty_database_url)
    assert "0001" in executed
    assert list_revisions()[-1] in executed
    found = {
        revision: list(problems(ones, LARGE))
        for revision, ones in executed.items()
        if revision not in MADE_EMPTY
    }
    assert not any(found.values()), found


async def test_an_index_is_built_by_a_migration_of_its_own(empty_database_url: str) -> None:
    """What precedes it is committed before the build, which may fail and is then repeated."""
    with statements() as executed:
        await migrations.upgrade(empty_database_url)
    for revision, ones in executed.items():
        if any(" CONCURRENTLY " in one for one in ones):
            repeatable = r"SET lock_timeout|SELECT |DO .*EXTENSION IF NOT EXISTS"
            allowed = rf"(CREATE|DROP) .*INDEX CONCURRENTLY |{repeatable}"
            assert all(re.match(allowed, one) for one in ones), (revision, ones)


async def test_the_service_does_not_wait_for_a_migration_that_waits(
    empty_database_url: str,
) -> None:
    """A long transaction holds a lock that the migration needs, and a statement of the service
    queues behind the migration."""
    await migrations.upgrade(empty_database_url, revision="0001")
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    async with engine.connect() as holder, engine.connect() as service:
        await holder.execute(text("SELECT count(*) FROM runs"))
        migrating = asyncio.create_task(migrations.upgrade(empty_database_url))

        async def waits() -> bool:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode LIKE 'Access%'"
            return bool((await holder.execute(text(waiting))).scalar_one())

        await until(waits)
        async with asyncio.timeout(30):
            await service.execute(text("SELECT count(*) FROM runs"))
        assert not migrating.done()
        await service.rollback()
        await holder.rollback()
        await migrating
    await engine.dispose()
    assert await is_current(empty_database_url)


async def test_a_migration_that_never_gets_its_lock_says_so(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_ATTEMPTS", 1)
    monkeypatch.setattr(migrations, "LOCK_PAUSE", migrations.LOCK_POLL)
    await migrations.upgrade(empty_database_url, revision="0001")
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    async with engine.connect() as holder:
        await holder.execute(text("SELECT count(*) FROM runs"))
        with pytest.raises(OperatorError, match="could not lock a table"):
            await migrations.upgrade(empty_database_url)
    await engine.dispose()


async def test_an_index_that_was_left_invalid_is_built_again(empty_database_url: str) -> None:
    await migrations.upgrade(empty_database_url, revision="0006")
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE INDEX tool_calls_tool ON tool_calls (tool)"))
    await engine.dispose()
    await migrations.upgrade(empty_database_url)
    assert await is_current(empty_database_url)


FORMER = """
INSERT INTO projects (id, name) VALUES (:project, 'p');
INSERT INTO tools (project_id, name, id, version, secret) VALUES (:project, 'shell', :id, 1, '');
INSERT INTO tool_versions (project_id, name, version, spec)
  VALUES (:project, 'shell', 1, '{"executes": "shell", "metadata": {"executes": 1.0, "a": 1}}');
INSERT INTO agents (project_id, name, version, spec)
  VALUES (:project, 'clerk', 1, '{"repair_attempts": 2, "model": "offline:rules"}');
INSERT INTO agent_versions (project_id, name, version, spec) VALUES
  (:project, 'clerk', 1, '{"history": {"max_turns": 5, "max_tokens": 9}, "model": "a"}');
INSERT INTO runs (project_id, id, status, ended_at, config, team) VALUES (
  :project, :id, 'failed', now(), '{"repair_attempts": 0, "output_schema": {"z": 1, "a": 1.0}}',
  '{"a": {"config": {"repair_attempts": 3}, "version": 1, "description": null},
    "b": {"config": {}, "version": 2, "description": "b"}}');
INSERT INTO run_events (project_id, run_id, seq, type, data, created_at) VALUES
  (:project, :id, 1, 'model.downgraded', '{"model": "m", "what": "seed", "why": "w"}', now()),
  (:project, :id, 2, 'agent.changed', '{}', now()), (:project, :id, 3, 'run.failed', '{}', now());
INSERT INTO run_items (project_id, run_id, seq, kind, turn, items) VALUES
  (:project, :id, 1, 'input', 0, '[{"type": "message", "content": "vendor"}]'),
  (:project, :id, 2, 'response', 1, '[{"type": "reasoning", "vendor": "a", "data": {"vendor": 1.0}},
    {"type": "message", "native": {"vendor": "a", "data": {}}}]');
INSERT INTO sessions (project_id, id) VALUES (:project, :id);
INSERT INTO session_items (project_id, session_id, seq, run_id, items)
  VALUES (:project, :id, 1, :id, '[{"type": "hosted_call", "vendor": "a"}]');
INSERT INTO approvals (project_id, id, run_id, call_id, tool, tool_version, arguments, digest,
    status, allowed_decisions, requested_at, expires_at, decided_at)
  SELECT :project, gen_random_uuid(), :id, status, 't', 1, '{}', '', status, '{}', now(), now(),
    now() FROM unnest(ARRAY['void', 'withdrawn', 'expired']) AS status
"""
"""Rows as the version of revision 0018 wrote them, of a run that has ended."""
RENAMED = {
    "SELECT call_id, status FROM approvals ORDER BY call_id": [
        ("expired", "expired"),
        ("void", "superseded"),
        ("withdrawn", "cancelled"),
    ],
    "SELECT type FROM run_events ORDER BY seq": [
        ("model.setting_dropped",),
        ("handoff.completed",),
        ("run.failed",),
    ],
    "SELECT CAST(data AS text) FROM run_events WHERE seq = 1": [
        ('{ "model" : "m", "setting" : "seed", "reason" : "w" }',)
    ],
    "SELECT CAST(items AS text) FROM run_items ORDER BY seq": [
        ('[{"type": "message", "content": "vendor"}]',),
        (
            '[{ "type" : "reasoning", "provider" : "a", "data" : {"vendor": 1.0} }, '
            '{ "type" : "message", "native" : { "provider" : "a", "data" : {} } }]',
        ),
    ],
    "SELECT CAST(items AS text) FROM session_items": [
        ('[{ "type" : "hosted_call", "provider" : "a" }]',)
    ],
    "SELECT CAST(spec AS text) FROM tool_versions": [
        ('{ "implements" : "shell", "metadata" : {"executes": 1.0, "a": 1} }',)
    ],
    "SELECT CAST(spec AS text) FROM agents": [
        ('{ "output_retries" : 2, "model" : "offline:rules" }',)
    ],
    "SELECT CAST(spec AS text) FROM agent_versions": [
        ('{ "history" : { "max_exchanges" : 5, "max_tokens" : 9 }, "model" : "a" }',)
    ],
    "SELECT CAST(config AS text) FROM runs": [
        ('{ "output_retries" : 0, "output_schema" : {"z": 1, "a": 1.0} }',)
    ],
    "SELECT team #>> '{a,config,output_retries}', team #>> '{b,description}' FROM runs": [
        ("3", "b")
    ],
}


async def test_stored_values_and_fields_are_renamed(empty_database_url: str) -> None:
    await migrations.upgrade(empty_database_url, revision="0018")
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    ids = {"project": uuid4(), "id": uuid4()}
    async with engine.begin() as connection:
        for statement in FORMER.split(";\n"):
            given = {name: id_ for name, id_ in ids.items() if f":{name}" in statement}
            await connection.execute(text(statement), given)
    await migrations.upgrade(empty_database_url)
    async with engine.connect() as connection:
        for query, rows in RENAMED.items():
            assert [tuple(row) for row in await connection.execute(text(query))] == rows
    await engine.dispose()


async def test_a_migration_through_pgbouncer_is_refused(empty_database_url: str) -> None:
    proxy = Proxy(empty_database_url)
    async with proxy.open() as url:
        proxy.refuse_parameter("jit")
        with pytest.raises(DatabaseRefusedError, match="Set RUNWARD_PGBOUNCER=true"):
            await migrations.upgrade(url)
    assert await current(empty_database_url) is None


async def test_a_refusal_names_the_variable_that_holds_the_address() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:9/x"
    with pytest.raises(OperatorError, match="the port in RUNWARD_LISTEN_URL"):
        await migrations.upgrade(nowhere, variable="RUNWARD_LISTEN_URL")
    with pytest.raises(OperatorError, match="RUNWARD_LISTEN_URL is not a URL"):
        await migrations.upgrade("garbage", variable="RUNWARD_LISTEN_URL")


async def test_a_user_without_rights_is_told_which(empty_database_url: str) -> None:
    engine = create_async_engine(empty_database_url, poolclass=NullPool)
    url = make_url(empty_database_url)
    async with engine.begin() as connection:
        await connection.execute(text(f'CREATE ROLE "{url.database}" LOGIN'))
    try:
        narrow = url.set(username=url.database).render_as_string(hide_password=False)
        with pytest.raises(DatabaseRefusedError, match="GRANT CREATE ON SCHEMA public"):
            await migrations.upgrade(narrow)
    finally:
        async with engine.begin() as connection:
            await connection.execute(text(f'DROP ROLE "{url.database}"'))
        await engine.dispose()
