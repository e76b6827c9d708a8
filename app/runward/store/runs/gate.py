"""The gate: how a worker writes a run that it has leased. Many runs share one commit."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, count, repeat
from secrets import randbits
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

import structlog
from pydantic import JsonValue
from sqlalchemy import CursorResult, TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from runward.domain.events.run_data import ErrorSaid, LimitSaid
from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.guards import Stage
from runward.domain.run.response import Usage
from runward.domain.run.state import Changes
from runward.domain.run.status import MOVES, TERMINAL, Move
from runward.store import codec
from runward.store.postgres.columns import RowMapping, recordset, set_columns, take
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields, read_backend_pid
from runward.store.postgres.tables import runs
from runward.store.runs import family
from runward.store.runs.group_commit import FlushResult
from runward.store.runs.queries import lock_runs
from runward.store.runs.records import RECORDS, Records, format_hint, rows_to_json
from runward.store.runs.related_changes import RelatedChanges, apply_related_changes

log = structlog.get_logger()

_SET_LOCK_TIMEOUT: Final = text("SET LOCAL lock_timeout = '5s'")
"""How long a step whose run is locked by somebody else waits, alone, before it asks again."""
_PARKING_MOVES: Final = (Move.PARK, Move.DEFER)
RECONNECT_DELAYS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between tries while PostgreSQL is away; the last one repeats."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a step takes the run. `output` and the rest only with a terminal move; `delay`
    says when a released run may be claimed again."""

    move: Move
    output: JsonValue = None
    parsed: JsonValue = None
    error: ErrorSaid | None = None
    incomplete_details: LimitSaid | None = None
    delay: timedelta = timedelta(0)
    keep_claim: bool = False
    """A hand-back: it does not count as a claim without progress."""
    escalated: bool = False
    """Of a child run: its end ends the workflow that it is a step of."""
    refused_stage: Stage | None = None
    """The stage of a guardrail that refused the run's input or output. The session keeps none of
    it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write of one leased run. `expected_version`: the version it was decided on, where it
    starts something, parks or finishes; None where it records what has happened."""

    project_id: ProjectId
    run_id: RunId
    fence: int
    changes: Changes
    expected_version: int | None
    turn: int
    usage: Usage
    agent: str | None = None
    """Who carries the run on."""
    ending: Ending | None = None
    related: RelatedChanges | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """`last_seq` is the number of the step's last event, `at` the database's time. `last_seq` is
    0 where a lost connection had hidden the commit: its events' numbers are in the log alone."""

    last_seq: int
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """Somebody changed the run since it was loaded: nothing was written; load, decide again."""

    version: int


StepOutcome: TypeAlias = Committed | VersionChanged | Literal["lost"]
"""`lost`: the lease is somebody else's, or nobody's. Nothing was written."""
StepEntries: TypeAlias = Sequence[tuple[Step, UUID]]
Send: TypeAlias = Callable[[StepEntries], Awaitable[dict[UUID, StepOutcome | None]]]
"""None for a step: its run's row was locked by somebody else, or is gone."""


_OUTPUT: Final = RowMapping(
    Ending,
    runs,
    names={"parsed": "output_parsed"},
    only=("output", "parsed", "error", "incomplete_details", "escalated"),
)
_SET: Final = ("turn", "active_agent", *codec.USAGE.columns, *_OUTPUT.columns)
_STEPS: Final = recordset(
    runs,
    "steps",
    "s",
    ("project_id", "id", "fence", "status", *_SET),
    "seen bigint, k int, write_id uuid, progress bool, ended bool, delay float8, "
    "defers bool, keep_claim bool, shared jsonb, unshared text[]",
)


# The gate reads what `l` has locked, not `r`: of a row that changed or was waited for after the
# statement began, `r` is the version of before. `last_write_id` is the last write of the claim that
# `fence` numbers: a claim sets it to its mark, which is below all write ids, or to NULL. One
# process holds a claim, and its write ids ascend, so a statement that is sent twice or arrives late
# writes once. Write ids of two claims are never compared: every process starts at a random number,
# and `already` asks for the same fence too.
def _write_steps(skip: str = "") -> TextClause:
    """Return the statement. `skip`: how it treats runs that are locked."""
    return text(
        f"""
WITH s AS (
  SELECT * FROM {_STEPS}
), l AS (
  SELECT r.project_id, r.id, r.fence, r.status, r.lease_expires_at, r.version, r.last_write_id
  FROM runs r JOIN s ON r.project_id = s.project_id AND r.id = s.id
  ORDER BY r.id FOR UPDATE OF r {skip}
), g AS (
  UPDATE runs r SET
    last_seq = r.last_seq + s.k,
    last_write_id = s.write_id,
    claims = CASE WHEN s.progress THEN 0 WHEN s.keep_claim THEN greatest(r.claims - 1, 0)
      ELSE r.claims END,
    lost_leases = CASE WHEN s.progress THEN 0 ELSE r.lost_leases END,
    status = coalesce(s.status, r.status),
    lease_expires_at = CASE WHEN s.status IS NULL
      THEN clock_timestamp() + CAST(:lease AS interval) END,
    available_at = CASE WHEN s.defers THEN 'infinity' WHEN s.delay IS NULL THEN r.available_at
      ELSE clock_timestamp() + make_interval(secs => s.delay) END,
    ended_at = CASE WHEN s.ended THEN clock_timestamp() END,
    {set_columns(runs, take("s", _SET) | {"escalated": "coalesce(s.escalated, false)"})},
    shared = CASE WHEN s.shared IS NULL THEN r.shared
      ELSE CAST((coalesce(CAST(r.shared AS jsonb), '{{}}') || s.shared) - s.unshared AS json) END
  FROM s JOIN l ON l.project_id = s.project_id AND l.id = s.id
  WHERE r.project_id = l.project_id AND r.id = l.id AND l.fence = s.fence
    AND l.status = 'in_progress' AND l.lease_expires_at > clock_timestamp()
    AND (l.last_write_id IS NULL OR l.last_write_id < s.write_id)
    AND (s.seen IS NULL OR l.version = s.seen)
  RETURNING r.project_id, r.id, r.last_seq, r.version, s.k, clock_timestamp() AS at
),{RECORDS}, hint AS MATERIALIZED (
  SELECT pg_notify('runward_runs', :hint),
    CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT s.id, l.id IS NOT NULL AS locked, l.fence = s.fence AS same_fence, l.version AS version,
  l.fence = s.fence AND l.last_write_id = s.write_id AS already, g.last_seq,
  coalesce(g.at, clock_timestamp()) AS at
FROM s LEFT JOIN l ON l.id = s.id LEFT JOIN g ON g.id = s.id CROSS JOIN hint"""
    )


STEP: Final = _write_steps("SKIP LOCKED")
STEP_ALONE: Final = _write_steps()


class StepWriter:
    """Writes batches of steps on a connection of its own; a step whose run is locked goes alone
    over the pool, so no batch waits for a row."""

    def __init__(self, engine: AsyncEngine, lease: timedelta, own_backends: set[int]) -> None:
        self._own_backends = own_backends
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._engine = engine
        self._lease = lease
        self._connection: AsyncConnection | None = None
        self._backend = 0
        self._write_ids = count(randbits(127))

    async def close(self) -> None:
        await self._drop_connection()

    async def write(self, steps: Sequence[Step]) -> Sequence[FlushResult[StepOutcome]]:
        """Return one result for each step, in order. Wait as long as PostgreSQL is away: the lease
        decides whether the step still counts when it is back."""
        entries = [(step, UUID(int=next(self._write_ids))) for step in steps]
        results: dict[UUID, FlushResult[StepOutcome]] = {
            entry[1]: asyncio.create_task(self._write_alone(entry))
            for entry in entries
            if entry[0].related is not None
        }
        for batch in _split_by_run([one for one in entries if one[0].related is None]):
            results |= await self._write_batch(batch)
        return [results[write_id] for _, write_id in entries]

    async def _write_batch(self, entries: StepEntries) -> dict[UUID, FlushResult[StepOutcome]]:
        try:
            found = await self._send_until_answered(entries, self._send_on_own_connection)
        except (DBAPIError, ValueError) as error:  # ValueError: it cannot be written as JSON
            if len(entries) == 1:
                return {entries[0][1]: error}
            one_by_one: dict[UUID, FlushResult[StepOutcome]] = {}
            for entry in entries:
                one_by_one |= await self._write_batch([entry])
            return one_by_one
        results: dict[UUID, FlushResult[StepOutcome]] = {}
        for entry in entries:
            written = found[entry[1]]
            results[entry[1]] = (
                asyncio.create_task(self._write_alone(entry)) if written is None else written
            )
        return results

    async def _write_alone(self, entry: tuple[Step, UUID]) -> StepOutcome:
        found = await self._send_until_answered([entry], self._send_in_transaction)
        return found[entry[1]] or "lost"

    async def _send_until_answered(
        self, entries: StepEntries, send: Send
    ) -> dict[UUID, StepOutcome | None]:
        """Send until PostgreSQL has answered: the gate lets a step through once, so where a
        connection was lost in the commit the next answer tells whether it had happened. Raises
        DBAPIError for what no retry cures."""
        for delay in chain(RECONNECT_DELAYS, repeat(RECONNECT_DELAYS[-1])):
            try:
                return await send(entries)
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("commit_retried", **log_fields(error), steps=len(entries))
                await asyncio.sleep(delay)
        raise AssertionError("repeat() does not end")

    async def _send_on_own_connection(self, entries: StepEntries) -> dict[UUID, StepOutcome | None]:
        values = self._parameters(entries)
        try:
            if self._connection is None:
                self._connection = await self._autocommit.connect()
                self._backend = await read_backend_pid(self._connection)
                self._own_backends.add(self._backend)
            return _read_outcomes(entries, await self._connection.execute(STEP, values))
        except DATABASE_ERRORS as error:
            if is_outage(error):
                await self._drop_connection()
            raise

    async def _send_in_transaction(self, entries: StepEntries) -> dict[UUID, StepOutcome | None]:
        [(step, write_id)] = entries
        async with self._engine.begin() as tx:
            await tx.execute(_SET_LOCK_TIMEOUT)
            if step.related is not None:
                await lock_runs(tx, step.project_id, step.run_id)
            found = _read_outcomes(entries, await tx.execute(STEP_ALONE, self._parameters(entries)))
            written = found[write_id]
            if step.related is not None and isinstance(written, Committed) and written.last_seq:
                move = step.ending.move if step.ending else None
                await apply_related_changes(
                    tx, step.project_id, step.run_id, step.related, move, self._lease
                )
            return found

    def _parameters(self, entries: StepEntries) -> dict[str, Any]:
        records = Records()
        for step, _ in entries:
            records.add(step.run_id, step.changes)
        return {
            "steps": rows_to_json(_step_to_row(step, write_id) for step, write_id in entries),
            "lease": self._lease,
            "hint": format_hint(step.run_id for step, _ in entries),
            "wakes": any(s.ending and s.ending.move is Move.RELEASE for s, _ in entries),
            **records.to_parameters(),
        }

    async def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        self._own_backends.discard(self._backend)
        if connection is not None:
            with suppress(DBAPIError, OSError):
                await connection.invalidate()
            await connection.close()


def _split_by_run(entries: StepEntries) -> Iterator[StepEntries]:
    """Return batches in which no run is twice, in order: the records of a statement are joined to
    its gate by the run. Two steps of one run are of two claims, of which one is lost."""
    left = list(entries)
    while left:
        batch: dict[UUID, tuple[Step, UUID]] = {}
        for entry in left:
            batch.setdefault(entry[0].run_id, entry)
        yield list(batch.values())
        left = [entry for entry in left if batch[entry[0].run_id] is not entry]


def _read_outcomes(entries: StepEntries, rows: CursorResult[Any]) -> dict[UUID, StepOutcome | None]:
    by_run = {row.id: row for row in rows}
    found: dict[UUID, StepOutcome | None] = {}
    for step, write_id in entries:
        row = by_run[step.run_id]
        if not row.locked:
            found[write_id] = None
        elif row.last_seq is not None:
            found[write_id] = Committed(row.last_seq, row.version, row.at)
        elif row.already:
            found[write_id] = Committed(0, row.version, row.at)
        elif (
            row.same_fence
            and step.expected_version is not None
            and row.version != step.expected_version
        ):
            found[write_id] = VersionChanged(row.version)
        else:
            found[write_id] = "lost"
    return found


def _step_to_row(step: Step, write_id: UUID) -> dict[str, Any]:
    ending = step.ending
    row: dict[str, Any] = {
        "project_id": step.project_id,
        "id": step.run_id,
        "fence": step.fence,
        "seen": step.expected_version,
        "k": len(step.changes.events),
        "write_id": write_id,
        "progress": step.changes.progress or (ending is not None and ending.move in _PARKING_MOVES),
        "turn": step.turn,
        "active_agent": step.agent,
        **codec.USAGE.to_row(step.usage),
    }
    beyond = step.related
    if beyond is not None and beyond.state_delta and beyond.session_id is None:
        # By the gate itself: a run that ends with this step does not change afterward.
        kept, removed = family.split_state_delta(beyond.state_delta)
        row |= {"shared": kept, "unshared": removed}
    if ending is not None:
        target = MOVES[ending.move].target
        row |= {
            "status": target,
            "ended": target in TERMINAL,
            **_OUTPUT.to_row(ending),
            "delay": ending.delay.total_seconds(),
            "defers": ending.move is Move.DEFER,
            "keep_claim": ending.keep_claim,
        }
    return row
