"""Queries on runs: accept, load, lock, change from outside. None of them commits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError

from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.config import AgentConfig
from runward.domain.run.state import Changes, Lineage, Member, Place, RunState, list_tool_names
from runward.domain.run.status import MOVES, TERMINAL, Move, RunStatus
from runward.store import codec
from runward.store.postgres.db import Tx, is_outage
from runward.store.runs.records import RECORDS, Records, format_hint, rows_to_json

_UNREADABLE: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    MemoryError,
)
"""What parsing a row raises that no version of Runward should have written."""

# JSON is selected as text and parsed by the codec, row by row: a value that cannot be parsed
# costs its own run, and not all that the statement reads.
STATE: Final = """
  SELECT r.project_id, r.id, r.fence, r.version, r.status, r.agent, r.turn,
  r.input_tokens, r.output_tokens, r.cached_tokens, r.reasoning_tokens, r.cost_usd,
  r.cancel_requested_at, r.last_seq, r.active_agent, r.created_by, r.parent_run_id,
  r.parent_call_id, r.ancestors, r.path, r.session_id, r.session_seq,
  CAST(extract(epoch FROM r.deadline_at - clock_timestamp()) AS float8) AS seconds_left,
  CAST(r.config AS text) AS config, CAST(r.context AS text) AS context,
  CAST(r.team AS text) AS team,
  (SELECT CAST(json_agg(i ORDER BY i.seq) AS text) FROM run_items i
    WHERE i.project_id = r.project_id AND i.run_id = r.id) AS segments,
  (SELECT CAST(json_agg(c ORDER BY c.turn, c.position) AS text) FROM tool_calls c
    WHERE c.project_id = r.project_id AND c.run_id = r.id) AS calls,
  (SELECT CAST(json_agg(m ORDER BY m.created_at, m.id) AS text) FROM (
    SELECT m.*, CAST(extract(epoch FROM m.expires_at - clock_timestamp()) AS float8) AS seconds_left
    FROM remembered_decisions m
    WHERE m.project_id = r.project_id
      AND (m.run_id = r.id OR r.session_seq IS NOT NULL AND m.session_id = r.session_id)
      AND (m.expires_at IS NULL OR m.expires_at > clock_timestamp())) m) AS remembered,
  (SELECT CAST(json_object_agg(t.name, t.version) AS text) FROM tools t
    WHERE t.project_id = r.project_id AND t.deleted_at IS NULL
      AND t.name = ANY(coalesce(r.tool_names,
        ARRAY(SELECT json_array_elements_text(r.config -> 'tools'))))) AS current_tools,
  (SELECT CAST(json_agg(k) AS text) FROM (
    SELECT k.parent_call_id, k.id, k.status, k.output, k.output_parsed, k.error,
      k.incomplete_details, k.input_tokens, k.output_tokens, k.cached_tokens, k.reasoning_tokens,
      k.cost_usd, k.escalated
    FROM runs k JOIN tool_calls c ON c.project_id = k.project_id AND c.run_id = k.parent_run_id
      AND c.call_id = k.parent_call_id
    WHERE k.project_id = r.project_id AND k.parent_run_id = r.id
      AND c.phase = 'awaiting_child') k) AS children,
  coalesce((SELECT CAST(s.state AS text) FROM sessions s
    WHERE s.project_id = r.project_id AND s.id = r.session_id), CAST(r.shared AS text))
    AS shared_state"""

LOAD: Final = text(STATE + " FROM runs r WHERE r.project_id = :project_id AND r.id = :id")
LOCK: Final = text(
    "SELECT 1 FROM runs WHERE project_id = :project_id AND id = ANY(CAST(:ids AS uuid[])"
    " || coalesce((SELECT ancestors FROM runs WHERE project_id = :project_id AND id = :of), '{}'))"
    " ORDER BY id FOR UPDATE"
)
"""The runs `ids` and all above the run `of`, always in the same order."""
CHANGE: Final = text(
    """
WITH s AS (
  SELECT * FROM json_to_recordset(CAST(:steps AS json)) AS s(project_id uuid, id uuid, k int,
    status text, ended bool, fences bool, cancel_requested bool, error json, incomplete json)
), g AS (
  UPDATE runs r SET
    last_seq = r.last_seq + s.k, version = r.version + 1,
    fence = r.fence + CASE WHEN s.fences THEN 1 ELSE 0 END,
    status = coalesce(s.status, r.status),
    lease_expires_at = CASE WHEN s.status IS NULL THEN r.lease_expires_at END,
    available_at = CASE WHEN s.status = 'queued' AND r.status = 'queued'
      THEN least(r.available_at, clock_timestamp())
      WHEN s.status = 'queued' THEN clock_timestamp() ELSE r.available_at END,
    cancel_requested_at = CASE WHEN s.cancel_requested
      THEN coalesce(r.cancel_requested_at, clock_timestamp()) ELSE r.cancel_requested_at END,
    ended_at = CASE WHEN s.ended THEN clock_timestamp() END,
    error = s.error, incomplete_details = s.incomplete
  FROM s WHERE r.project_id = s.project_id AND r.id = s.id
  RETURNING r.project_id, r.id, r.last_seq, s.k, clock_timestamp() AS at
),"""
    + RECORDS
    + """, hint AS MATERIALIZED (
  SELECT pg_notify('runward_runs', :hint),
    CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT g.last_seq FROM g CROSS JOIN hint"""
)


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is accepted. `lease`: it is claimed at once by the process that accepts. `waits`:
    it is not claimed before its session carries no earlier run. `turn`: how many it begins
    with."""

    project_id: ProjectId
    id: RunId
    agent: str | None
    config: AgentConfig
    context: JsonObject | None
    metadata: JsonObject
    created_by: UUID | None
    changes: Changes
    lease: bool = False
    idempotency: tuple[str, str, str] | None = None
    """The key, the route and the body's digest."""
    agent_version: int | None = None
    team: Mapping[str, Member] = field(default_factory=dict[str, Member])
    lineage: Lineage | None = None
    place: Place | None = None
    waits: bool = False
    continued_from: RunId | None = None
    turn: int = 0

    @property
    def tool_names(self) -> tuple[str, ...]:
        return list_tool_names(self.config, self.team)


_ACCEPT: Final = (
    """
WITH s AS (
  SELECT s.* FROM json_to_recordset(CAST(:steps AS json)) AS s(project_id uuid, id uuid, agent text,
    config json, context json, metadata jsonb, created_by uuid, k int, lease bool,
    deadline float8, key text, route text, body_digest text, agent_version int, team json,
    tool_names text[], parent_run_id uuid, parent_call_id text, ancestors uuid[], path text[],
    session_id uuid, session_seq bigint, waits bool, continued_from uuid, turn int)
), g AS (
  INSERT INTO runs (project_id, id, status, agent, config, tool_versions, context, metadata,
    created_by, agent_version, team, tool_names, parent_run_id, parent_call_id, ancestors, path,
    session_id, session_seq, available_at, continued_from, turn,
    fence, claims, lease_expires_at, started_at, last_seq, deadline_at, created_at)
  SELECT s.project_id, s.id, CASE WHEN s.lease THEN 'in_progress' ELSE 'queued' END, s.agent,
    s.config, coalesce((SELECT json_object_agg(t.name, t.version) FROM tools t
      WHERE t.project_id = s.project_id AND t.deleted_at IS NULL
        AND t.name = ANY(s.tool_names)), '{}'),
    s.context, s.metadata, s.created_by, s.agent_version, s.team, s.tool_names,
    s.parent_run_id, s.parent_call_id, s.ancestors, s.path, s.session_id, s.session_seq,
    CASE WHEN s.waits THEN 'infinity' ELSE clock_timestamp() END, s.continued_from, s.turn,
    CASE WHEN s.lease THEN 1 ELSE 0 END, CASE WHEN s.lease THEN 1 ELSE 0 END,
    CASE WHEN s.lease THEN clock_timestamp() + CAST(:lease AS interval) END,
    CASE WHEN s.lease THEN statement_timestamp() END, s.k,
    statement_timestamp() + make_interval(secs => s.deadline), statement_timestamp()
  FROM s
  RETURNING project_id, id, last_seq, last_seq AS k, created_at AS at, tool_versions, deadline_at
),"""
    + RECORDS
    + """, keys AS (
  INSERT INTO idempotency_keys (project_id, key, route, body_digest, resource_id, expires_at)
  SELECT s.project_id, s.key, s.route, s.body_digest, s.id,
    clock_timestamp() + interval '24 hours'
  FROM s WHERE s.key IS NOT NULL ORDER BY s.project_id, s.key
), hint AS MATERIALIZED (
  SELECT CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT g.id, g.at, g.tool_versions FROM g CROSS JOIN hint"""
)
ACCEPT: Final = text(_ACCEPT)
ACCEPT_TOGETHER: Final = text(
    _ACCEPT.replace(
        "WITH s AS (\n  SELECT s.* FROM ",
        "WITH hurry AS MATERIALIZED (SELECT set_config('lock_timeout', '100ms', true)), s AS (\n"
        "  SELECT s.* FROM hurry CROSS JOIN ",
    )
)
"""For the runs of several requests. It fails if it has to wait long, for example because another
transaction holds one of the keys."""


async def load(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState] | None:
    """Load the run as it is now. None: there is none. Raises RunUnreadableError."""
    values = {"project_id": project_id, "id": run_id}
    try:
        row = (await tx.execute(LOAD, values)).mappings().one_or_none()
    except DBAPIError as error:
        if is_outage(error):
            raise
        raise e.RunUnreadableError(project_id, run_id) from error
    return None if row is None else (RunStatus(row["status"]), parse_state(row))


def parse_state(row: RowMapping) -> RunState:
    """Parse a row of STATE. Raises RunUnreadableError."""
    try:
        return codec.state_from_row(dict(row))
    except _UNREADABLE as error:
        raise e.RunUnreadableError(ProjectId(row["project_id"]), RunId(row["id"])) from error


async def lock_and_load(
    tx: Tx, project_id: ProjectId, run_id: RunId
) -> tuple[RunStatus, RunState] | None:
    """The run as it is, and as it stays until the transaction ends; so do all above it."""
    await lock_runs(tx, project_id, run_id)
    return await load(tx, project_id, run_id)


async def lock_runs(tx: Tx, project_id: ProjectId, run_id: RunId, *others: RunId) -> None:
    """The run, all above it, and `others`: as they stay until the transaction ends."""
    await tx.execute(LOCK, {"project_id": project_id, "ids": [run_id, *others], "of": run_id})


_OPEN_DESCENDANTS: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND parent_run_id IS NOT NULL"
    " AND ancestors @> ARRAY[CAST(:id AS uuid)]"
    " AND status IN ('queued', 'in_progress', 'requires_action') ORDER BY id"
)


async def list_open_descendants(tx: Tx, project_id: ProjectId, run_id: RunId) -> list[RunId]:
    """Child runs, and theirs, that have not ended."""
    rows = await tx.execute(_OPEN_DESCENDANTS, {"project_id": project_id, "id": run_id})
    return [RunId(row.id) for row in rows]


async def change_run(
    tx: Tx,
    state: RunState,
    changes: Changes,
    *,
    move: Move | None = None,
    error: JsonObject | None = None,
    incomplete: JsonObject | None = None,
    void_lease: bool = False,
    cancel_requested: bool = False,
    closed: Sequence[dict[str, Any]] = (),
) -> int:
    """Write what somebody other than the lease's holder did; the caller has locked the run.
    Answers with the number of the last event."""
    target = None if move is None else MOVES[move].target
    head = {
        "project_id": state.project_id,
        "id": state.id,
        "k": len(changes.events),
        "status": target,
        "ended": target in TERMINAL,
        "fences": void_lease,
        "cancel_requested": cancel_requested,
        "error": error,
        "incomplete": incomplete,
    }
    records = Records()
    records.add(state.id, changes)
    records.closed += closed
    values = {
        "steps": rows_to_json([head]),
        "hint": format_hint([state.id]),
        "wakes": target is RunStatus.QUEUED,
        **records.to_parameters(),
    }
    return (await tx.execute(CHANGE, values)).scalar_one()


def accept_values(batch: Sequence[NewRun], lease: timedelta) -> dict[str, Any]:
    """The parameters of ACCEPT."""
    records = Records()
    rows: list[dict[str, Any]] = []
    for new in batch:
        records.add(new.id, new.changes)
        key, route, body_digest = new.idempotency or (None, None, None)
        rows.append(
            {
                "project_id": new.project_id,
                "id": new.id,
                "agent": new.agent,
                "config": codec.config_to_json(new.config),
                "context": new.context,
                "metadata": new.metadata,
                "created_by": new.created_by,
                "k": len(new.changes.events),
                "lease": new.lease,
                "deadline": new.config.limits.deadline_seconds,
                "key": key,
                "route": route,
                "body_digest": body_digest,
                **_origin_row(new),
            }
        )
    return {
        "steps": rows_to_json(rows),
        "lease": lease,
        "wakes": any(not (new.lease or new.waits) for new in batch),
        **records.to_parameters(),
    }


def _origin_row(new: NewRun) -> dict[str, Any]:
    """Where it comes from and what it is part of."""
    lineage, place = new.lineage, new.place
    return {
        "agent_version": new.agent_version,
        "team": codec.team_to_json(new.team),
        "tool_names": new.tool_names,
        "parent_run_id": lineage.parent if lineage else None,
        "parent_call_id": lineage.call_id if lineage else None,
        "ancestors": lineage.ancestors if lineage else (),
        "path": lineage.path if lineage else (),
        "session_id": place.session_id if place else None,
        "session_seq": place.number if place else None,
        "waits": new.waits,
        "continued_from": new.continued_from,
        "turn": new.turn,
    }
