"""The environment of Alembic. It uses the connection of `runward.store.migration_scripts` or, as a
command, its own connection."""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection, NullPool

from runward.store.migration_scripts import default_differs, is_compared
from runward.store.postgres import embedded
from runward.store.postgres.addresses import read_url
from runward.store.postgres.db import DRIVER
from runward.store.postgres.engine import create_async_engine
from runward.store.postgres.tables import metadata


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        transaction_per_migration=True,
        compare_server_default=default_differs,
        include_object=is_compared,
    )
    with context.begin_transaction():
        context.run_migrations()


async def migrate_from_command_line(url: str) -> None:
    engine = create_async_engine(
        DRIVER, poolclass=NullPool, connect_args={"dsn": read_url(url).dsn}
    )
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


def main() -> None:
    """Run a developer's `alembic revision --autogenerate` on DATABASE_URL or the embedded
    database."""
    if url := os.environ.get("DATABASE_URL"):
        asyncio.run(migrate_from_command_line(url))
        return
    server = embedded.open_server(embedded.default_data_dir(), report=print)
    try:
        asyncio.run(migrate_from_command_line(server.url))
    finally:
        server.close()


given: Connection | None = context.config.attributes.get("connection")
if given is None:
    main()
else:
    migrate(given)
