"""SQL that selects the runs of a claim. Projects take turns, so that a project with many queued
runs does not delay the runs of other projects.

A claim reads the queue of each project separately, in the order of priority and age. It takes one
run of each project, then a second run of each, and so on. The next claim of the worker continues
with the project after the last one. See docs/decisions/fair-claims.md.
"""

from typing import Final
from uuid import UUID

SCAN: Final = 10_000
"""Maximum number of queued runs of a project that a claim reads if agents, tools, API keys or
concurrency keys have limits."""
CANDIDATES_OF_PROJECT: Final = 1_000
"""Maximum number of these runs that a claim considers because none of their groups is full."""
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
    SELECT q.* FROM levels v CROSS JOIN LATERAL (
      SELECT r.id, r.active_agent, r.created_by, r.tool_names, r.concurrency_groups FROM runs r
      WHERE {_IN_QUEUE} AND r.project_id = {{project}}
        AND (r.priority, r.available_at) >= (v.priority, '-infinity')
        AND (r.priority, r.available_at) <= (v.priority, statement_timestamp())
        AND r.claims < :max_claims AND r.lost_leases < :max_lost
      ORDER BY r.priority, r.available_at LIMIT {{limit}} {{lock}}) q
    LIMIT {{limit}}"""


def _read_queue(project: str, limit: str, lock: str = "") -> str:
    """Return a query of the first claimable runs of a project."""
    return _QUEUE.format(project=project, limit=limit, lock=lock)


# The groups of a run whose running runs are limited together: its agent, its API key, its tools
# with limits, and its values of concurrency keys. The first character is the kind of the group.
_GROUPS: Final = (
    "(ARRAY['a' || {run}.active_agent, 'k' || {run}.created_by]"
    " || {run}.concurrency_groups || CASE WHEN l.tools IS NOT NULL THEN ARRAY(SELECT 't' || name"
    " FROM unnest({run}.tool_names) name WHERE jsonb_exists(l.tools, name)) END)"
)
# A maximum that is not a number has no effect, so that it does not stop the claims of others.
_MAX_OF_GROUP: Final = """CAST(substring(CASE left(g.name, 1)
      WHEN 'a' THEN l.agents ->> substr(g.name, 2)
      WHEN 't' THEN l.tools ->> substr(g.name, 2)
      WHEN 'k' THEN (SELECT CAST(k.running_runs AS text) FROM key_limits k
        WHERE k.project_id = l.project_id AND k.key_id = CAST(substr(g.name, 2) AS uuid))
      ELSE l.concurrency_keys -> substr(g.name, 2, 32) ->> 'max' END FROM '^[0-9]{1,9}$') AS int)"""
# In the order of the queue, the runs whose groups have room. Runs of full groups are skipped first,
# so that they neither hide later runs nor use the room of their other groups.
_ALLOWED: Final = f"""
    WITH running AS MATERIALIZED (
      SELECT g.name, count(*) AS number
      FROM runs r CROSS JOIN LATERAL unnest({_GROUPS.format(run="r")}) AS g(name)
      WHERE r.status = 'in_progress' AND r.project_id = l.project_id GROUP BY g.name
    ), q AS MATERIALIZED (
      SELECT q.*, row_number() OVER () AS place FROM (
        SELECT q.* FROM ({_read_queue("l.project_id", str(SCAN))}) q
        WHERE NOT {_GROUPS.format(run="q")} && ARRAY(
          SELECT g.name FROM running g WHERE {_MAX_OF_GROUP} <= g.number)
        LIMIT {CANDIDATES_OF_PROJECT}) q
    ), members AS MATERIALIZED (
      SELECT q.id, q.place, g.name
      FROM q CROSS JOIN LATERAL unnest({_GROUPS.format(run="q")}) AS g(name)
    ), rooms AS MATERIALIZED (
      SELECT g.name, {_MAX_OF_GROUP} - coalesce(b.number, 0) AS room
      FROM (SELECT DISTINCT name FROM members) g LEFT JOIN running b ON b.name = g.name
    ), ranked AS (
      SELECT m.id, o.room - row_number() OVER (PARTITION BY m.name ORDER BY m.place) AS room
      FROM members m JOIN rooms o ON o.name = m.name AND o.room IS NOT NULL
    )
    SELECT q.id FROM q WHERE q.id NOT IN (SELECT id FROM ranked WHERE room < 0)
    ORDER BY q.place LIMIT greatest(m.room, 0)"""
_RUNNING: Final = """(
      SELECT CAST(count(*) AS int) FROM (SELECT FROM runs r WHERE r.status = 'in_progress'
        AND r.project_id = l.project_id LIMIT l.running_runs) running)"""
_HAS_GROUPS: Final = """(coalesce(l.agents, l.tools, l.concurrency_keys) IS NOT NULL OR EXISTS (
      SELECT FROM key_limits k WHERE k.project_id = l.project_id AND k.running_runs IS NOT NULL))"""
# The runs of projects with limits that a worker with free places would claim, up to a limit of each
# project. The other runs in their queues wait for runs of their own project. PostgreSQL could
# replace EXISTS by a join that reads the queues of all projects.
CLAIMABLE_OF_LIMITED: Final = f"""
  SELECT l.project_id, c.id FROM project_limits l CROSS JOIN LATERAL (
    SELECT least({CANDIDATES_OF_PROJECT}, l.running_runs - {_RUNNING}) AS room
  ) m CROSS JOIN LATERAL unnest(CASE WHEN {_HAS_GROUPS} THEN ARRAY({_ALLOWED})
    ELSE ARRAY(SELECT q.id FROM ({_read_queue("l.project_id", "greatest(m.room, 0)")}) q) END) c(id)
  WHERE (l.running_runs IS NOT NULL OR {_HAS_GROUPS})
    AND (SELECT true FROM runs r WHERE {_IN_QUEUE} AND r.project_id = l.project_id LIMIT 1)"""
LIMITED_PROJECTS: Final = (
    f"SELECT l.project_id FROM project_limits l WHERE l.running_runs IS NOT NULL OR {_HAS_GROUPS}"
)
# `turns` visits the projects with queued runs in the order of their IDs, beginning after the last
# claim, until enough of them have claimable runs. `shares` contains the number of runs to claim of
# each project. Only these are locked, so that claims of other workers find the next ones. `claimed`
# contains the same rows as `c`. Only there, PostgreSQL expects few rows, and looks up each of them.
#
# Without OFFSET 0, PostgreSQL would compute `allowed` once for each place where it is used.
#
# Claims of a project with limits exclude each other, so that they count the same running runs. If
# another claim holds the lock, or was committed after this statement began, the project has no
# turn.
CANDIDATES: Final = f"""
RECURSIVE turns AS (
  SELECT CAST(:after AS uuid) AS project_id, false AS wrapped, 0 AS turn, 0 AS claimable,
    0 AS ready, CAST(NULL AS bigint) AS claims, CAST(NULL AS uuid[]) AS allowed
  WHERE EXISTS (
    SELECT FROM runs WHERE status = 'queued' AND available_at <= statement_timestamp())
  UNION ALL
  SELECT n.project_id, n.wrapped, t.turn + 1, c.claimable, t.ready + least(c.claimable, 1),
    l.claims, a.allowed
  FROM turns t CROSS JOIN LATERAL (
    (SELECT r.project_id, t.wrapped FROM runs r WHERE {_IN_QUEUE} AND r.project_id > t.project_id
      AND (NOT t.wrapped OR r.project_id <= CAST(:after AS uuid)) ORDER BY r.project_id LIMIT 1)
    UNION ALL
    (SELECT r.project_id, true FROM runs r WHERE {_IN_QUEUE} AND NOT t.wrapped
      AND r.project_id <= CAST(:after AS uuid) ORDER BY r.project_id LIMIT 1)
    LIMIT 1
  ) n LEFT JOIN project_limits l ON l.project_id = n.project_id
  CROSS JOIN LATERAL (
    SELECT least(CAST(:count AS int) - t.ready, l.running_runs - {_RUNNING}) AS room
  ) m CROSS JOIN LATERAL (
    SELECT CASE WHEN {_HAS_GROUPS} THEN ARRAY({_ALLOWED}) END AS allowed OFFSET 0
  ) a CROSS JOIN LATERAL (
    SELECT CASE WHEN a.allowed IS NULL THEN (
      SELECT CAST(count(*) AS int) FROM ({_read_queue("n.project_id", "greatest(m.room, 0)")}) q
    ) ELSE cardinality(a.allowed) END AS claimable
  ) c
  WHERE t.ready < CAST(:count AS int)
), shares AS MATERIALIZED (
  SELECT project_id, claims, allowed, count(*) AS share FROM (
    SELECT t.project_id, t.claims, t.allowed
    FROM turns t CROSS JOIN LATERAL generate_series(1, t.claimable) AS round
    ORDER BY round, t.turn LIMIT CAST(:count AS int)) s
  GROUP BY project_id, claims, allowed
), limited AS MATERIALIZED (
  SELECT l.project_id FROM shares s
  JOIN project_limits l ON l.project_id = s.project_id AND l.claims = s.claims
  FOR NO KEY UPDATE OF l SKIP LOCKED
), counted AS (
  UPDATE project_limits l SET claims = l.claims + 1 FROM limited
  WHERE l.project_id = limited.project_id
), c AS MATERIALIZED (
  SELECT s.project_id, q.id FROM shares s CROSS JOIN LATERAL (
    {_read_queue("s.project_id", "s.share", "FOR UPDATE SKIP LOCKED")}) q
  WHERE s.allowed IS NULL
    AND (s.claims IS NULL OR s.project_id IN (SELECT project_id FROM limited))
  UNION ALL
  SELECT s.project_id, q.id FROM shares s CROSS JOIN LATERAL (
    SELECT o.id FROM unnest(s.allowed) WITH ORDINALITY a(id, n)
    JOIN runs o ON o.project_id = s.project_id AND o.id = a.id AND o.status = 'queued'
    WHERE a.n BETWEEN 1 AND s.share FOR UPDATE OF o SKIP LOCKED) q
  WHERE s.allowed IS NOT NULL AND s.project_id IN (SELECT project_id FROM limited)
), claimed AS (
  SELECT project_id, id FROM unnest(ARRAY(SELECT project_id FROM c), ARRAY(SELECT id FROM c))
    WITH ORDINALITY c(project_id, id, n) WHERE n BETWEEN 1 AND CAST(:count AS int)
)"""


def find_last_turn(after: UUID, projects: set[UUID]) -> UUID:
    """Return the project of a claim that had the last turn. The next claim continues after it."""
    return max(projects, key=lambda project: (project <= after, project), default=after)
