"""SQL that selects the runs of a claim. Projects take turns, so that a project with many queued
runs does not delay the runs of other projects.

A claim reads the queue of each project separately, in the order of priority and age. It takes one
run of each project, then a second run of each, and so on. The next claim of the worker continues
with the project after the last one. See docs/decisions/fair-claims.md.
"""

from typing import Final
from uuid import UUID

_IN_QUEUE: Final = "r.status = 'queued' AND r.available_at < 'infinity'"
"""SQL condition of the index `runs_project_queue`: runs that do not wait for another run."""
# `levels` contains the priorities in the queue of the project, highest first. Only the index
# `runs_project_queue` has the order of the rows, so PostgreSQL cannot prefer the index of the age.
# The rows are locked one after the other until the limit is reached, because nothing sorts them.
_QUEUE: Final = f"""
    WITH RECURSIVE levels AS (
      (SELECT r.priority FROM runs r WHERE {_IN_QUEUE} AND r.project_id = {{project}}
        ORDER BY r.priority DESC LIMIT 1)
      UNION ALL
      SELECT n.priority FROM levels v CROSS JOIN LATERAL (
        SELECT r.priority FROM runs r WHERE {_IN_QUEUE} AND r.project_id = {{project}}
          AND r.priority < v.priority ORDER BY r.priority DESC LIMIT 1) n
    )
    SELECT q.id FROM levels v CROSS JOIN LATERAL (
      SELECT r.id FROM runs r WHERE {_IN_QUEUE} AND r.project_id = {{project}}
        AND (r.priority, r.available_at) >= (v.priority, '-infinity')
        AND (r.priority, r.available_at) <= (v.priority, statement_timestamp())
        AND r.claims < :max_claims AND r.lost_leases < :max_lost
      ORDER BY r.priority, r.available_at LIMIT {{limit}} {{lock}}) q
    LIMIT {{limit}}"""


def _read_queue(project: str, limit: str, lock: str = "") -> str:
    """Return a query of the first claimable runs of a project."""
    return _QUEUE.format(project=project, limit=limit, lock=lock)


# `turns` visits the projects with queued runs in the order of their IDs, beginning after the last
# claim, until enough of them have claimable runs. `shares` contains the number of runs to claim of
# each project. Only these are locked, so that claims of other workers find the next ones. `claimed`
# contains the same rows as `c`. Only there, PostgreSQL expects few rows, and looks up each of them.
CANDIDATES: Final = f"""
RECURSIVE turns AS (
  SELECT CAST(:after AS uuid) AS project_id, false AS wrapped, 0 AS turn, 0 AS claimable, 0 AS ready
  WHERE EXISTS (
    SELECT FROM runs WHERE status = 'queued' AND available_at <= statement_timestamp())
  UNION ALL
  SELECT n.project_id, n.wrapped, t.turn + 1, a.claimable, t.ready + least(a.claimable, 1)
  FROM turns t CROSS JOIN LATERAL (
    (SELECT r.project_id, t.wrapped FROM runs r WHERE {_IN_QUEUE} AND r.project_id > t.project_id
      AND (NOT t.wrapped OR r.project_id <= CAST(:after AS uuid)) ORDER BY r.project_id LIMIT 1)
    UNION ALL
    (SELECT r.project_id, true FROM runs r WHERE {_IN_QUEUE} AND NOT t.wrapped
      AND r.project_id <= CAST(:after AS uuid) ORDER BY r.project_id LIMIT 1)
    LIMIT 1
  ) n CROSS JOIN LATERAL (
    SELECT CAST(count(*) AS int) AS claimable
    FROM ({_read_queue("n.project_id", "CAST(:count AS int) - t.ready")}) q
  ) a
  WHERE t.ready < CAST(:count AS int)
), shares AS (
  SELECT project_id, count(*) AS share FROM (
    SELECT t.project_id FROM turns t CROSS JOIN LATERAL generate_series(1, t.claimable) AS round
    ORDER BY round, t.turn LIMIT CAST(:count AS int)) s
  GROUP BY project_id
), c AS MATERIALIZED (
  SELECT s.project_id, q.id FROM shares s CROSS JOIN LATERAL (
    {_read_queue("s.project_id", "s.share", "FOR UPDATE SKIP LOCKED")}) q
), claimed AS (
  SELECT project_id, id FROM unnest(ARRAY(SELECT project_id FROM c), ARRAY(SELECT id FROM c))
    WITH ORDINALITY c(project_id, id, n) WHERE n BETWEEN 1 AND CAST(:count AS int)
)"""


def find_last_turn(after: UUID, projects: set[UUID]) -> UUID:
    """Return the project of a claim that had the last turn. The next claim continues after it."""
    return max(projects, key=lambda project: (project <= after, project), default=after)
