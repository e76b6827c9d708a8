"""Accepting runs: concurrent POSTs share one commit."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runward.domain.ids import RunId
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    is_closed,
    is_outage,
    sqlstate,
    was_rolled_back,
)
from runward.store.runs.group_commit import FlushResult
from runward.store.runs.queries import ACCEPT, ACCEPT_TOGETHER, NewRun, accept_values

_LOCK_NOT_AVAILABLE: Final = "55P03"


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """`tool_versions`: of the run's tools, as they were in the accepting commit."""

    at: datetime
    tool_versions: dict[str, int]


class AcceptWriter:
    """Unlike a step, an accept is not sent again when PostgreSQL goes away in the middle: the
    caller gets an error that says nothing about the outcome, and retries with its key."""

    def __init__(self, engine: AsyncEngine, lease: timedelta) -> None:
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._lease = lease
        self._connection: AsyncConnection | None = None

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError, OSError):
                await connection.invalidate()
            await connection.close()

    async def write(self, batch: Sequence[NewRun]) -> Sequence[FlushResult[AcceptedRun]]:
        try:
            values = accept_values(batch, self._lease)
            if self._connection is not None and await is_closed(self._connection):
                await self.close()
            if self._connection is None:
                self._connection = await self._engine.connect()
            rows = await self._connection.execute(ACCEPT_TOGETHER, values)
        except (*DATABASE_ERRORS, ValueError) as error:  # ValueError: no JSON can say it
            if isinstance(error, DBAPIError) and sqlstate(error) == _LOCK_NOT_AVAILABLE:
                return await self._write_separately(batch)
            if is_outage(error) and not was_rolled_back(error):
                await self.close()
                return [error] * len(batch)
            if len(batch) == 1:
                return [error]
            return [(await self.write([new]))[0] for new in batch]
        accepted = {row.id: AcceptedRun(row.at, row.tool_versions) for row in rows}
        return [accepted[new.id] for new in batch]

    async def _write_separately(
        self, batch: Sequence[NewRun]
    ) -> Sequence[FlushResult[AcceptedRun]]:
        """One of the keys is held by another transaction: each run with a key goes alone, and no
        other run waits for it."""
        free = [new for new in batch if new.idempotency is None]
        results: dict[RunId, FlushResult[AcceptedRun]] = {}
        if 0 < len(free) < len(batch):
            written = await self.write(free)
            results = {new.id: result for new, result in zip(free, written, strict=True)}
        return [results.get(new.id) or asyncio.create_task(self._write_one(new)) for new in batch]

    async def _write_one(self, new: NewRun) -> AcceptedRun:
        async with self._engine.connect() as tx:
            row = (await tx.execute(ACCEPT, accept_values([new], self._lease))).one()
        return AcceptedRun(row.at, row.tool_versions)
