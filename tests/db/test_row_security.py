"""Row-level security: the policies in the database, and the project of each connection."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import NullPool, insert, make_url, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine

from runward.domain.errors import OperatorError
from runward.operating.findings import check_row_security
from runward.store import migrations
from runward.store.postgres import row_security
from runward.store.postgres.db import Database, open_database
from runward.store.postgres.project_scope import all_projects, allow_no_project, restrict_to
from runward.store.postgres.tables import projects, secrets
from tests.support.postgres import Databases

ONE, OTHER = UUID(int=1), UUID(int=2)
SECRET = {"name": "token", "value": b"x", "version": 1}
UNPROTECTED = text(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    " AND NOT (relrowsecurity AND relforcerowsecurity)"
)


@pytest.fixture
def secured_url(migrated_databases: Databases) -> Iterator[str]:
    with migrated_databases.secured() as url:
        yield url


@pytest.fixture
def owner_url(secured_url: str, database_url: str) -> str:
    """The same database with the role that owns it, which is a superuser."""
    url = make_url(database_url).set(database=make_url(secured_url).database)
    return url.render_as_string(hide_password=False)


@asynccontextmanager
async def opened(url: str, pool_size: int = 1, **options: Any) -> AsyncGenerator[Database]:
    database = open_database(url, pool_size=pool_size, **options)
    try:
        yield database
    finally:
        await database.close()


@asynccontextmanager
async def enforced(url: str) -> AsyncGenerator[Database]:
    """A database with two projects, on one connection that is restricted."""
    async with opened(url) as database:
        await row_security.enforce(database)
        async with database.pool.begin() as tx:
            for one in (ONE, OTHER):
                await tx.execute(insert(projects).values(id=one, name=one.hex))
                await tx.execute(insert(secrets).values(project_id=one, **SECRET))
        yield database


async def seen(database: Database) -> list[UUID]:
    """The projects whose secrets a query without a condition finds."""
    async with database.autocommit.connect() as tx:
        query = select(secrets.c.project_id).order_by(secrets.c.project_id)
        return list((await tx.execute(query)).scalars())


async def test_every_table_with_rows_of_projects_has_a_forced_policy(secured_url: str) -> None:
    async with opened(secured_url) as database, database.pool.connect() as tx:
        assert await row_security.find_unprotected(tx) == []
        found = set((await tx.execute(UNPROTECTED)).scalars())
    assert found == row_security.SHARED_TABLES | {"alembic_version"}


async def test_a_task_sees_the_rows_of_its_project(secured_url: str) -> None:
    async with enforced(secured_url) as database:
        assert await seen(database) == [ONE, OTHER]
        restrict_to(ONE)
        assert await seen(database) == [ONE]
        with all_projects():
            assert await seen(database) == [ONE, OTHER]
        assert await seen(database) == [ONE]
        allow_no_project()
        assert await seen(database) == []


async def test_a_task_writes_no_row_of_another_project(secured_url: str) -> None:
    async with enforced(secured_url) as database:
        restrict_to(ONE)
        with pytest.raises(DBAPIError, match="row-level security"):
            async with database.pool.begin() as tx:
                await tx.execute(insert(secrets).values(project_id=OTHER, **SECRET | {"name": "b"}))
        async with database.pool.begin() as tx:
            await tx.execute(text("UPDATE secrets SET version = 2"))
            await tx.execute(text("DELETE FROM secrets WHERE version = 1"))
        with all_projects():
            assert await seen(database) == [ONE, OTHER]


async def test_tasks_at_the_same_time_have_their_own_projects(secured_url: str) -> None:
    async with enforced(secured_url) as database:

        async def look(project_id: UUID) -> list[list[UUID]]:
            restrict_to(project_id)
            return [await seen(database) for _ in range(20)]

        found = await asyncio.gather(look(ONE), look(OTHER))
        assert found == [[[ONE]] * 20, [[OTHER]] * 20]
        assert await seen(database) == [ONE, OTHER]


async def test_the_project_is_set_only_if_the_connection_has_another(secured_url: str) -> None:
    async with enforced(secured_url) as database:
        sent: list[str] = []

        def log(record: Any) -> None:
            sent.append(record.query)

        async with database.pool.connect() as tx:
            driver: Any = (await tx.get_raw_connection()).driver_connection
            driver.add_query_logger(log)
        for project_id in (ONE, ONE, OTHER, OTHER):
            restrict_to(project_id)
            assert await seen(database) == [project_id]
        assert sum("set_config" in one for one in sent) == 2


async def test_a_new_connection_has_no_project_of_a_lost_one(secured_url: str) -> None:
    async with enforced(secured_url) as database:
        restrict_to(ONE)
        assert await seen(database) == [ONE]
        async with database.pool.connect() as tx:
            driver: Any = (await tx.get_raw_connection()).driver_connection
            driver.terminate()
        assert await seen(database) == [ONE]
        with all_projects():
            assert await seen(database) == [ONE, OTHER]


async def test_without_policies_nothing_is_set(database_url: str) -> None:
    async with enforced(database_url) as database:
        restrict_to(ONE)
        assert await seen(database) == [ONE, OTHER]


async def test_a_session_without_a_project_sees_nothing(secured_url: str) -> None:
    async with enforced(secured_url):
        engine = create_async_engine(secured_url, poolclass=NullPool)
        async with engine.connect() as tx:
            assert list(await tx.execute(select(secrets))) == []
        await engine.dispose()


async def test_a_migration_protects_the_tables_of_a_later_version(
    secured_url: str, owner_url: str
) -> None:
    async with opened(owner_url) as database:
        async with database.pool.begin() as tx:
            for statement in row_security.list_statements("budgets", enabled=False):
                await tx.execute(text(statement))
            assert await row_security.find_unprotected(tx) == ["budgets"]
            finding = await check_row_security(tx)
            assert (finding.status, finding.detail) == ("fail", "1 tables have no policy: budgets")
        await migrations.upgrade(owner_url)
        async with database.pool.connect() as tx:
            assert await row_security.find_unprotected(tx) == []
            assert (await check_row_security(tx)).status == "warn", "the owner is a superuser"
    async with opened(secured_url) as database, database.pool.connect() as tx:
        assert (await check_row_security(tx)).status == "ok"


async def test_the_policies_are_removed(secured_url: str, owner_url: str) -> None:
    async with enforced(secured_url) as database:
        await migrations.set_row_security(owner_url, enabled=False)
        restrict_to(ONE)
        assert await seen(database) == [ONE, OTHER]
        async with database.pool.connect() as tx:
            assert not await row_security.is_enabled(tx)
            assert list(await tx.execute(text("SELECT 1 FROM pg_policies"))) == []


async def test_only_the_owner_changes_the_policies(secured_url: str) -> None:
    with pytest.raises(OperatorError, match="does not own the tables"):
        await migrations.set_row_security(secured_url, enabled=False)


async def test_pgbouncer_cannot_keep_the_project(secured_url: str) -> None:
    async with opened(secured_url, through_pgbouncer=True) as database:
        with pytest.raises(OperatorError, match="RUNWARD_PGBOUNCER"):
            await row_security.enforce(database)


async def test_a_database_that_is_not_migrated_has_no_policies(empty_database_url: str) -> None:
    """Through PgBouncer, a process would otherwise refuse to start with another reason."""
    async with opened(empty_database_url, through_pgbouncer=True) as database:
        await row_security.enforce(database)
        async with database.pool.connect() as tx:
            assert not await row_security.is_enabled(tx)
    await migrations.upgrade(empty_database_url, revision="0020")
    async with opened(empty_database_url) as database, database.pool.connect() as tx:
        assert not await row_security.is_enabled(tx)


async def test_a_role_that_bypasses_the_policies_is_reported(
    secured_url: str, owner_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(owner_url) as database:
        await row_security.enforce(database)
    assert "row_level_security_bypassed" in capsys.readouterr().out
