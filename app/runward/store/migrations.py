"""The migration of a database to the schema of this code with Alembic. Any number of processes may
start at once.

Migrations only expand the schema, so that the previous version still works with it. A revision that
this code does not know belongs to a newer version and is not changed.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection, NullPool, text
from sqlalchemy.exc import DBAPIError

from runward.domain.errors import OperatorError
from runward.store import readiness
from runward.store.postgres import row_security
from runward.store.postgres.addresses import read_url
from runward.store.postgres.connection_errors import explain_connection_errors
from runward.store.postgres.db import DRIVER, SET_LOCK_TIMEOUT, Tx, log_fields, sqlstate
from runward.store.postgres.engine import AsyncConnection, create_async_engine
from runward.store.postgres.project_scope import ALL_PROJECTS, SETTING

log = structlog.get_logger()

T = TypeVar("T")

LOCK_KEY = 0x52756E77617264
"""Key of the session's advisory lock: "Runward" in ASCII."""
LOCK_WAIT = timedelta(minutes=10)
LOCK_POLL = timedelta(milliseconds=100)
LOCK_ATTEMPTS = 60
LOCK_PAUSE = timedelta(seconds=2)
_NOT_OWNER = "42501"
_LOCKED = ("55P03", "40P01")
"""SQLSTATEs of lock not available, and deadlock."""


async def upgrade(
    url: str,
    secret_key: str | None = None,
    *,
    revision: str = "head",
    variable: str = "DATABASE_URL",
) -> None:
    """Migrate the database to the newest revision. Return at once if the database has it. Wait if
    another process migrates.

    `secret_key`: the value of RUNWARD_SECRET_KEY, for migrations that encrypt stored values.
    `revision`: another revision, for tests. `variable`: the variable that contains the address,
    for messages. Raises OperatorError.
    If stored values must be encrypted, raises SecretKeyNeededError without a key and
    WrongSecretKeyError with a wrong key.
    """
    async with _connect(url, variable) as connection:
        if not await _is_current(connection):
            async with _lock(connection):
                upgrade_once = partial(_upgrade_once, connection, secret_key, revision)
                await _retry_while_locked(connection, upgrade_once)
        if await _read(connection, row_security.is_enabled):
            await _protect(connection, enabled=True)


async def set_row_security(url: str, *, enabled: bool) -> None:
    """Enable or disable row-level security in a migrated database. Raises OperatorError, for
    example if the role does not own the tables."""
    async with _connect(url) as connection:
        await _read(connection, readiness.check_schema)
        async with _lock(connection):
            try:
                await _protect(connection, enabled=enabled)
            except DBAPIError as error:
                if sqlstate(error) != _NOT_OWNER:
                    raise
                raise OperatorError(
                    "This role does not own the tables. Set DATABASE_URL to the role that runs"
                    " `python -m runward migrate`."
                ) from None


async def _protect(connection: AsyncConnection, *, enabled: bool) -> None:
    """Add or remove the policies, with one transaction for each table."""
    tables = row_security.list_tables()
    if enabled:
        tables = await _read(connection, row_security.find_unprotected)
    for table in tables:
        statements = row_security.list_statements(table, enabled=enabled)
        await _retry_while_locked(connection, partial(_execute, connection, statements))


async def _execute(connection: AsyncConnection, statements: Sequence[str]) -> None:
    await connection.execute(text(SET_LOCK_TIMEOUT))
    for statement in statements:
        await connection.execute(text(statement))
    await connection.commit()


async def _upgrade_once(connection: AsyncConnection, secret_key: str | None, revision: str) -> None:
    if not await _is_current(connection):
        await connection.run_sync(_upgrade, secret_key, revision)


async def _retry_while_locked(
    connection: AsyncConnection, change: Callable[[], Awaitable[None]]
) -> None:
    """Change the schema, and retry while other transactions lock a table. Raises OperatorError."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            return await change()
        except DBAPIError as error:
            if sqlstate(error) not in _LOCKED:
                raise
            await connection.rollback()
            log.warning("migration_waits_for_lock", **log_fields(error))
        await asyncio.sleep(LOCK_PAUSE.total_seconds())
    raise OperatorError(
        "The migration could not lock a table, because other transactions locked "
        f"it during each of {LOCK_ATTEMPTS} attempts. End long transactions (see "
        "pg_stat_activity), then run the migration again."
    )


@asynccontextmanager
async def _connect(url: str, variable: str = "DATABASE_URL") -> AsyncGenerator[AsyncConnection]:
    """Yield a connection. The setting `jit` detects PgBouncer, which rejects the setting and
    provides no session for a migration."""
    address = read_url(url, variable)
    settings = {"application_name": "runward", **address.server_settings, "jit": "off"}
    settings[SETTING] = ALL_PROJECTS
    arguments = {"dsn": address.dsn, "timeout": address.seconds, "server_settings": settings}
    engine = create_async_engine(DRIVER, poolclass=NullPool, connect_args=arguments)
    try:
        with explain_connection_errors(address, variable):
            async with engine.connect() as connection:
                yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _lock(connection: AsyncConnection) -> AsyncGenerator[None]:
    """Hold the lock, which is acquired by polling. A session that is blocked in pg_advisory_lock
    holds a snapshot. The migrator's CREATE INDEX CONCURRENTLY would wait for this snapshot, and the
    session would wait for the migrator."""
    try:
        async with asyncio.timeout(LOCK_WAIT.total_seconds()):
            while not await _scalar(connection, "SELECT pg_try_advisory_lock(:key)"):  # noqa: ASYNC110
                await asyncio.sleep(LOCK_POLL.total_seconds())
    except TimeoutError:
        raise OperatorError(
            "Another process is still migrating this database. Wait until it has "
            "finished, then try again."
        ) from None
    try:
        yield
    finally:
        await connection.rollback()
        await _scalar(connection, "SELECT pg_advisory_unlock(:key)")


async def _scalar(connection: AsyncConnection, statement: str) -> object:
    value = await connection.scalar(text(statement), {"key": LOCK_KEY})
    await connection.commit()
    return value


async def _read(connection: AsyncConnection, query: Callable[[Tx], Awaitable[T]]) -> T:
    try:
        return await query(connection)
    finally:
        await connection.rollback()


async def _is_current(connection: AsyncConnection) -> bool:
    try:
        await _read(connection, readiness.check_schema)
    except readiness.UnmigratedDatabaseError:
        return False
    return True


def _upgrade(connection: Connection, secret_key: str | None, to: str) -> None:
    # Importing Alembic takes a quarter of a second, and at most starts the database is up to date.
    from runward.store.migration_scripts import run_scripts  # noqa: PLC0415

    run_scripts(connection, secret_key, to)
