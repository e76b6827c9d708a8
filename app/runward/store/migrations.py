"""Bring a database to this code's schema, by Alembic, however many processes start at once.

Migrations only expand: the version before still runs on the new schema. So a revision that this
code does not know is a newer version's, and is left alone.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import structlog
from alembic import command, op
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Column, Connection, NullPool, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from runward.domain.errors import OperatorError
from runward.store.postgres.addresses import read_url
from runward.store.postgres.connection_errors import explaining
from runward.store.postgres.db import DRIVER, log_fields, sqlstate
from runward.store.readiness import MIGRATIONS

log = structlog.get_logger()

LOCK_KEY = 0x52756E77617264
"""Of the session's advisory lock: "Runward" in ASCII."""
LOCK_WAIT = timedelta(minutes=10)
LOCK_POLL = timedelta(milliseconds=100)
LOCK_ATTEMPTS = 60
LOCK_PAUSE = timedelta(seconds=2)
_SET_LOCK_TIMEOUT = "SET lock_timeout = '1s'"
"""Statements of the service queue behind a migration that waits for a table, so it waits briefly
and tries again."""
_LOCKED = ("55P03", "40P01")
"""Lock not available, deadlock."""


async def upgrade(
    url: str,
    secret_key: str | None = None,
    *,
    to: str = "head",
    variable: str = "DATABASE_URL",
) -> None:
    """Migrate to the head. Returns at once if the database has it; waits for another migrator.

    `secret_key`: for migrations that encrypt stored values. `to` is another revision, for tests.
    Raises OperatorError; SecretKeyNeededError and WrongSecretKeyError if there are such values and
    it cannot encrypt them. Messages name `variable`, which holds the address.
    """
    async with _connect(url, variable) as connection:
        if await connection.run_sync(_has_head):
            return
        async with _lock(connection):
            for _ in range(LOCK_ATTEMPTS):
                try:
                    await connection.run_sync(_upgrade, secret_key, to)
                except DBAPIError as error:
                    if sqlstate(error) not in _LOCKED:
                        raise
                    await connection.rollback()
                    log.warning("migration_waits_for_lock", **log_fields(error))
                else:
                    return
                await asyncio.sleep(LOCK_PAUSE.total_seconds())
    raise OperatorError(
        "A migration did not get its lock on a table: other transactions held it at each of"
        f" {LOCK_ATTEMPTS} attempts. End long transactions (see pg_stat_activity) and run it again."
    )


def add_index(name: str, table: str, columns: Sequence[str], **options: Any) -> None:
    """For a migration that does nothing else: build an index without blocking writes.

    A build that was interrupted leaves an invalid index, which is replaced.
    """
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")  # it waits for old transactions, and nobody for it
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
        op.execute(_SET_LOCK_TIMEOUT)


async def current(url: str) -> str | None:
    """The database's revision; None before the first migration."""
    async with _connect(url) as connection:
        return await connection.run_sync(_revision)


async def is_current(url: str) -> bool:
    """True: the database has this code's schema, or a newer version's."""
    async with _connect(url) as connection:
        return await connection.run_sync(_has_head)


def head() -> str | None:
    return ScriptDirectory.from_config(_config()).get_current_head()


def default_differs(
    _context: object,
    _found_column: object,
    column: "Column[object]",
    found: str | None,
    _default: object,
    wanted: str | None,
) -> bool | None:
    """For Alembic's comparison: json has no equality, so its text decides. None: ask PostgreSQL."""
    if not isinstance(column.type, JSON):
        return None
    return (found or "").partition("::")[0] != (wanted or "").partition("::")[0]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


@asynccontextmanager
async def _connect(url: str, variable: str = "DATABASE_URL") -> AsyncGenerator[AsyncConnection]:
    """Setting `jit` finds out PgBouncer, which refuses it and gives no session to migrate in."""
    address = read_url(url, variable)
    settings = {"application_name": "runward", **address.server_settings, "jit": "off"}
    arguments = {"dsn": address.dsn, "timeout": address.seconds, "server_settings": settings}
    engine = create_async_engine(DRIVER, poolclass=NullPool, connect_args=arguments)
    try:
        with explaining(address, variable):
            async with engine.connect() as connection:
                yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _lock(connection: AsyncConnection) -> AsyncGenerator[None]:
    """Asks again and again: a session blocked in pg_advisory_lock holds a snapshot, for which the
    migrator's CREATE INDEX CONCURRENTLY would wait, while that session waits for the migrator.
    """
    try:
        async with asyncio.timeout(LOCK_WAIT.total_seconds()):
            while not await _scalar(connection, "SELECT pg_try_advisory_lock(:key)"):  # noqa: ASYNC110
                await asyncio.sleep(LOCK_POLL.total_seconds())
    except TimeoutError:
        raise OperatorError("Another process has been migrating this database for long.") from None
    try:
        yield
    finally:
        await connection.rollback()
        await _scalar(connection, "SELECT pg_advisory_unlock(:key)")


async def _scalar(connection: AsyncConnection, statement: str) -> object:
    value = await connection.scalar(text(statement), {"key": LOCK_KEY})
    await connection.commit()
    return value


def _revision(connection: Connection) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    connection.rollback()
    return revision


def _has_head(connection: Connection) -> bool:
    scripts = ScriptDirectory.from_config(_config())
    older = {script.revision for script in scripts.walk_revisions()} - {scripts.get_current_head()}
    revision = _revision(connection)
    return revision is not None and revision not in older


def _upgrade(connection: Connection, secret_key: str | None, to: str) -> None:
    if _has_head(connection):
        return
    connection.execute(text(_SET_LOCK_TIMEOUT))
    connection.commit()
    config = _config()
    config.attributes["connection"] = connection
    config.attributes["secret_key"] = secret_key
    command.upgrade(config, to)
