"""The gate: the statement with which a worker writes the runs that it has leased. Many runs share
one commit."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import TextClause, text

from runward.domain.events.run_data import IncompleteDetails, RunError
from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.guards import Stage
from runward.domain.run.response import Usage
from runward.domain.run.state import Changes
from runward.domain.run.status import MOVES, TERMINAL, Move
from runward.store import codec
from runward.store.postgres.columns import RowMapping, recordset, set_columns, take
from runward.store.postgres.held_connection import FrequentStatement
from runward.store.postgres.tables import runs
from runward.store.runs import family
from runward.store.runs.records import RECORDS, Records, format_hint, rows_to_json
from runward.store.runs.related_changes import RelatedChanges

T = TypeVar("T")
R = TypeVar("R")
FlushResult: TypeAlias = R | BaseException | asyncio.Task[R]
"""The result of an entry, its error, or a task. A task writes an entry that could not be written
together with the others."""

MAX_BATCH: Final = 256
"""Maximum number of entries in one flush."""
_PARKING_MOVES: Final = (Move.PARK, Move.DEFER)


@dataclass(frozen=True, slots=True)
class Ending:
    """The change of a run's status in a step. `delay`: the time after which a released run may be
    claimed again. The output, the error and the other fields are set only for terminal moves."""

    move: Move
    output: JsonValue = None
    parsed: JsonValue = None
    error: RunError | None = None
    incomplete_details: IncompleteDetails | None = None
    delay: timedelta = timedelta(0)
    keep_claim: bool = False
    """Whether the claim is undone, so that it does not count as a claim without progress."""
    escalated: bool = False
    """For a child run: whether its end also ends the workflow that it is a step of."""
    refused_stage: Stage | None = None
    """The stage of a guardrail that rejected the run's input or output. The session does not keep
    the rejected content."""


@dataclass(frozen=True, slots=True)
class Step:
    """One write of one leased run. `expected_version`: the version of the run on which the step was
    decided. Set if the step starts something, or parks or ends the run. None if the step records
    something that has already happened."""

    project_id: ProjectId
    run_id: RunId
    fence: int
    changes: Changes
    expected_version: int | None
    turn: int
    usage: Usage
    agent: str | None = None
    """Name of the agent that continues the run."""
    ending: Ending | None = None
    related: RelatedChanges | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """The step was written. `last_seq` is the number of its last event, and `at` is the database's
    time. If the response to the commit was lost, `last_seq` is 0. The log then has the numbers of
    the events."""

    last_seq: int
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """The run has changed since it was loaded, so nothing was written. Load it and decide again."""

    version: int


StepOutcome: TypeAlias = Committed | VersionChanged | Literal["lost"]
"""The result of a step. `lost`: the worker no longer holds the lease. Nothing was written."""
StepEntries: TypeAlias = Sequence[tuple[Step, UUID]]


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


# `l` looks up each run by its key, in a subquery that PostgreSQL cannot turn into another join.
# Otherwise, a plan that was cached while the table was small would read the whole table for each
# batch. The gate reads the row from `l`, which is locked, and not from `r`. If the row changed
# after the statement began, `r` is the previous version. `last_write_id` is the last write of the
# claim with this `fence`. A claim sets it to its mark, which is below all write IDs, or to NULL.
# One process holds a claim, and its write IDs increase. Therefore a statement that is sent twice or
# arrives late writes only once. Write IDs of two claims are never compared: every process starts at
# a random number, and `already` requires the same fence as well.
def _write_steps(skip: str = "") -> TextClause:
    """Return the statement. `skip`: the locking clause for runs that are already locked."""
    return text(
        f"""
WITH s AS (
  SELECT * FROM {_STEPS}
), l AS (
  SELECT r.* FROM (SELECT project_id, id FROM s ORDER BY id) AS k CROSS JOIN LATERAL (
    SELECT r.project_id, r.id, r.fence, r.status, r.lease_expires_at, r.version, r.last_write_id
    FROM runs r WHERE r.project_id = k.project_id AND r.id = k.id FOR UPDATE {skip}) AS r
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
  SELECT pg_notify('runward_steps', :hint),
    CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT s.id, l.id IS NOT NULL AS locked, l.fence = s.fence AS same_fence, l.version AS version,
  l.fence = s.fence AND l.last_write_id = s.write_id AS already, g.last_seq,
  coalesce(g.at, clock_timestamp()) AS at
FROM s LEFT JOIN l ON l.id = s.id LEFT JOIN g ON g.id = s.id CROSS JOIN hint"""
    )


STEP: Final = FrequentStatement(_write_steps("SKIP LOCKED"))
STEP_ALONE: Final = _write_steps()


def step_values(entries: StepEntries, lease: timedelta) -> dict[str, Any]:
    """Return the parameters of STEP."""
    records = Records()
    for step, _ in entries:
        records.add(step.run_id, step.changes)
    return {
        "steps": rows_to_json(_step_to_row(step, write_id) for step, write_id in entries),
        "lease": lease,
        "hint": format_hint(step.run_id for step, _ in entries),
        "wakes": any(s.ending and s.ending.move is Move.RELEASE for s, _ in entries),
        **records.to_parameters(),
    }


def read_outcomes(entries: StepEntries, rows: Iterable[Any]) -> dict[UUID, StepOutcome | None]:
    by_run = {row["id"]: row for row in rows}
    found: dict[UUID, StepOutcome | None] = {}
    for step, write_id in entries:
        row = by_run[step.run_id]
        if not row["locked"]:
            found[write_id] = None
        elif row["last_seq"] is not None:
            found[write_id] = Committed(row["last_seq"], row["version"], row["at"])
        elif row["already"]:
            found[write_id] = Committed(0, row["version"], row["at"])
        elif (
            row["same_fence"]
            and step.expected_version is not None
            and row["version"] != step.expected_version
        ):
            found[write_id] = VersionChanged(row["version"])
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
        # The gate itself writes this state, because a run that ends in this step cannot be changed
        # later.
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


class GroupCommit(Generic[T, R]):
    """Combines entries into batches of at most MAX_BATCH. `flush` writes a batch, and returns one
    result or error for each entry. On exit, all callers that still wait are cancelled. It is
    unknown whether their entries were committed."""

    def __init__(self, flush: Callable[[Sequence[T]], Awaitable[Sequence[FlushResult[R]]]]):
        self._flush = flush
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._unanswered: set[asyncio.Future[R]] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[R]] = set()

    async def __aenter__(self) -> "GroupCommit[T, R]":
        self._task = asyncio.create_task(self._run(), name="group-commit")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        tasks: list[asyncio.Task[Any]] = [self._task, *self._alone]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._unanswered:
            future.cancel()

    async def __call__(self, entry: T) -> R:
        """Return the result after the entry is committed. Raises the error of the entry."""
        assert self._task is not None
        assert not self._task.done(), "nothing is committed before the beginning or after the end"
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((entry, future))
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        self._wake.set()
        return await future

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                count = min(len(self._waiting), MAX_BATCH)
                batch = [self._waiting.popleft() for _ in range(count)]
                try:
                    results = await self._flush([entry for entry, _ in batch])
                except Exception as error:  # The error is raised in all waiting tasks.
                    results = [error] * len(batch)
                for (_, future), result in zip(batch, results, strict=True):
                    self._resolve(future, result)

    def _resolve(self, future: asyncio.Future[R], result: FlushResult[R]) -> None:
        if isinstance(result, asyncio.Task):
            alone = cast("asyncio.Task[R]", result)
            self._alone.add(alone)
            alone.add_done_callback(lambda task: self._resolve_alone(future, task))
        elif future.done():
            return
        elif isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def _resolve_alone(self, future: asyncio.Future[R], task: asyncio.Task[R]) -> None:
        self._alone.discard(task)
        if task.cancelled():
            future.cancel()
        else:
            self._resolve(future, task.exception() or task.result())
