"""Queries that load, lock and change runs without a lease. None of them commits."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import RowMapping, text
from sqlalchemy.exc import DBAPIError

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.events.run_data import IncompleteDetails, RunError
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.state import Changes, RunState
from runward.domain.run.status import MOVES, TERMINAL, Move, RunStatus
from runward.metrics.definitions import count_changes
from runward.store import codec
from runward.store.postgres.columns import recordset, select_list, take
from runward.store.postgres.db import Tx, is_outage
from runward.store.postgres.tables import OPEN_STATUSES, runs
from runward.store.runs.records import RECORDS, Records, format_hint, rows_to_json

_UNREADABLE: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
    MemoryError,
)
"""Exceptions that parsing a row may raise if the row contains unexpected data. No version of
Runward should have written such data."""

# JSON is selected as text and parsed by the codec, row by row. A value that cannot be parsed then
# affects only its own run.
_HEAD: Final = take(
    "r",
    (
        *("status", "active_agent", "cancel_requested_at"),
        *codec.STATE.columns,
        *codec.LINEAGE.columns,
        *codec.PLACE.columns,
        *codec.USAGE.columns,
    ),
) | {name: f"CAST(r.{name} AS text)" for name in ("config", "context", "team")}
_CHILD: Final = take(
    "k",
    (
        *("error", "incomplete_details"),
        *codec.CHILD.columns,
        *codec.USAGE.columns,
    ),
)
STATE: Final = f"""
  SELECT {select_list(_HEAD)},
  CAST(extract(epoch FROM r.deadline_at - clock_timestamp()) AS float8) AS seconds_left,
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
    SELECT {select_list(_CHILD)}
    FROM runs k JOIN tool_calls c ON c.project_id = k.project_id AND c.run_id = k.parent_run_id
      AND c.call_id = k.parent_call_id AND c.child_run_id <= k.id
    WHERE k.project_id = r.project_id AND k.parent_run_id = r.id
      AND c.phase = 'awaiting_child') k) AS children,
  coalesce((SELECT CAST(s.state AS text) FROM sessions s
    WHERE s.project_id = r.project_id AND s.id = r.session_id), CAST(r.shared AS text))
    AS shared_state"""

LOAD: Final = text(
    STATE + ", r.erased_at FROM runs r WHERE r.project_id = :project_id AND r.id = :id"
)
LOCK: Final = text(
    "SELECT 1 FROM runs WHERE project_id = :project_id AND id = ANY(CAST(:ids AS uuid[])"
    " || coalesce((SELECT ancestors FROM runs WHERE project_id = :project_id AND id = :of), '{}'))"
    " ORDER BY id FOR UPDATE"
)
"""Locks the runs in `ids` and all ancestors of the run `of`, always in the same order."""
_STEPS: Final = recordset(
    runs,
    "steps",
    "s",
    ("project_id", "id", "status", "error", "incomplete_details"),
    "k int, ended bool, fences bool, cancel_requested bool",
)
# Each statement changes one run. With the LIMIT, PostgreSQL knows that, and looks up the row.
CHANGE: Final = text(
    f"""
WITH s AS (
  SELECT * FROM {_STEPS} LIMIT 1
), g AS (
  UPDATE runs r SET
    last_seq = r.last_seq + s.k, version = r.version + 1,
    fence = r.fence + CASE WHEN s.fences THEN 1 ELSE 0 END,
    status = coalesce(s.status, r.status),
    lease_expires_at = CASE WHEN s.status IS NULL THEN r.lease_expires_at END,
    available_at = CASE WHEN s.status = 'queued' AND r.status = 'queued'
      THEN greatest(r.start_at, least(r.available_at, clock_timestamp()))
      WHEN s.status = 'queued' THEN clock_timestamp() ELSE r.available_at END,
    cancel_requested_at = CASE WHEN s.cancel_requested
      THEN coalesce(r.cancel_requested_at, clock_timestamp()) ELSE r.cancel_requested_at END,
    ended_at = CASE WHEN s.ended THEN clock_timestamp() END,
    error = s.error, incomplete_details = s.incomplete_details
  FROM s WHERE r.project_id = s.project_id AND r.id = s.id
  RETURNING r.project_id, r.id, r.last_seq, s.k, clock_timestamp() AS at
),{RECORDS}, hint AS MATERIALIZED (
  SELECT pg_notify('runward_runs', :hint),
    CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', :hint) END
)
SELECT g.last_seq, g.at FROM g CROSS JOIN hint"""
)


async def load(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState] | None:
    """Return the current status and state of the run, or None if the run does not exist. Raises
    RunErasedError and RunUnreadableError."""
    values = {"project_id": project_id, "id": run_id}
    try:
        row = (await tx.execute(LOAD, values)).mappings().one_or_none()
    except DBAPIError as error:
        if is_outage(error):
            raise
        raise e.RunUnreadableError(project_id, run_id) from error
    if row is None:
        return None
    if row["erased_at"] is not None:
        raise not_found.RunErasedError
    return RunStatus(row["status"]), parse_state(row)


def parse_state(row: RowMapping) -> RunState:
    """Return the state of a row of STATE. Raises RunUnreadableError."""
    try:
        return codec.state_from_row(dict(row))
    except _UNREADABLE as error:
        raise e.RunUnreadableError(ProjectId(row["project_id"]), RunId(row["id"])) from error


async def lock_and_load(
    tx: Tx, project_id: ProjectId, run_id: RunId
) -> tuple[RunStatus, RunState] | None:
    """Lock the run and all its ancestors until the transaction ends. Returns the status and the
    state of the run, or None if the run does not exist. Raises RunErasedError and
    RunUnreadableError."""
    await lock_runs(tx, project_id, run_id)
    return await load(tx, project_id, run_id)


async def lock_runs(tx: Tx, project_id: ProjectId, run_id: RunId, *others: RunId) -> None:
    """Lock the run, all runs above it, and `others` until the transaction ends."""
    await tx.execute(LOCK, {"project_id": project_id, "ids": [run_id, *others], "of": run_id})


_OPEN_DESCENDANTS: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND parent_run_id IS NOT NULL"
    " AND ancestors @> ARRAY[CAST(:id AS uuid)]"
    f" AND status IN ({OPEN_STATUSES}) ORDER BY id"
)


async def list_open_descendants(tx: Tx, project_id: ProjectId, run_id: RunId) -> list[RunId]:
    """Return the child runs at all levels that have not ended."""
    rows = await tx.execute(_OPEN_DESCENDANTS, {"project_id": project_id, "id": run_id})
    return [RunId(row.id) for row in rows]


async def change_run(
    tx: Tx,
    state: RunState,
    changes: Changes,
    *,
    move: Move | None = None,
    error: RunError | None = None,
    incomplete: IncompleteDetails | None = None,
    void_lease: bool = False,
    cancel_requested: bool = False,
    closed: Sequence[dict[str, Any]] = (),
) -> tuple[int, datetime]:
    """Write changes that were not made by the holder of the lease. Returns the sequence number of
    the last event, and the time of the change. The caller has locked the run."""
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
        "incomplete_details": incomplete,
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
    row = (await tx.execute(CHANGE, values)).one()
    count_changes(changes, target, state.agent)
    return row.last_seq, row.at
