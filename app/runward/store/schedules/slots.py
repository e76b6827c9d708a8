"""The slots of schedules: claims, results and lists, and the runs that wait for the run of an
earlier slot.

A worker claims a schedule for LEASE, to process its next slot. The transaction that inserts the run
also records the slot and moves the schedule to its next slot. So a slot whose worker is lost is due
again after the lease, and a slot that was processed is not processed again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import JSON, select, text

from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.schedules import SlotSkipReason, SlotStatus
from runward.store.access.vault import Vault
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, select_page
from runward.store.postgres.tables import OPEN_STATUSES, schedule_slots
from runward.store.schedules.schedules import SCHEDULE, StoredSchedule, open_run

log = structlog.get_logger()

LEASE: Final = timedelta(seconds=15)
"""How long a worker may take to process one slot."""
RETENTION: Final = timedelta(days=30)
BATCH: Final = 200
"""Maximum number of runs that one sweep lets start."""
OLD_BATCH: Final = 1_000
"""Maximum number of old slots that one transaction deletes."""

DUE: Final = "SELECT 1 FROM schedules WHERE due_at <= statement_timestamp()"
# `owners` reads one row of the index for each project, so that the number of schedules of a project
# does not matter.
_CLAIM: Final = text(
    """
WITH RECURSIVE owners AS (
  (SELECT project_id FROM schedules WHERE due_at IS NOT NULL ORDER BY project_id LIMIT 1)
  UNION ALL
  SELECT (SELECT s.project_id FROM schedules s
    WHERE s.due_at IS NOT NULL AND s.project_id > o.project_id ORDER BY s.project_id LIMIT 1)
  FROM owners o WHERE o.project_id IS NOT NULL
), due AS MATERIALIZED (
  SELECT s.project_id, s.id FROM owners o
  LEFT JOIN unnest(CAST(:projects AS uuid[]), CAST(:free AS int[])) AS f(project_id, free)
    ON f.project_id = o.project_id
  CROSS JOIN LATERAL (
    SELECT s.project_id, s.id, s.due_at FROM schedules s
    WHERE s.project_id = o.project_id AND s.due_at <= statement_timestamp()
    ORDER BY s.due_at LIMIT coalesce(f.free, CAST(:per_project AS int)) FOR UPDATE SKIP LOCKED
  ) AS s
  ORDER BY s.due_at LIMIT CAST(:count AS int)
), claimed AS (
  UPDATE schedules s SET due_at = clock_timestamp() + CAST(:lease AS interval)
  FROM due WHERE s.project_id = due.project_id AND s.id = due.id RETURNING s.*
)
SELECT *, clock_timestamp() AS claimed_at FROM claimed ORDER BY next_at"""
).columns(run=JSON, last_error=JSON)
_RECORD: Final = text(
    """
WITH s AS (
  UPDATE schedules SET next_at = CAST(:next_at AS timestamptz),
    due_at = CAST(:next_at AS timestamptz), last_at = :slot_at,
    last_run_id = coalesce(CAST(:run_id AS uuid), last_run_id),
    last_skip_reason = CAST(:skip_reason AS text), last_error = CAST(:error AS json)
  WHERE project_id = :project_id AND id = :id AND next_at = :slot_at AND updated_at = :updated_at
  RETURNING project_id, id
)
INSERT INTO schedule_slots (project_id, schedule_id, slot_at, status, run_id, skip_reason, error)
SELECT project_id, id, :slot_at, CAST(:status AS text), CAST(:run_id AS uuid),
  CAST(:skip_reason AS text), CAST(:error AS json)
FROM s RETURNING 1"""
)
_REPORT: Final = text(
    "UPDATE schedules SET last_error = CAST(:error AS json) WHERE project_id = :project_id"
    " AND id = :id AND next_at = :slot_at AND updated_at = :updated_at"
)
_OPEN_RUNS: Final = text(
    f"""
SELECT id FROM runs r WHERE project_id = :project_id AND schedule_id = :id
  AND status IN ({OPEN_STATUSES}) AND NOT EXISTS (
    SELECT FROM schedule_slots s WHERE s.project_id = r.project_id
      AND s.schedule_id = r.schedule_id AND s.run_id = r.id AND s.slot_at >= :slot_at)
ORDER BY id LIMIT :limit"""
)
_WAITING: Final = (
    "{run}.schedule_id IS NOT NULL AND {run}.session_id IS NULL AND {run}.status = 'queued'"
    " AND {run}.available_at = 'infinity' AND {run}.started_at IS NULL"
)
_NO_OTHER: Final = f"""NOT EXISTS (
    SELECT FROM runs o WHERE o.project_id = {{run}}.project_id
      AND o.schedule_id = {{run}}.schedule_id AND o.status IN ({OPEN_STATUSES})
      AND NOT ({_WAITING.format(run="o")}))"""
"""SQL condition that no run of the schedule is executed, or may be claimed."""
_STRANDED: Final = f"""SELECT project_id, id FROM (
    SELECT DISTINCT ON (project_id, schedule_id) project_id, schedule_id, id FROM runs
    WHERE {_WAITING.format(run="runs")} ORDER BY project_id, schedule_id, created_at
  ) AS w WHERE {_NO_OTHER.format(run="w")}"""
STRANDED: Final = f"SELECT 1 FROM ({_STRANDED}) AS s"
# A locked run is skipped, because the lock's holder may be canceling it. The conditions are checked
# again for the run that is locked.
_WAKE: Final = text(
    f"""
WITH stranded AS (
  {_STRANDED}
), due AS (
  SELECT r.project_id, r.id FROM runs r
  JOIN stranded s ON s.project_id = r.project_id AND s.id = r.id
  WHERE {_WAITING.format(run="r")} LIMIT :batch FOR UPDATE OF r SKIP LOCKED
), woken AS (
  UPDATE runs r SET available_at = clock_timestamp() FROM due
  WHERE r.project_id = due.project_id AND r.id = due.id RETURNING r.id
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_work', CAST(id AS text)) FROM woken LIMIT 1
)
SELECT woken.id FROM woken LEFT JOIN hint ON true"""
)
_DELETE_OLD: Final = text(
    "DELETE FROM schedule_slots WHERE ctid = ANY(ARRAY(SELECT ctid FROM schedule_slots"
    " WHERE created_at <= statement_timestamp() - CAST(:age AS interval)"
    " ORDER BY created_at LIMIT :batch FOR UPDATE SKIP LOCKED)) RETURNING 1"
)


@dataclass(frozen=True, slots=True)
class DueSlot:
    """The next slot of a schedule, claimed at `claimed_at`. `sealed_run`: see
    `schedules.seal_run`."""

    schedule: StoredSchedule
    slot_at: datetime
    claimed_at: datetime
    sealed_run: bytes | None

    def read_run(self, vault: Vault) -> str:
        """Return the request of the run as JSON. Raises SecretUnreadableError."""
        one = self.schedule
        if self.sealed_run is None:
            return compact(one.run)
        return open_run(vault, one.project_id, one.id, self.sealed_run)


@dataclass(frozen=True, slots=True)
class SlotResult:
    """The result of a slot: a run, or the reason why there is none."""

    run_id: RunId | None = None
    skip_reason: SlotSkipReason | None = None
    error: JsonObject | None = None

    @property
    def status(self) -> SlotStatus:
        if self.run_id is not None:
            return SlotStatus.STARTED
        return SlotStatus.FAILED if self.skip_reason is None else SlotStatus.SKIPPED


@dataclass(frozen=True, slots=True)
class StoredSlot:
    slot_at: datetime
    status: SlotStatus
    run_id: RunId | None
    skip_reason: SlotSkipReason | None
    error: JsonObject | None
    created_at: datetime


_SLOT: Final = RowMapping(StoredSlot, schedule_slots)
_COLUMNS: Final = tuple(schedule_slots.c[name] for name in _SLOT.columns)


class SlotTakenError(Exception):
    """The slot was processed by another worker, or the schedule was changed or deleted."""


async def claim_slots(
    tx: Tx, count: int, per_project: int, free: Mapping[UUID, int], lease: timedelta = LEASE
) -> list[DueSlot]:
    """Claim up to `count` schedules that are due, oldest first. `per_project`: the maximum number
    for one project. `free`: another maximum for single projects."""
    values = {
        "count": count,
        "per_project": per_project,
        "projects": list(free),
        "free": list(free.values()),
        "lease": lease,
    }
    return [slot for row in await tx.execute(_CLAIM, values) if (slot := _read_due(row))]


def _read_due(row: Any) -> DueSlot | None:
    """Return the slot, or None if a newer version has written a value that this one does not know.
    After the lease, a worker of that version can claim the slot."""
    try:
        schedule = SCHEDULE.read(row, creator_name=None)
    except ValueError:
        log.warning("slot_unreadable", schedule=format_id(Prefix.SCHEDULE, row.id))
        return None
    return DueSlot(schedule, row.next_at, row.claimed_at, row.sealed_run)


async def record_slot(tx: Tx, due: DueSlot, result: SlotResult, next_at: datetime | None) -> None:
    """Record the result of a slot, and move the schedule to its next slot. Raises SlotTakenError,
    so that the transaction is rolled back."""
    values = _identify(due) | {
        "next_at": next_at,
        "status": result.status.value,
        "run_id": result.run_id,
        "skip_reason": result.skip_reason,
        "error": None if result.error is None else compact(result.error),
    }
    if (await tx.execute(_RECORD, values)).one_or_none() is None:
        raise SlotTakenError


async def report_error(tx: Tx, due: DueSlot, result: SlotResult) -> None:
    """Show the error of a slot that is due again after its lease."""
    error = None if result.error is None else compact(result.error)
    await tx.execute(_REPORT, _identify(due) | {"error": error})


async def list_open_runs(tx: Tx, due: DueSlot, limit: int) -> list[RunId]:
    """Return up to `limit` open runs of earlier slots of the schedule. A run of this slot shows
    that the claim is outdated. The run must not be cancelled, so it is not included."""
    one = due.schedule
    values = {"project_id": one.project_id, "id": one.id, "slot_at": due.slot_at, "limit": limit}
    return [RunId(row.id) for row in await tx.execute(_OPEN_RUNS, values)]


async def wake_waiting(tx: Tx) -> int:
    """Let the first waiting run of each schedule start, if no other run of the schedule is
    executed. Returns the number of these runs."""
    return len((await tx.execute(_WAKE, {"batch": BATCH})).all())


async def list_slots(
    tx: Tx,
    project_id: ProjectId,
    schedule_id: UUID,
    *,
    after: datetime | None,
    limit: int,
    descending: bool,
) -> list[StoredSlot]:
    """Return a page of the slots that were processed, in order of their times."""
    query = select(*_COLUMNS).where(
        schedule_slots.c.project_id == project_id, schedule_slots.c.schedule_id == schedule_id
    )
    page = select_page(
        query, schedule_slots.c.slot_at, after=after, limit=limit, descending=descending
    )
    return [_SLOT.read(row) for row in await tx.execute(page)]


def _identify(due: DueSlot) -> dict[str, Any]:
    one = due.schedule
    about = {"project_id": one.project_id, "id": one.id, "updated_at": one.updated_at}
    return about | {"slot_at": due.slot_at}


async def delete_old(tx: Tx) -> int:
    """Delete a batch of slots that are older than RETENTION, and return their number."""
    return len((await tx.execute(_DELETE_OLD, {"age": RETENTION, "batch": OLD_BATCH})).all())
