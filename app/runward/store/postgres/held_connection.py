"""A connection for the most frequent statements, which the driver executes without SQLAlchemy."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from asyncpg import PostgresError  # pyright: ignore[reportMissingTypeStubs]
from asyncpg.exceptions import (  # pyright: ignore[reportMissingTypeStubs]
    InterfaceError,
    InternalClientError,
)
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.exc import DBAPIError

from runward.store.postgres.db import (
    DATABASE_ERRORS,
    is_outage,
    is_statement_timeout,
    was_rolled_back,
)
from runward.store.postgres.engine import AsyncConnection, AsyncEngine
from runward.store.postgres.project_scope import all_projects


class FrequentStatement:
    """A statement in the form that the driver expects."""

    def __init__(self, clause: TextClause) -> None:
        self.text = clause.text
        compiled: Any = clause.compile(dialect=PGDialect_asyncpg())
        self.sql: str = compiled.string
        self.parameters: tuple[str, ...] = tuple(compiled.positiontup)


class HeldConnection:
    """A connection that is taken from the pool when it is first needed, and replaced after it is
    lost. It executes one statement at a time, each in a separate transaction."""

    def __init__(self, engine: AsyncEngine, backends: set[int] | None = None) -> None:
        """`backends`: contains the process ID of the connection's server process while it is
        open."""
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._backends = set[int]() if backends is None else backends
        self._connection: AsyncConnection | None = None
        self._driver: Any = None
        self._backend = 0
        self._turn = asyncio.Lock()

    async def fetch(self, statement: FrequentStatement, values: Mapping[str, Any]) -> Sequence[Any]:
        """Execute a statement, and return its rows as mappings. Raises one of DATABASE_ERRORS, as
        connections of the pool do."""
        arguments = [values[name] for name in statement.parameters]
        async with self._turn:
            try:
                driver = self._driver
                if driver is None or driver.is_closed():
                    await self.close()
                    driver = await self._open()
                return await driver.fetch(statement.sql, *arguments)
            except (PostgresError, InterfaceError, InternalClientError) as error:
                wrapped = DBAPIError(statement.sql, None, error, hide_parameters=True)
                await self._close_after(wrapped)
                raise wrapped from error
            except DATABASE_ERRORS as error:
                await self._close_after(error)
                raise

    async def close(self) -> None:
        """Close the connection. The next statement opens another one."""
        connection = self._connection
        self._connection = self._driver = None
        self._backends.discard(self._backend)
        if connection is not None:
            with suppress(DBAPIError, OSError):
                await connection.invalidate()
            await connection.close()

    async def _open(self) -> Any:
        with all_projects():  # a statement can write the steps of several projects
            self._connection = await self._engine.connect()
        self._driver = (await self._connection.get_raw_connection()).driver_connection
        self._backend = self._driver.get_server_pid()
        self._backends.add(self._backend)
        return self._driver

    async def _close_after(self, error: Exception) -> None:
        """Close the connection, unless only its statement has failed."""
        timed_out = isinstance(error, DBAPIError) and is_statement_timeout(error)
        if is_outage(error) and not was_rolled_back(error) and not timed_out:
            await self.close()
