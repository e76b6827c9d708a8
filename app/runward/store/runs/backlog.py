"""The work of the whole deployment that is not finished, for metrics. Finished runs are never
read."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic_core import from_json
from sqlalchemy import text

from runward.store.data_keys import inventory
from runward.store.postgres.db import DATABASE_ERRORS, is_outage
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.project_scope import all_projects
from runward.store.runs.fair_claims import CLAIMABLE_OF_LIMITED, LIMITED_PROJECTS
from runward.store.runs.queue import MAX_CLAIMS, MAX_LOST_LEASES
from runward.store.workers import ALIVE

MAX_COUNTED: Final = 20_000
"""Runs of one status, approvals and deliveries are counted up to this number, so that the query
stays fast while the queue is long."""
FRESH_SECONDS: Final = 5.0
"""How long a result is used for further scrapes."""
MAX_SHARE: Final = 0.02
"""Maximum share of the time in which the query runs."""
QUERY_SECONDS: Final = 5.0
"""After this time, the database counts as unavailable. Prometheus waits for ten seconds."""

# Each part reads an index that contains only open runs, or the runs of one project and status.
_OPEN_RUNS: Final = """
    (SELECT status, active_agent FROM runs WHERE status = 'queued' LIMIT :most)
    UNION ALL (SELECT status, active_agent FROM runs WHERE status = 'in_progress' LIMIT :most)
    UNION ALL (SELECT r.status, r.active_agent FROM projects p CROSS JOIN LATERAL (
      SELECT status, active_agent FROM runs WHERE project_id = p.id
        AND status = 'requires_action' AND parent_run_id IS NULL LIMIT :most) r LIMIT :most)
    UNION ALL (SELECT status, active_agent FROM runs WHERE status = 'requires_action'
      AND parent_run_id IS NOT NULL LIMIT :most)"""
_BACKLOG: Final = text(
    f"""
SELECT q.queued, a.pending, w.workers,
  (SELECT count(*) FROM data_keys WHERE drained_at IS NULL) AS undrained,
  CAST(extract(epoch FROM clock_timestamp() - q.available_at) AS float8) AS queued_seconds,
  (SELECT CAST(json_agg(json_build_array(r.id,
      extract(epoch FROM clock_timestamp() - r.available_at))) AS text)
    FROM ({CLAIMABLE_OF_LIMITED} LIMIT :most) c
    JOIN runs r ON r.project_id = c.project_id AND r.id = c.id) AS limited,
  CAST(extract(epoch FROM clock_timestamp() - a.requested_at) AS float8) AS pending_seconds,
  d.deliveries, CAST(extract(epoch FROM clock_timestamp() - d.due_at) AS float8) AS due_seconds,
  (SELECT CAST(json_agg(r) AS text) FROM (SELECT status, active_agent, count(*) AS count
    FROM ({_OPEN_RUNS}) r GROUP BY status, active_agent ORDER BY count DESC) r) AS runs
FROM (SELECT count(*) AS queued, min(available_at) AS available_at FROM
    (SELECT available_at FROM runs WHERE status = 'queued' AND available_at <= statement_timestamp()
      AND project_id NOT IN ({LIMITED_PROJECTS}) ORDER BY available_at LIMIT :most) q) q
CROSS JOIN (SELECT count(*) AS pending, min(requested_at) AS requested_at FROM
    (SELECT requested_at FROM approvals WHERE status = 'pending'
      ORDER BY expires_at LIMIT :most) a) a
CROSS JOIN (SELECT count(*) AS deliveries, min(next_attempt_at) AS due_at FROM
    (SELECT next_attempt_at FROM webhook_deliveries WHERE status = 'pending'
      AND next_attempt_at < 'infinity' ORDER BY next_attempt_at LIMIT :most) d) d
CROSS JOIN (SELECT count(*) AS workers FROM workers
  WHERE heartbeat_at > clock_timestamp() - CAST(:alive AS interval)) w"""
)

OpenRuns: TypeAlias = tuple[str, str | None, int]
"""A status, an agent, and the number of such runs."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """The unfinished work. `queued`: runs that a worker may claim now, without those that wait for
    other runs of their project because of its limits."""

    queued: int
    queued_seconds: float
    """How long the first of them has been waiting."""
    pending: int
    """Approvals that wait for a person."""
    pending_seconds: float
    """The age of the oldest of them."""
    deliveries: int
    """Deliveries of notifications that have not ended, without those of disabled endpoints."""
    due_seconds: float
    """The time since the next attempt of one of them was due."""
    workers: int
    """Workers whose last heartbeat is recent."""
    runs: tuple[OpenRuns, ...]
    """Open runs, the most frequent first."""
    outdated_values: int
    """Stored values that a previous data key encrypts."""


class BacklogReader:
    """Reads the backlog once for all scrapes of some seconds."""

    def __init__(self, autocommit: AsyncEngine) -> None:
        self._autocommit = autocommit
        self._lock = asyncio.Lock()
        self._latest: Backlog | None = None
        self._claimable_since: dict[str, float] = {}
        """By run of a project with limits: when this process first found that a worker may claim
        it. The run may have waited for other runs of its project before."""
        self._fresh_until = 0.0

    async def read(self) -> Backlog | None:
        """Return the backlog, or None if the database is unavailable."""
        now = asyncio.get_running_loop().time
        async with self._lock:
            if now() >= self._fresh_until:
                began = now()
                self._latest = await self._query()
                self._fresh_until = now() + max(FRESH_SECONDS, (now() - began) / MAX_SHARE)
            return self._latest

    async def _query(self) -> Backlog | None:
        try:
            with all_projects():
                async with asyncio.timeout(QUERY_SECONDS), self._autocommit.connect() as tx:
                    values = {
                        "most": MAX_COUNTED,
                        "alive": ALIVE,
                        "max_claims": MAX_CLAIMS,
                        "max_lost": MAX_LOST_LEASES,
                    }
                    row = (await tx.execute(_BACKLOG, values)).one()
                    undrained = row.undrained > 1
                    outdated = await inventory.count_outdated_values(tx) if undrained else 0
        except DATABASE_ERRORS as error:
            if not is_outage(error):
                raise
            return None
        limited: list[tuple[str, float]] = from_json(row.limited or "[]")
        waiting = [row.queued_seconds or 0.0, *self._measure_waits(limited)]
        return _read_backlog(row, row.queued + len(limited), max(waiting), outdated)

    def _measure_waits(self, limited: Sequence[tuple[str, float]]) -> list[float]:
        """Return the seconds for which these runs have been waiting for a worker. `limited`: the
        IDs of runs of projects with limits, and the seconds since they were queued."""
        now = asyncio.get_running_loop().time()
        known = self._claimable_since
        self._claimable_since = {run: known.get(run, now) for run, _ in limited}
        return [min(queued, now - self._claimable_since[run]) for run, queued in limited]


def _read_backlog(row: Any, queued: int, queued_seconds: float, outdated_values: int) -> Backlog:
    return Backlog(
        queued=queued,
        queued_seconds=max(0.0, queued_seconds),
        pending=row.pending,
        pending_seconds=max(0.0, row.pending_seconds or 0.0),
        deliveries=row.deliveries,
        due_seconds=max(0.0, row.due_seconds or 0.0),
        workers=row.workers,
        runs=tuple(
            (one["status"], one["active_agent"], one["count"])
            for one in from_json(row.runs or "[]")
        ),
        outdated_values=outdated_values,
    )
