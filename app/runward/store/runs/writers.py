"""Writers that send batches of new runs and of steps to PostgreSQL, and handle locks and
outages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import timedelta
from itertools import chain, count, repeat
from secrets import randbits
from time import perf_counter
from typing import Final, TypeAlias
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runward.domain.ids import RunId
from runward.metrics.definitions import COMMIT_SECONDS, COMMITTED_STEPS
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    is_outage,
    log_fields,
    sqlstate,
    was_rolled_back,
)
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.held_connection import HeldConnection
from runward.store.runs import gate
from runward.store.runs.gate import Committed, FlushResult, Step, StepEntries, StepOutcome
from runward.store.runs.queries import lock_runs
from runward.store.runs.queue import (
    ACCEPT_TOGETHER,
    AcceptedRun,
    AgentChangedError,
    NewRun,
    accept_values,
    insert_run,
)
from runward.store.runs.related_changes import apply_related_changes

log = structlog.get_logger()

_LOCK_NOT_AVAILABLE: Final = "55P03"
_SET_LOCK_TIMEOUT: Final = text("SET LOCAL lock_timeout = '5s'")
"""A step that is written alone waits this long for a locked run before it is sent again."""
RECONNECT_DELAYS: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between retries while PostgreSQL is unavailable. The last value repeats."""

Send: TypeAlias = Callable[[StepEntries], Awaitable[dict[UUID, StepOutcome | None]]]
"""The outcome of a step is None if another transaction has locked its run's row, or if the row does
not exist."""


class AcceptWriter:
    """Writes batches of new runs. Unlike a step, an accept is not sent again if PostgreSQL becomes
    unavailable before it responds. The caller gets an error, does not know the outcome, and retries
    with its idempotency key."""

    def __init__(self, engine: AsyncEngine, lease: timedelta) -> None:
        self._autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._lease = lease
        self._connection = HeldConnection(engine)

    async def close(self) -> None:
        await self._connection.close()

    async def write(self, batch: Sequence[NewRun]) -> Sequence[FlushResult[AcceptedRun]]:
        try:
            values = accept_values(batch, self._lease)
            rows = await self._connection.fetch(ACCEPT_TOGETHER, values)
        # ValueError: the value cannot be encoded as JSON.
        except (*DATABASE_ERRORS, ValueError) as error:
            if isinstance(error, DBAPIError) and sqlstate(error) == _LOCK_NOT_AVAILABLE:
                return await self._write_separately(batch)
            if is_outage(error) and not was_rolled_back(error):
                return [error] * len(batch)
            if len(batch) == 1:
                return [error]
            return [(await self.write([new]))[0] for new in batch]
        accepted = {row["id"]: AcceptedRun(row["at"], row["tool_versions"]) for row in rows}
        return [accepted.get(new.id) or AgentChangedError() for new in batch]

    async def _write_separately(
        self, batch: Sequence[NewRun]
    ) -> Sequence[FlushResult[AcceptedRun]]:
        """Write each run with a key separately, because another transaction holds one of the keys.
        The other runs then do not wait for it."""
        free = [new for new in batch if new.idempotency is None]
        results: dict[RunId, FlushResult[AcceptedRun]] = {}
        if 0 < len(free) < len(batch):
            written = await self.write(free)
            results = {new.id: result for new, result in zip(free, written, strict=True)}
        return [results.get(new.id) or asyncio.create_task(self._write_one(new)) for new in batch]

    async def _write_one(self, new: NewRun) -> AcceptedRun:
        async with self._autocommit.connect() as tx:
            return await insert_run(tx, new, self._lease)


class StepWriter:
    """Writes batches of steps on its own connection. A step whose run is locked is written
    separately through the pool, so no batch waits for a row."""

    def __init__(self, engine: AsyncEngine, lease: timedelta, own_backends: set[int]) -> None:
        self._engine = engine
        self._lease = lease
        self._connection = HeldConnection(engine, own_backends)
        self._write_ids = count(randbits(127))

    async def close(self) -> None:
        await self._connection.close()

    async def write(self, steps: Sequence[Step]) -> Sequence[FlushResult[StepOutcome]]:
        """Return one result for each step, in order. If PostgreSQL is unavailable, wait until it is
        available again. The lease then decides whether the step is still valid."""
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
        except (DBAPIError, ValueError) as error:  # ValueError: the step cannot be encoded as JSON.
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
        """Send the steps until PostgreSQL responds. The gate writes a step only once. If a
        connection is lost during the commit, the response to the next try shows whether the step
        was committed. Raises DBAPIError if a retry cannot succeed."""
        for delay in chain(RECONNECT_DELAYS, repeat(RECONNECT_DELAYS[-1])):
            began = perf_counter()
            try:
                outcomes = await send(entries)
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("commit_retried", **log_fields(error), steps=len(entries))
                await asyncio.sleep(delay)
            else:
                COMMIT_SECONDS.observe(perf_counter() - began)
                COMMITTED_STEPS.count(by=len(entries))
                return outcomes
        raise AssertionError("repeat() does not end")

    async def _send_on_own_connection(self, entries: StepEntries) -> dict[UUID, StepOutcome | None]:
        values = gate.step_values(entries, self._lease)
        return gate.read_outcomes(entries, await self._connection.fetch(gate.STEP, values))

    async def _send_in_transaction(self, entries: StepEntries) -> dict[UUID, StepOutcome | None]:
        [(step, write_id)] = entries
        async with self._engine.begin() as tx:
            await tx.execute(_SET_LOCK_TIMEOUT)
            if step.related is not None:
                await lock_runs(tx, step.project_id, step.run_id)
            rows = await tx.execute(gate.STEP_ALONE, gate.step_values(entries, self._lease))
            found = gate.read_outcomes(entries, rows.mappings())
            written = found[write_id]
            if step.related is not None and isinstance(written, Committed) and written.last_seq:
                move = step.ending.move if step.ending else None
                await apply_related_changes(
                    tx, step.project_id, step.run_id, step.related, move, self._lease
                )
            return found


def _split_by_run(entries: StepEntries) -> Iterator[StepEntries]:
    """Yield batches that contain each run at most once, in order, because the records of a
    statement are joined to its gate by run. Two steps of one run belong to different claims, and
    one of these claims is lost."""
    left = list(entries)
    while left:
        batch: dict[UUID, tuple[Step, UUID]] = {}
        for entry in left:
            batch.setdefault(entry[0].run_id, entry)
        yield list(batch.values())
        left = [entry for entry in left if batch[entry[0].run_id] is not entry]
