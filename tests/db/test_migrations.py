import asyncio
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine

from app.store import migrations
from app.store.tables import metadata


async def test_many_processes_may_migrate_at_once(empty_database_url: str) -> None:
    assert not await migrations.is_current(empty_database_url)

    await asyncio.gather(*(migrations.upgrade(empty_database_url) for _ in range(4)))

    assert await migrations.current(empty_database_url) == migrations.head()
    assert await migrations.is_current(empty_database_url)


async def test_the_migrated_schema_is_the_one_in_the_models(database_url: str) -> None:
    def differences(connection: Connection) -> list[Any]:
        options = {"compare_server_default": migrations.default_differs}
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

    assert await migrations.current(database_url) == "from_the_future"
    assert await migrations.is_current(database_url)


def test_there_is_one_head() -> None:
    assert len(ScriptDirectory("migrations").get_heads()) == 1
