"""The migration of a database to the schema of this code with Alembic. Any number of processes may
start at once.

Migrations only expand the schema, so that the previous version still works with it. A revision that
this code does not know belongs to a newer version and is not changed.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import structlog
from sqlalchemy import Connection, NullPool, text
from sqlalchemy.exc import DBAPIError

from runward.domain.errors import OperatorError
from runward.store import readiness
from runward.store.postgres.addresses import read_url
from runward.store.postgres.connection_errors import explain_connection_errors
from runward.store.postgres.db import DRIVER, log_fields, sqlstate
from runward.store.postgres.engine import AsyncConnection, create_async_engine

log = structlog.get_logger()

LOCK_KEY = 0x52756E77617264
"""Key of the session's advisory lock: "Runward" in ASCII."""
LOCK_WAIT = timedelta(minutes=10)
LOCK_POLL = timedelta(milliseconds=100)
LOCK_ATTEMPTS = 60
LOCK_PAUSE = timedelta(seconds=2)
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
        if await _is_current(connection):
            return
        async with _lock(connection):
            for _ in range(LOCK_ATTEMPTS):
                if await _is_current(connection):
                    return
                try:
                    await connection.run_sync(_upgrade, secret_key, revision)
                except DBAPIError as error:
                    if sqlstate(error) not in _LOCKED:
                        raise
                    await connection.rollback()
                    log.warning("migration_waits_for_lock", **log_fields(error))
                else:
                    return
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


async def _is_current(connection: AsyncConnection) -> bool:
    try:
        await readiness.check_schema(connection)
    except readiness.UnmigratedDatabaseError:
        return False
    finally:
        await connection.rollback()
    return True


def _upgrade(connection: Connection, secret_key: str | None, to: str) -> None:
    # Importing Alembic takes a quarter of a second, and at most starts the database is up to date.
    from runward.store.migration_scripts import run_scripts  # noqa: PLC0415

    run_scripts(connection, secret_key, to)
