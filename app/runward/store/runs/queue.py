"""The queue of runs. Runs are accepted into it, and claimed under a new fence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from secrets import randbits
from typing import Any, Final
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import TextClause, text

from runward.domain import errors as e
from runward.domain.events.kinds import RunResumedEvent, RunStartedEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.family import list_tool_names
from runward.domain.run.state import Changes, RunState
from runward.store import codec
from runward.store.access.idempotency import RETENTION
from runward.store.postgres.columns import RowMapping, insert_select, recordset, take
from runward.store.postgres.db import Tx
from runward.store.postgres.held_connection import FrequentStatement
from runward.store.postgres.tables import runs
from runward.store.runs.fair_claims import CANDIDATES, find_last_turn
from runward.store.runs.queries import STATE, load, parse_state
from runward.store.runs.records import NEW_RECORDS, Records, rows_to_json

MAX_CLAIMS: Final = 3
"""Number of claims without progress after which a run is quarantined. The workers of these claims
ended or froze."""
MAX_LOST_LEASES: Final = 10
"""Number of lost leases without progress after which a run is quarantined. The workers of these
claims continued to run, but were too slow to renew the leases."""


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to accept. `may_lease`: whether it may start without joining the queue. `lease`:
    whether the accepting process also claims the run. `waits`: whether the run waits until the
    earlier runs of its session or its schedule have ended. `erase_at_end`: whether its content is
    erased after it has ended. `needs_current_agent`: whether the run is accepted only if
    `agent_version` is still the current version of its agent."""

    state: RunState
    """The state before the first event. Its version and fence are those of a new run."""
    changes: Changes
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    agent_version: int | None = None
    continued_from: RunId | None = None
    schedule_id: UUID | None = None
    priority: int | None = 0
    """None: the priority of the parent run."""
    concurrency_groups: tuple[str, ...] | None = None
    """The groups whose running runs are limited together. None: those of the parent run."""
    start_at: datetime | None = None
    may_lease: bool = True
    lease: bool = False
    waits: bool = False
    erase_at_end: bool = False
    needs_current_agent: bool = False
    idempotency: tuple[str, str, str] | None = None
    """The idempotency key, the route, and the digest of the body."""

    @property
    def id(self) -> RunId:
        return self.state.id

    @property
    def tool_names(self) -> tuple[str, ...]:
        return list_tool_names(self.state.config, self.state.team)


_ORIGIN: Final = RowMapping(
    NewRun,
    runs,
    only=(
        "metadata",
        "agent_version",
        "continued_from",
        "schedule_id",
        "priority",
        "concurrency_groups",
        "start_at",
        "tool_names",
        "erase_at_end",
    ),
)
_GIVEN: Final = (
    *codec.STATE.columns,
    *_ORIGIN.columns,
    *codec.LINEAGE.columns,
    *codec.PLACE.columns,
)
_NO_LINEAGE: Final[dict[str, Any]] = {"ancestors": (), "path": ()}
_RUNS: Final = recordset(
    runs,
    "steps",
    "s",
    _GIVEN,
    "k int, lease bool, waits bool, deadline float8, needs_current_agent bool, key text, "
    "route text, body_digest text",
)
_INSERTED: Final = {
    **take("s", _GIVEN),
    # The first step then does not change this indexed column (HOT).
    "active_agent": "s.agent",
    "status": "CASE WHEN s.lease THEN 'in_progress' ELSE 'queued' END",
    "tool_versions": "coalesce((SELECT json_object_agg(t.name, t.version) FROM tools t"
    " WHERE t.project_id = s.project_id AND t.deleted_at IS NULL"
    " AND t.name = ANY(s.tool_names)), '{}')",
    **{
        name: f"coalesce(s.{name}, (SELECT p.{name} FROM runs p"
        " WHERE p.project_id = s.project_id AND p.id = s.parent_run_id))"
        for name in ("priority", "concurrency_groups")
    },
    "available_at": "CASE WHEN s.waits THEN 'infinity'"
    " ELSE greatest(s.start_at, clock_timestamp()) END",
    "fence": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "claims": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "lease_expires_at": "CASE WHEN s.lease THEN clock_timestamp() + CAST(:lease AS interval) END",
    "started_at": "CASE WHEN s.lease THEN statement_timestamp() END",
    "last_seq": "s.k",
    "deadline_at": "greatest(s.start_at, statement_timestamp())"
    " + make_interval(secs => s.deadline)",
    "created_at": "statement_timestamp()",
}


def _accept(lock_timeout: str = "", source: str = "") -> TextClause:
    return text(
        f"""
WITH {lock_timeout}s AS (
  SELECT s.* FROM {source}{_RUNS}
), g AS (
  {insert_select(runs, _INSERTED)}
  FROM s WHERE NOT s.needs_current_agent OR s.agent_version = (SELECT a.version FROM agents a
    WHERE a.project_id = s.project_id AND a.name = s.agent AND a.deleted_at IS NULL)
  RETURNING project_id, id, last_seq, last_seq AS k, created_at AS at, tool_versions, deadline_at
),{NEW_RECORDS}, keys AS (
  INSERT INTO idempotency_keys (project_id, key, route, body_digest, resource_id, expires_at)
  SELECT s.project_id, s.key, s.route, s.body_digest, s.id,
    clock_timestamp() + interval '{RETENTION.total_seconds():.0f} seconds'
  FROM s JOIN g ON g.id = s.id WHERE s.key IS NOT NULL ORDER BY s.project_id, s.key
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_work', CAST(:queued AS text)) WHERE CAST(:queued AS text) <> ''
)
SELECT g.id, g.at, g.tool_versions FROM g LEFT JOIN hint ON true"""
    )


ACCEPT: Final = _accept()
ACCEPT_TOGETHER: Final = FrequentStatement(
    _accept(
        "hurry AS MATERIALIZED (SELECT set_config('lock_timeout', '100ms', true)), ",
        "hurry CROSS JOIN ",
    )
)
"""Accepts the runs of several requests together. The statement fails if it waits for more than 100
ms, for example because another transaction holds one of the idempotency keys."""


def accept_values(batch: Sequence[NewRun], lease: timedelta) -> dict[str, Any]:
    """Return the parameters of ACCEPT."""
    records = Records()
    for new in batch:
        records.add(new.id, new.changes)
    return {
        "steps": rows_to_json(map(_row, batch)),
        "lease": lease,
        "queued": next((new.id.hex for new in batch if not (new.lease or new.waits)), ""),
        **records.to_new_parameters(),
    }


def _row(new: NewRun) -> dict[str, Any]:
    state = new.state
    key, route, body_digest = new.idempotency or (None, None, None)
    return {
        **codec.STATE.to_row(state),
        **_ORIGIN.to_row(new),
        **(codec.LINEAGE.to_row(state.lineage) if state.lineage else _NO_LINEAGE),
        **(codec.PLACE.to_row(state.place) if state.place else {}),
        "k": len(new.changes.events),
        "lease": new.lease,
        "waits": new.waits,
        "deadline": state.config.limits.deadline_seconds,
        "needs_current_agent": new.needs_current_agent,
        "key": key,
        "route": route,
        "body_digest": body_digest,
    }


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run that was accepted. `tool_versions`: the versions of the run's tools at the time of the
    commit."""

    at: datetime
    tool_versions: dict[str, int]


class AgentChangedError(Exception):
    """The agent was changed or deleted after it was read. The run was not accepted."""


async def insert_run(tx: Tx, new: NewRun, lease: timedelta) -> AcceptedRun:
    """Accept a run. Raises AgentChangedError."""
    row = (await tx.execute(ACCEPT, accept_values([new], lease))).one_or_none()
    if row is None:
        raise AgentChangedError
    return AcceptedRun(row.at, row.tool_versions)


# If a row changes after the statement began, the statement locks the new version, but reads the
# calls and the conversation as they were before (READ COMMITTED). In this case, `consistent` is
# false. `b` is the row as it was before.
CLAIM_STEPS: Final = f"""
WITH {CANDIDATES}, r AS (
  UPDATE runs r SET status = 'in_progress', fence = r.fence + 1, claims = r.claims + 1,
    lease_expires_at = clock_timestamp() + CAST(:lease AS interval),
    last_write_id = CAST(:mark AS uuid),
    started_at = coalesce(r.started_at, clock_timestamp()), last_seq = r.last_seq + 1
  FROM claimed c WHERE r.project_id = c.project_id AND r.id = c.id
  RETURNING r.*, clock_timestamp() AS at
), events AS (
  INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)
  SELECT project_id, id, last_seq,
    CASE WHEN fence = 1 THEN '{RunStartedEvent.type}' ELSE '{RunResumedEvent.type}' END,
    '{{}}', at FROM r
)"""
CLAIM: Final = text(
    CLAIM_STEPS
    + STATE
    + """,
  (SELECT (b.version, b.fence + 1) = (r.version, r.fence) FROM runs b
    WHERE b.project_id = r.project_id AND b.id = r.id) AS consistent,
  r.project_id IN (SELECT project_id FROM limited) AS limited
FROM r"""
)


NO_TURN: Final = UUID(int=0)
"""The turn before the first claim of a worker."""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease. The fence is the number of its claim."""

    project_id: ProjectId
    run_id: RunId
    fence: int


@dataclass(frozen=True, slots=True)
class ClaimedRuns:
    """The runs of one claim. No worker can execute the unreadable ones, so the caller must end
    them."""

    states: list[RunState] = field(default_factory=list[RunState])
    unreadable: list[HeldLease] = field(default_factory=list[HeldLease])
    limited: set[RunId] = field(default_factory=set[RunId])
    """The runs of projects with limits. When one of them ends, another one may start."""

    def find_last_turn(self, after: UUID) -> UUID:
        """Return the project after which the next claim continues. `after`: that of this claim."""
        return find_last_turn(after, {one.project_id for one in (*self.states, *self.unreadable)})


def make_mark() -> UUID:
    """Return a value that marks the runs of one claim until they are written. It is below every
    write id."""
    return UUID(int=randbits(64))


async def claim(
    tx: Tx, count: int, lease: timedelta, mark: UUID | None = None, after: UUID = NO_TURN
) -> ClaimedRuns:
    """Claim up to `count` runs under new fences, and load them. Projects take turns, beginning with
    the project after `after`. `mark`: the value by which `return_claims` finds the runs."""
    rows = (await tx.execute(CLAIM, claim_values(count, lease, mark, after))).mappings().all()
    claimed = ClaimedRuns()
    for row in rows:
        held = HeldLease(ProjectId(row["project_id"]), RunId(row["id"]), row["fence"])
        try:
            state = parse_state(row) if row["consistent"] else await load_if_leased(tx, held)
        except e.RunUnreadableError:
            claimed.unreadable.append(held)
            continue
        if state is not None:
            claimed.states.append(state)
            if row["limited"]:
                claimed.limited.add(state.id)
    return claimed


def claim_values(count: int, lease: timedelta, mark: UUID | None, after: UUID) -> dict[str, Any]:
    limits = {"max_claims": MAX_CLAIMS, "max_lost": MAX_LOST_LEASES}
    return {"count": count, "lease": lease, "mark": mark, "after": after, **limits}


async def load_if_leased(tx: Tx, held: HeldLease) -> RunState | None:
    """Load the run. Returns None if the lease is already lost."""
    found = await load(tx, held.project_id, held.run_id)
    return None if found is None or found[1].fence != held.fence else found[1]
