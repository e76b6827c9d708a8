"""Remove data whose retention has passed, in small batches.

The runs of a project are read in the order of their ends. For each class, a cursor contains the
last run whose data was removed. A run under a legal hold is skipped. When the hold is deleted, the
cursors return to a place before the run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ProjectId, RunId
from runward.domain.retention import DataClass, RetentionLimits
from runward.store.access import audit, holds
from runward.store.postgres.db import Tx
from runward.store.runs import erasure
from runward.store.runs.erasure import Family

SCAN: Final = 1_000
"""Maximum number of runs without a parent that one transaction reads."""
BATCH: Final = 50
"""Maximum number of them whose data it removes."""
EVENTS: Final = 2_000
"""Maximum number of their events. The first run may have more."""
DELIVERIES: Final = 1_000
"""Maximum number of deliveries that one transaction deletes."""
MAX_COUNTED: Final = 10_000
"""The preview counts the rows of a class up to this number."""
_NO_RUN: Final = UUID(int=0)
_BEGINNING: Final = {"ended_at": datetime(2000, 1, 1, tzinfo=UTC), "run_id": _NO_RUN}

_PROJECTS: Final = text(
    "SELECT id, retention FROM projects p"
    f" WHERE NOT {holds.PROJECT_HELD.format(project='p.id')} ORDER BY id"
)
_LOCK_PROJECT: Final = text(
    "SELECT retention FROM projects p WHERE id = :project_id"
    f" AND NOT {holds.PROJECT_HELD.format(project='p.id')} FOR SHARE SKIP LOCKED"
)
_ADD_CURSORS: Final = text(
    "INSERT INTO retention_cursors (project_id, data_class, ended_at, run_id)"
    " SELECT project_id, data_class, :ended_at, :run_id"
    " FROM unnest(CAST(:projects AS uuid[]), CAST(:classes AS text[])) AS n(project_id, data_class)"
    # ON CONFLICT waits for a batch that moves the cursor.
    " WHERE NOT EXISTS (SELECT FROM retention_cursors c"
    " WHERE c.project_id = n.project_id AND c.data_class = n.data_class) ON CONFLICT DO NOTHING"
)
_LOCK_CURSOR: Final = text(
    "SELECT ended_at, run_id FROM retention_cursors"
    " WHERE project_id = :project_id AND data_class = :data_class FOR UPDATE SKIP LOCKED"
)
_READ_CURSOR: Final = text(
    "SELECT ended_at, run_id FROM retention_cursors"
    " WHERE project_id = :project_id AND data_class = :data_class"
)
_MOVE_CURSOR: Final = text(
    "UPDATE retention_cursors SET ended_at = :ended_at, run_id = :run_id"
    " WHERE project_id = :project_id AND data_class = :data_class"
)
_RETURN_CURSORS: Final = text(
    """
WITH held AS (
  SELECT min(ended_at) AS ended_at FROM runs WHERE project_id = :project_id AND id = ANY(ARRAY(
    SELECT CAST(:subject_id AS uuid)
    UNION ALL SELECT id FROM runs
    WHERE project_id = :project_id AND session_id = :subject_id AND session_seq IS NOT NULL
    UNION ALL SELECT run_id FROM session_items
    WHERE project_id = :project_id AND session_id = :subject_id))
)
UPDATE retention_cursors c SET ended_at = held.ended_at, run_id = :no_run
FROM held WHERE c.project_id = :project_id AND c.ended_at >= held.ended_at"""
)
_HAS_CONTENT: Final[Mapping[DataClass, str]] = {
    DataClass.RUNS: "r.erased_at IS NULL",
    DataClass.TOOL_CALL_CONTENT: "r.erased_at IS NULL",
    # PostgreSQL may read the whole table for EXISTS.
    DataClass.EVENTS: "(SELECT e.seq FROM run_events e"
    " WHERE e.project_id = r.project_id AND e.run_id = r.id LIMIT 1) IS NOT NULL",
}
"""SQL conditions for a run that may have data of the class. An erasure may have removed it."""
_DUE: Final = f"""
SELECT r.id, r.ended_at, {{has_content}} AND NOT {holds.RUN_HELD.format(run="r")} AS removes
FROM runs r WHERE r.project_id = :project_id AND r.parent_run_id IS NULL AND r.ended_at IS NOT NULL
  AND r.ended_at <= statement_timestamp() - make_interval(days => CAST(:days AS int))
  AND (r.ended_at, r.id) > (CAST(:ended_at AS timestamptz), CAST(:run_id AS uuid))
ORDER BY r.ended_at, r.id LIMIT :scan"""
_OLD_DELIVERIES: Final = f"""
SELECT d.ctid, d.created_at FROM webhook_deliveries d
LEFT JOIN runs r ON r.project_id = d.project_id AND r.id = d.run_id
LEFT JOIN runs root ON root.project_id = r.project_id AND root.id = coalesce(r.ancestors[1], r.id)
WHERE d.project_id = :project_id
  AND d.created_at <= statement_timestamp() - make_interval(days => CAST(:days AS int))
  AND (root.id IS NULL OR NOT {holds.RUN_HELD.format(run="root")})
ORDER BY d.created_at LIMIT :count {{lock}}"""
_DELETE_DELIVERIES: Final = text(
    "DELETE FROM webhook_deliveries WHERE ctid = ANY(ARRAY(SELECT ctid FROM"
    f" ({_OLD_DELIVERIES.format(lock='FOR UPDATE OF d SKIP LOCKED')}) d)) RETURNING 1"
)
_COUNT_DELIVERIES: Final = text(
    f"SELECT count(*) AS rows, min(created_at) AS oldest FROM ({_OLD_DELIVERIES.format(lock='')}) d"
)
_COUNTED_ALONE: Final = {
    DataClass.DELIVERIES: _COUNT_DELIVERIES,
    DataClass.AUDIT: audit.COUNT_DUE,
}
"""The counts of classes that do not depend on the end of a run."""
_COUNTED: Final[Mapping[DataClass, str]] = {
    DataClass.RUNS: "SELECT ended_at FROM family",
    DataClass.EVENTS: "SELECT f.ended_at FROM family f JOIN run_events t"
    " ON t.project_id = :project_id AND t.run_id = f.id",
    DataClass.TOOL_CALL_CONTENT: "SELECT f.ended_at FROM family f JOIN tool_calls t"
    " ON t.project_id = :project_id AND t.run_id = f.id",
}
_COUNT: Final = """
WITH due AS MATERIALIZED ({due}), family AS (
  SELECT id, ended_at FROM due WHERE removes
  UNION ALL
  SELECT k.id, due.ended_at FROM due JOIN runs k ON k.project_id = :project_id
    AND k.parent_run_id IS NOT NULL AND k.ancestors @> ARRAY[due.id] WHERE due.removes
)
SELECT count(*) AS rows, min(ended_at) AS oldest, (SELECT count(*) FROM due) AS scanned
FROM ({counted} LIMIT :count) AS counted"""


@dataclass(frozen=True, slots=True)
class Removed:
    """The result of a batch. `rows`: runs, events, tool calls, deliveries or audit entries. `more`:
    whether another batch may follow at once."""

    rows: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Preview:
    """The rows of a class that would be removed. `more`: there are more than were counted.
    `oldest`: the end of the oldest run, or the creation of the oldest delivery or audit entry."""

    rows: int = 0
    more: bool = False
    oldest: datetime | None = None


async def list_work(tx: Tx, limits: RetentionLimits) -> list[tuple[ProjectId, DataClass]]:
    """Return the classes of each project that are not kept forever, and add their cursors. Commit
    before `remove_batch`, because other workers wait for new cursors."""
    found = [
        (ProjectId(row.id), data_class)
        for row in (await tx.execute(_PROJECTS)).all()
        for data_class in DataClass
        if limits.find_days(data_class, row.retention) is not None
    ]
    of_runs = [one for one in found if one[1] in _HAS_CONTENT]
    if of_runs:
        projects, classes = zip(*of_runs, strict=True)
        values = {"projects": list(projects), "classes": list(classes)}
        await tx.execute(_ADD_CURSORS, values | _BEGINNING)
    return found


async def remove_batch(
    tx: Tx, limits: RetentionLimits, project_id: ProjectId, data_class: DataClass
) -> Removed:
    """Remove a batch of a class. If another transaction changes the retention or the holds of the
    project, or removes the same class, do nothing. No statement waits for a lock of a run."""
    project = (await tx.execute(_LOCK_PROJECT, {"project_id": project_id})).one_or_none()
    days = None if project is None else limits.find_days(data_class, project.retention)
    if days is None:
        return Removed()
    values = {"project_id": project_id, "days": days}
    if data_class is DataClass.DELIVERIES:
        rows = len((await tx.execute(_DELETE_DELIVERIES, values | {"count": DELIVERIES})).all())
        return Removed(rows, more=rows == DELIVERIES)
    if data_class is DataClass.AUDIT:
        rows = await audit.remove_oldest(tx, project_id, days)
        return Removed(rows, more=rows == audit.REMOVAL_BATCH)
    about = {"project_id": project_id, "data_class": data_class}
    cursor = (await tx.execute(_LOCK_CURSOR, about)).one_or_none()
    if cursor is None:
        return Removed()
    due = text(_DUE.format(has_content=_HAS_CONTENT[data_class]))
    values |= {"ended_at": cursor.ended_at, "run_id": cursor.run_id, "scan": SCAN}
    found = (await tx.execute(due, values)).all()
    families = await _lock_families(tx, project_id, [RunId(row.id) for row in found if row.removes])
    last = _find_last(found, {one.root for one in families})
    if last is None:
        return Removed()
    rows = await _remove(tx, project_id, data_class, families)
    await tx.execute(_MOVE_CURSOR, about | {"ended_at": last.ended_at, "run_id": last.id})
    return Removed(rows, more=last is not found[-1] or len(found) == SCAN)


async def _lock_families(tx: Tx, project_id: ProjectId, roots: Sequence[RunId]) -> list[Family]:
    """Lock the families of the first of these runs, as many as one transaction may change."""
    chosen: list[Family] = []
    events = 0
    for family in await erasure.list_families(tx, project_id, roots[:BATCH]):
        events += family.events
        if chosen and events > EVENTS:
            break
        chosen.append(family)
    return await erasure.lock_ended(tx, project_id, chosen) if chosen else []


def _find_last(found: Sequence[Any], done: set[RunId]) -> Any:
    """Return the last run before the first one whose data still has to be removed, or None."""
    last = None
    for row in found:
        if row.removes and row.id not in done:
            break
        last = row
    return last


async def _remove(
    tx: Tx, project_id: ProjectId, data_class: DataClass, families: Sequence[Family]
) -> int:
    ids = [one for family in families for one in family.ids]
    match data_class:
        case _ if not ids:
            return 0
        case DataClass.EVENTS:
            return await erasure.delete_events(tx, project_id, ids)
        case DataClass.TOOL_CALL_CONTENT:
            return await erasure.erase_call_content(tx, project_id, ids)
        case _:
            await erasure.erase_content(tx, project_id, ids)
            return len(ids)


async def preview(
    tx: Tx, project_id: ProjectId, data_class: DataClass, days: int | None
) -> Preview:
    """Count what the cleaner would remove with this number of days."""
    held = "SELECT 1 WHERE " + holds.PROJECT_HELD.format(project="CAST(:project_id AS uuid)")
    values = {"project_id": project_id}
    if days is None or (await tx.execute(text(held), values)).one_or_none() is not None:
        return Preview()
    values |= {"days": days, "count": MAX_COUNTED + 1}
    if (count := _COUNTED_ALONE.get(data_class)) is not None:
        row = (await tx.execute(count, values)).one()
        return Preview(min(row.rows, MAX_COUNTED), row.rows > MAX_COUNTED, row.oldest)
    query = _COUNT.format(
        due=_DUE.format(has_content=_HAS_CONTENT[data_class]), counted=_COUNTED[data_class]
    )
    cursor = await _read_cursor(tx, project_id, data_class)
    row = (await tx.execute(text(query), values | cursor | {"scan": MAX_COUNTED})).one()
    more = row.rows > MAX_COUNTED or row.scanned == MAX_COUNTED
    return Preview(min(row.rows, MAX_COUNTED), more, row.oldest)


async def _read_cursor(tx: Tx, project_id: ProjectId, data_class: DataClass) -> dict[str, Any]:
    about = {"project_id": project_id, "data_class": data_class}
    row = (await tx.execute(_READ_CURSOR, about)).one_or_none()
    if row is None:
        return _BEGINNING
    return {"ended_at": row.ended_at, "run_id": row.run_id}


async def return_cursors(tx: Tx, project_id: ProjectId, subject_id: UUID) -> None:
    """Let the cleaner read the runs of a deleted hold again."""
    values = {"project_id": project_id, "subject_id": subject_id, "no_run": _NO_RUN}
    await tx.execute(_RETURN_CURSORS, values)
