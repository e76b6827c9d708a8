"""The events of a run and its child runs at any depth, in the order in which they happened."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ProjectId, RunId
from runward.domain.json import compact
from runward.domain.run.status import RunStatus
from runward.store.live.events import StoredEvent, encode_event
from runward.store.postgres.db import Tx

SETTLED_SECONDS: Final = 120
"""Seconds after which the end of a run is visible to every reader. No transaction is open for
longer."""


@dataclass(frozen=True, slots=True)
class FamilyRun:
    """The run, or one of its child runs at any depth. `long_ended`: no run that ended earlier can
    become visible later."""

    last_seq: int
    ended_at: datetime | None
    long_ended: bool


@dataclass(frozen=True, slots=True)
class FamilyPage:
    """A page of events. The events of each run have no gaps. `more`: whether there may be further
    events."""

    status: RunStatus
    events: tuple[StoredEvent, ...]
    runs: Mapping[UUID, FamilyRun]
    floor: datetime
    """All runs that ended up to this time are `long_ended`."""
    more: bool


# A single statement, so that it reads all runs at the same moment. `at` never decreases within a
# run, even if the clock is set back. So a page begins with the next event of each run.
_READ: Final = text(
    """
WITH seen AS (
  SELECT CAST(key AS uuid) AS id, CAST(value AS int) AS seq
  FROM json_each_text(CAST(:seen AS json))
), clock AS MATERIALIZED (
  SELECT clock_timestamp() - make_interval(secs => :settled) AS floor
), family AS (
  SELECT r.id, r.status, r.last_seq, r.ended_at FROM runs r
  WHERE r.project_id = :project_id AND r.id = :id
  UNION ALL
  SELECT r.id, r.status, r.last_seq, r.ended_at FROM runs r
  WHERE r.project_id = :project_id AND r.parent_run_id IS NOT NULL
    AND r.ancestors @> ARRAY[CAST(:id AS uuid)]
), open AS (
  SELECT f.*, coalesce(s.seq, 0) AS seq FROM family f LEFT JOIN seen s ON s.id = f.id
  WHERE f.id = :id OR s.id IS NOT NULL OR f.ended_at IS NULL
    OR f.ended_at > CAST(:floor AS timestamptz)
), found AS (
  SELECT o.id, e.seq, e.type, CAST(e.data AS text) AS data, e.created_at, e.at FROM open o
  CROSS JOIN LATERAL (
    SELECT *, max(created_at) OVER (ORDER BY seq) AS at FROM (
      SELECT * FROM run_events e WHERE e.project_id = :project_id AND e.run_id = o.id
        AND e.seq > o.seq ORDER BY e.seq LIMIT :count) e) e
  ORDER BY e.at, o.id, e.seq LIMIT :count
)
SELECT o.id, o.status, o.last_seq, o.ended_at, c.floor, o.ended_at <= c.floor AS long_ended,
  NULL AS seq, NULL AS type, NULL AS data, NULL AS created_at, NULL AS at
FROM open o CROSS JOIN clock c
UNION ALL
SELECT id, NULL, NULL, NULL, NULL, NULL, seq, type, data, created_at, at FROM found"""
)


async def read_family_after(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    seen: Mapping[UUID, int],
    floor: datetime,
    count: int,
) -> FamilyPage | None:
    """Return the events after the last event in `seen` of each run. For runs that are not in `seen`
    and ended after `floor`, return all events. Returns None if the run does not exist."""
    values = {
        "project_id": project_id,
        "id": run_id,
        "seen": compact({id_.hex: seq for id_, seq in seen.items()}),
        "floor": floor,
        "settled": SETTLED_SECONDS,
        "count": count,
    }
    rows = (await tx.execute(_READ, values)).all()
    heads = {row.id: row for row in rows if row.seq is None}
    if run_id not in heads:
        return None
    found = [
        encode_event(row.id, row.seq, row.type, row.created_at, row.data)
        for row in sorted(
            (row for row in rows if row.seq is not None),
            key=lambda row: (row.at, row.id, row.seq),
        )
    ]
    events = _drop_gaps(run_id, found, seen, whole=len(found) < count)
    return FamilyPage(
        status=RunStatus(heads[run_id].status),
        events=tuple(events),
        runs={
            id_: FamilyRun(row.last_seq, row.ended_at, bool(row.long_ended))
            for id_, row in heads.items()
        },
        floor=heads[run_id].floor,
        more=len(found) >= count or len(events) < len(found),
    )


def _drop_gaps(
    run_id: RunId, all_events: list[StoredEvent], seen: Mapping[UUID, int], *, whole: bool
) -> list[StoredEvent]:
    """Return the events without those after a gap. The last event of `run_id` comes last, because
    readers stop after it."""
    given = dict(seen)
    events: list[StoredEvent] = []
    last: list[StoredEvent] = []
    for event in all_events:
        if event.sequence != given.get(event.run_id, 0) + 1:
            continue  # The next page contains it.
        if event.run_id == run_id and event.is_last:
            last.append(event)
            continue
        given[event.run_id] = event.sequence
        events.append(event)
    return events + last if whole else events
