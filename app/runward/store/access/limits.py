"""Limits of projects, and the counts of requests and of queued runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, FromClause, select, text

from runward.domain.errors import TooManyRequestsError
from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.limits import ProjectLimits
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import project_limits

COLUMNS: Final = tuple(
    project_limits.c[name]
    for name in ("running_runs", "queued_runs", "requests_per_minute", "agents")
)
"""The columns that `read_limits` reads."""

_PUT: Final = text(
    """
INSERT INTO project_limits (project_id, running_runs, queued_runs, requests_per_minute, agents)
VALUES (:project_id, :running_runs, :queued_runs, :requests_per_minute, CAST(:agents AS jsonb))
ON CONFLICT (project_id) DO UPDATE SET running_runs = excluded.running_runs,
  queued_runs = excluded.queued_runs, requests_per_minute = excluded.requests_per_minute,
  agents = excluded.agents, updated_at = clock_timestamp()
RETURNING updated_at"""
)


# A clock that was set back must not extend a minute.
_SAME_MINUTE: Final = "abs(extract(epoch FROM statement_timestamp() - l.minute_at)) < 60"
# The count may be lost if the database crashes, so the request does not wait for the disk.
_COUNT_REQUEST: Final = text(
    f"""
WITH fast AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
UPDATE project_limits l SET
  requests = CASE WHEN {_SAME_MINUTE} THEN least(l.requests, l.requests_per_minute) + 1 ELSE 1 END,
  minute_at = CASE WHEN {_SAME_MINUTE} THEN l.minute_at ELSE statement_timestamp() END
FROM fast WHERE l.project_id = :project_id AND l.requests_per_minute IS NOT NULL
RETURNING l.requests_per_minute AS limit, l.requests, CAST(60 - abs(extract(
  epoch FROM statement_timestamp() - l.minute_at)) AS float8) AS seconds_left"""
)
# A run that has started and waits for its child runs or for callbacks is not in the queue.
_COUNT_QUEUED: Final = text(
    "SELECT count(*) FROM (SELECT FROM runs WHERE project_id = :project_id AND status = 'queued'"
    " AND parent_run_id IS NULL AND NOT (available_at = 'infinity' AND started_at IS NOT NULL)"
    " LIMIT :most) q"
)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """The requests of a project in the current minute, which ends in `seconds_left`."""

    limit: int
    requests: int
    seconds_left: float


@dataclass(frozen=True, slots=True)
class StoredLimits:
    """`updated_at`: None if the limits were never set."""

    limits: ProjectLimits
    updated_at: datetime | None


def of_project(table: FromClause) -> ColumnElement[bool]:
    """Return the condition that joins the limits with the project of a row."""
    return project_limits.c.project_id == table.c.project_id


def read_limits(row: Any) -> ProjectLimits:
    """Return the limits of a row with COLUMNS. All are NULL if the limits were never set."""
    return ProjectLimits(
        row.running_runs, row.queued_runs, row.requests_per_minute, row.agents or {}
    )


async def get_limits(tx: Tx, project_id: ProjectId, *, lock: bool = False) -> StoredLimits:
    """`lock`: no other transaction changes them until this one ends."""
    query = select(*COLUMNS, project_limits.c.updated_at).where(
        project_limits.c.project_id == project_id
    )
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    if row is None:
        return StoredLimits(ProjectLimits(), None)
    return StoredLimits(read_limits(row), row.updated_at)


async def put_limits(tx: Tx, project_id: ProjectId, limits: ProjectLimits) -> StoredLimits:
    """Replace all limits of the project."""
    values = {
        "project_id": project_id,
        "running_runs": limits.running_runs,
        "queued_runs": limits.queued_runs,
        "requests_per_minute": limits.requests_per_minute,
        "agents": compact({**limits.agents}) if limits.agents else None,
    }
    return StoredLimits(limits, (await tx.execute(_PUT, values)).scalar_one())


async def count_request(tx: Tx, project_id: ProjectId) -> RequestCount | None:
    """Count a request. Returns None if the project has no such limit."""
    row = (await tx.execute(_COUNT_REQUEST, {"project_id": project_id})).one_or_none()
    return None if row is None else RequestCount(row.limit, row.requests, row.seconds_left)


async def ensure_queue_room(tx: Tx, project_id: ProjectId, most: int) -> None:
    """Raises TooManyRequestsError."""
    values = {"project_id": project_id, "most": most}
    if (await tx.execute(_COUNT_QUEUED, values)).scalar_one() >= most:
        raise TooManyRequestsError(f"The project has {most} queued runs, its maximum.")
