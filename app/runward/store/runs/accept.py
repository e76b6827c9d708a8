"""Accepting runs: concurrent POSTs share one commit."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.run.family import list_tool_names
from runward.domain.run.state import Changes, RunState
from runward.store import codec
from runward.store.postgres.columns import RowMapping, insert_select, recordset, take
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    is_closed,
    is_outage,
    sqlstate,
    was_rolled_back,
)
from runward.store.postgres.tables import runs
from runward.store.runs.group_commit import FlushResult
from runward.store.runs.records import RECORDS, Records, rows_to_json

_LOCK_NOT_AVAILABLE: Final = "55P03"


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to accept. `lease`: the accepting process claims it at once. `waits`: no worker claims
    it before the earlier runs of its session have ended."""

    state: RunState
    """As it is before its first event. Its version and fence are those of a new run."""
    changes: Changes
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    agent_version: int | None = None
    continued_from: RunId | None = None
    lease: bool = False
    waits: bool = False
    idempotency: tuple[str, str, str] | None = None
    """The key, the route and the body's digest."""

    @property
    def id(self) -> RunId:
        return self.state.id

    @property
    def tool_names(self) -> tuple[str, ...]:
        return list_tool_names(self.state.config, self.state.team)


_ORIGIN: Final = RowMapping(
    NewRun, runs, only=("metadata", "agent_version", "continued_from", "tool_names")
)
_GIVEN: Final = (
    *codec.STATE.columns,
    *_ORIGIN.columns,
    *codec.LINEAGE.columns,
    *codec.PLACE.columns,
)
_NO_LINEAGE: Final[dict[str, Any]] = {"ancestors": (), "path": ()}
_RUNS: Final = recordset(
    runs,
    "steps",
    "s",
    _GIVEN,
    "k int, lease bool, waits bool, deadline float8, key text, route text, body_digest text",
)
_INSERTED: Final = {
    **take("s", _GIVEN),
    "status": "CASE WHEN s.lease THEN 'in_progress' ELSE 'queued' END",
    "tool_versions": "coalesce((SELECT json_object_agg(t.name, t.version) FROM tools t"
    " WHERE t.project_id = s.project_id AND t.deleted_at IS NULL"
    " AND t.name = ANY(s.tool_names)), '{}')",
    "available_at": "CASE WHEN s.waits THEN 'infinity' ELSE clock_timestamp() END",
    "fence": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "claims": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "lease_expires_at": "CASE WHEN s.lease THEN clock_timestamp() + CAST(:lease AS interval) END",
    "started_at": "CASE WHEN s.lease THEN statement_timestamp() END",
    "last_seq": "s.k",
    "deadline_at": "statement_timestamp() + make_interval(secs => s.deadline)",
    "created_at": "statement_timestamp()",
}


def _accept(lock_timeout: str = "", source: str = "") -> TextClause:
    return text(
        f"""
WITH {lock_timeout}s AS (
  SELECT s.* FROM {source}{_RUNS}
), g AS (
  {insert_select(runs, _INSERTED)}
  FROM s
  RETURNING project_id, id, last_seq, last_seq AS k, created_at AS at, tool_versions, deadline_at
),{RECORDS}, keys AS (
  INSERT INTO idempotency_keys (project_id, key, route, body_digest, resource_id, expires_at)
  SELECT s.project_id, s.key, s.route, s.body_digest, s.id,
    clock_timestamp() + interval '24 hours'
  FROM s WHERE s.key IS NOT NULL ORDER BY s.project_id, s.key
), hint AS MATERIALIZED (
  SELECT CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT g.id, g.at, g.tool_versions FROM g CROSS JOIN hint"""
    )


ACCEPT: Final = _accept()
ACCEPT_TOGETHER: Final = _accept(
    "hurry AS MATERIALIZED (SELECT set_config('lock_timeout', '100ms', true)), ",
    "hurry CROSS JOIN ",
)
"""For the runs of several requests. It fails if it has to wait long, for example because another
transaction holds one of the keys."""


def accept_values(batch: Sequence[NewRun], lease: timedelta) -> dict[str, Any]:
    """Return the parameters of ACCEPT."""
    records = Records()
    for new in batch:
        records.add(new.id, new.changes)
    return {
        "steps": rows_to_json(map(_row, batch)),
        "lease": lease,
        "wakes": any(not (new.lease or new.waits) for new in batch),
        **records.to_parameters(),
    }


def _row(new: NewRun) -> dict[str, Any]:
    state = new.state
    key, route, body_digest = new.idempotency or (None, None, None)
    return {
        **codec.STATE.to_row(state),
        **_ORIGIN.to_row(new),
        **(codec.LINEAGE.to_row(state.lineage) if state.lineage else _NO_LINEAGE),
        **(codec.PLACE.to_row(state.place) if state.place else {}),
        "k": len(new.changes.events),
        "lease": new.lease,
        "waits": new.waits,
        "deadline": state.config.limits.deadline_seconds,
        "key": key,
        "route": route,
        "body_digest": body_digest,
    }


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
        """Write each run with a key alone, since another transaction holds one of the keys, so that
        no other run waits for it."""
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
