"""Connections to the database. Statements use SQLAlchemy Core. Frequent statements are `text()` on
AUTOCOMMIT."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast
from uuid import UUID

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import structlog
from asyncpg.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    InterfaceError,
    InternalClientError,
    TargetServerAttributeNotMatched,
)
from pydantic_core import from_json
from sqlalchemy import ColumnElement, Select, event, exc, text
from sqlalchemy.exc import DBAPIError
from uuid_utils.compat import uuid7

from runward.domain.errors import OperatorError
from runward.domain.json import compact
from runward.store.postgres.addresses import CONNECT_SECONDS, DatabaseAddress, read_url
from runward.store.postgres.connection_errors import explain_connection_errors
from runward.store.postgres.engine import AsyncConnection, AsyncEngine, create_async_engine
from runward.store.postgres.pool import ShrinkingPool
from runward.store.postgres.project_scope import ALL_PROJECTS, SETTING

log = structlog.get_logger()

Tx: TypeAlias = AsyncConnection
"""An open transaction. Query functions use it and never commit. The function that opened it
commits."""

T = TypeVar("T")

OUTAGE_RETRY_SECONDS: Final = 0.5
"""Seconds between two reads while PostgreSQL is unavailable."""
SURPLUS_SECONDS: Final = 10.0
"""Seconds between two times when the pool closes connections that it does not need."""
STATEMENT_TIMEOUT: Final = timedelta(seconds=30)
SET_LOCK_TIMEOUT: Final = "SET lock_timeout = '1s'"
"""Maximum wait of a migration for a table's lock. Statements of the service queue behind the
migration, so it waits briefly and retries."""
DRIVER: Final = "postgresql+asyncpg://"
"""Prefix of the URL for SQLAlchemy. The driver gets the address separately and reads it like
libpq."""
_IDLE_TIMEOUT: Final = "30s"
"""How long a process that freezes in a transaction can hold its locks."""
DATABASE_ERRORS: Final = (DBAPIError, exc.TimeoutError, OSError)
"""Errors that a statement can raise. Use `is_outage` to classify them. exc.TimeoutError: no
connection of the pool became free."""
UNREADABLE: Final = {"unreadable": "This value cannot be read."}
"""Replaces a stored JSON value that is nested too deeply or contains a number that is too long."""
READ_ONLY: Final = "25006"
_LAST_FIXED_OID: Final = 9999
"""Types with an OID up to this are the same in every PostgreSQL."""
_CONNECTION_ERRORS: Final = (
    InterfaceError,
    InternalClientError,
    TargetServerAttributeNotMatched,
    exc.TimeoutError,
    OSError,
)
"""Errors without an SQLSTATE. InternalClientError: the connection was lost inside a message, which
the driver cannot parse. TargetServerAttributeNotMatched: the address requires a primary, and during
a failover no host is one."""
_OUTAGE_CLASSES: Final = ("08", "40", "53", "55", "57", "58", READ_ONLY)
"""SQLSTATE classes: connection, rollback, resources, lock not available, operator, system, and
"read only", which the old primary returns after a failover."""


class Connection(asyncpg.Connection):
    """A connection that looks up PostgreSQL's types, such as arrays, once in each process. By
    default, each connection of the driver looks them up with a query that takes longer than a step
    of a run."""

    _types: ClassVar[dict[frozenset[int], Any]] = {}

    async def _introspect_types(
        self,
        typeoids: Iterable[int],
        timeout: float | None,  # noqa: ASYNC109 - the signature is the driver's
    ) -> Any:
        oids = frozenset(typeoids)
        if (found := self._types.get(oids)) is None:
            look_up = cast("Any", super())._introspect_types
            found = await look_up(oids, timeout)
            if max(oids) <= _LAST_FIXED_OID:
                self._types[oids] = found
        return found


class UnsafeDatabaseError(OperatorError):
    """The database may lose acknowledged commits, or is too old."""


@dataclass(frozen=True, slots=True)
class Database:
    """The connections of a process. `pool` serves requests. The committers and the listener have
    their own connections."""

    pool: AsyncEngine
    url: str
    through_pgbouncer: bool = False

    @property
    def autocommit(self) -> AsyncEngine:
        """Return the same pool with a separate transaction for each statement."""
        return self.pool.execution_options(isolation_level="AUTOCOMMIT")

    async def close(self) -> None:
        await self.pool.dispose()

    async def close_surplus_forever(self) -> None:
        """Close connections that the pool no longer needs, until cancelled."""
        while True:
            await asyncio.sleep(SURPLUS_SECONDS)
            try:
                await self.close_surplus()
            except DATABASE_ERRORS as error:
                log.warning("surplus_not_closed", **log_fields(error))

    async def close_surplus(self) -> None:
        """Close the connections that were not needed since the last call, except for a few."""
        pool = cast("ShrinkingPool", self.pool.sync_engine.pool)
        async with self.pool.connect() as tx:
            await tx.run_sync(lambda _: pool.close_surplus())


def open_database(
    url: str, *, pool_size: int, through_pgbouncer: bool = False, name: str = "DATABASE_URL"
) -> Database:
    """Open a pool of connections. `name` is the variable that contains the URL. Raises
    DatabaseUrlError."""
    pool = _engine(read_url(url, name), pool_size, through_pgbouncer=through_pgbouncer)
    return Database(pool, url, through_pgbouncer)


def _engine(address: DatabaseAddress, pool_size: int, *, through_pgbouncer: bool) -> AsyncEngine:
    server_settings = {"application_name": "runward", "timezone": "UTC", **address.server_settings}
    arguments: dict[str, Any] = {
        "dsn": address.dsn,
        "timeout": address.seconds,
        "command_timeout": STATEMENT_TIMEOUT.total_seconds(),
        "connection_class": Connection,
        "server_settings": server_settings,
    }
    if through_pgbouncer:  # PgBouncer rejects settings that it does not know.
        arguments |= {"statement_cache_size": 0, "prepared_statement_cache_size": 0}
    else:
        server_settings |= {
            "jit": "off",
            # A plan that was cached while the tables were small must not read them whole later.
            "enable_seqscan": "off",
            "idle_in_transaction_session_timeout": _IDLE_TIMEOUT,
            SETTING: ALL_PROJECTS,
        }
    engine = create_async_engine(
        DRIVER,
        poolclass=ShrinkingPool,
        pool_size=pool_size,
        pool_use_lifo=True,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_reset_on_return=None,
        json_deserializer=_read_json,
        json_serializer=compact,
        hide_parameters=True,  # Parameters contain arguments and prompts, and errors are logged.
        connect_args=arguments,
    )
    event.listen(engine.sync_engine, "checkout", _replace_if_closed)
    return engine


def _replace_if_closed(connection: Any, *_: object) -> None:
    """Make the pool replace a connection that was lost while it was idle. Otherwise the first
    request after an outage would fail."""
    if connection.driver_connection.is_closed():
        raise exc.DisconnectionError


def _read_json(value: str) -> Any:
    """Parse a JSON column. A value that cannot be parsed must not make the other rows fail."""
    try:
        return from_json(value)
    except ValueError:
        return UNREADABLE


async def check_safety(database: Database) -> None:
    """Check that the server cannot lose acknowledged commits. Raises UnsafeDatabaseError, and
    another OperatorError if no connection is possible."""
    with explain_connection_errors(read_url(database.url)):
        async with database.pool.connect() as tx:
            row = (
                await tx.execute(
                    text(
                        "SELECT current_setting('server_version_num')::int AS version,"
                        " current_setting('fsync') AS fsync,"
                        " current_setting('synchronous_commit') AS synchronous_commit"
                    )
                )
            ).one()
    if row.version < 150_000:
        raise UnsafeDatabaseError("Runward needs PostgreSQL 15 or newer.")
    if row.fsync != "on" or row.synchronous_commit == "off":
        raise UnsafeDatabaseError(
            "PostgreSQL is configured with fsync or synchronous_commit off, so it "
            "can lose acknowledged writes. Turn both settings on."
        )


async def check_address(url: str, variable: str) -> None:
    """Check that `url` leads to a database that accepts this process. Raises OperatorError."""
    address = read_url(url, variable)
    connect = cast("Any", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
    with explain_connection_errors(address, variable):
        connection = await connect(
            address.dsn, timeout=address.seconds, server_settings=address.server_settings
        )
    connection.terminate()


def sqlstate(error: DBAPIError) -> str:
    return str(getattr(error.orig, "sqlstate", None) or "")


def was_rolled_back(error: BaseException) -> bool:
    """Return whether PostgreSQL rolled back the statement because of other transactions, as in a
    deadlock, so that it can be sent again. False if the outcome is unknown (40003)."""
    return isinstance(error, DBAPIError) and sqlstate(error) in ("40001", "40002", "40P01")


def log_fields(error: BaseException) -> dict[str, str]:
    """Return an error's type, SQLSTATE and reason for a log line, and never the statement or its
    values."""
    cause = getattr(error, "orig", None) or error
    fields = {"error": type(error).__name__, "reason": str(cause).partition("\n")[0][:200]}
    state = str(getattr(cause, "sqlstate", None) or "")
    return {**fields, "sqlstate": state} if state else fields


def is_outage(error: BaseException) -> bool:
    """Return whether PostgreSQL was unavailable, restarting or overloaded, or had to cancel the
    statement. The statement itself is correct, so a retry can succeed. It is unknown whether a
    commit happened."""
    match error:
        case BaseExceptionGroup():
            return all(is_outage(inner) for inner in error.exceptions)
        case DBAPIError():
            causes = [one for one in (error.orig, error.orig and error.orig.__cause__) if one]
            if any(isinstance(one, ValueError) for one in causes):
                return False  # The driver could not encode a parameter.
            return (
                error.connection_invalidated
                or isinstance(error, exc.InterfaceError)
                or any(is_outage(one) for one in causes)
            )
        case _ if isinstance(state := getattr(error, "sqlstate", None), str):
            return state.startswith(_OUTAGE_CLASSES)
        case _:
            return isinstance(error, _CONNECTION_ERRORS) and not isinstance(error, ValueError)


def is_statement_timeout(error: BaseException) -> bool:
    """Return whether a statement took too long, for example because another transaction held a
    lock. Only this statement is affected. Others may succeed."""
    if isinstance(error, DBAPIError):
        return sqlstate(error) in ("55P03", "57014")
    return isinstance(error, TimeoutError)


async def retry_on_outage(read: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `read`, and retry it until PostgreSQL is available. `read` may run
    twice, so it must be a read or an idempotent write."""
    while True:
        try:
            return await read()
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
        await asyncio.sleep(OUTAGE_RETRY_SECONDS)


async def read_clock(tx: Tx) -> datetime:
    """Return the database's time."""
    return (await tx.execute(text("SELECT clock_timestamp()"))).scalar_one()


def mint() -> UUID:
    """Return an ID for a new row. UUIDv7 (RFC 9562): IDs are ordered by the creation time of their
    rows."""
    return uuid7()


async def notify_tools(tx: Tx, project_id: UUID) -> None:
    """Notify all processes that a project's tools, agents, policies or secrets have changed, so
    that they clear their caches."""
    await tx.execute(text("SELECT pg_notify('runward_tools', :id)"), {"id": project_id.hex})


def select_page(
    query: Select[*tuple[Any, ...]],
    key: ColumnElement[Any],
    *,
    after: Any,
    limit: int,
    descending: bool,
) -> Select[*tuple[Any, ...]]:
    """Order the rows by the unique `key`, and return those after the key `after`."""
    if after is not None:
        query = query.where(key < after if descending else key > after)
    return query.order_by(key.desc() if descending else key).limit(limit)
