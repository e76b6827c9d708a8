"""The effects of a run's change on its ancestors and on its session.

A run that waits for child runs is `queued`, and its `available_at` is infinity, like that of a run
that waits only for callbacks. If its open child runs wait for people, clients or callbacks, and at
least one of them is `requires_action`, the run becomes `requires_action` too. The same applies to
its ancestors. The caller of these functions has locked the run and all its ancestors, and calls
them in the transaction of the change.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import text

from runward.domain.events.kinds import RunWaitingEvent
from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject, compact
from runward.domain.run.family import Lineage
from runward.domain.run.open_calls import describe_waiting_call
from runward.domain.run.sessions import Place
from runward.domain.run.state import Call
from runward.store import codec
from runward.store.postgres.columns import RowMapping, select_list, take
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import OPEN_STATUSES, tool_calls
from runward.store.runs import sessions
from runward.store.runs.records import format_hint

_WAKE_PARENT: Final = text(
    f"""
UPDATE runs SET version = version + 1,
  status = CASE WHEN status = 'requires_action' THEN 'queued' ELSE status END,
  available_at = CASE WHEN status = 'in_progress' THEN available_at ELSE clock_timestamp() END
WHERE project_id = :project_id AND id = :id
  AND status IN ({OPEN_STATUSES})
"""
)
_REQUEUE_ANCESTORS: Final = text(
    "UPDATE runs SET status = 'queued', available_at = 'infinity', version = version + 1"
    " WHERE project_id = :project_id AND id = ANY(CAST(:ids AS uuid[]))"
    " AND status = 'requires_action'"
)
# Idle: the run waits for child runs, and at least one of them waits for a person or a client. Every
# other open child run does so as well, or waits only for callbacks. The query reads no JSON of the
# calls, because JSON may be unreadable.
_WAITING_CALL: Final = RowMapping(
    Call,
    tool_calls,
    names=codec.CALL_COLUMNS,
    only=(
        "id",
        "uuid",
        "turn",
        "position",
        "tool",
        "version",
        "digest",
        "phase",
        "approval_id",
        "child_run_id",
    ),
)
_MARK_IDLE: Final = text(
    f"""
UPDATE runs r SET status = 'requires_action', last_seq = r.last_seq + 1, version = r.version + 1,
  available_at = clock_timestamp()
WHERE r.project_id = :project_id AND r.id = :id
  AND r.status = 'queued' AND r.available_at = 'infinity'
  AND EXISTS (SELECT 1 FROM runs k WHERE k.project_id = r.project_id
    AND k.parent_run_id = r.id AND k.status = 'requires_action')
  AND NOT EXISTS (SELECT 1 FROM runs k WHERE k.project_id = r.project_id
    AND k.parent_run_id = r.id AND k.status IN ('queued', 'in_progress')
    AND (k.status = 'in_progress' OR k.available_at < 'infinity' OR EXISTS (
      SELECT 1 FROM tool_calls c WHERE c.project_id = k.project_id AND c.run_id = k.id
        AND c.phase = 'awaiting_child')))
RETURNING r.last_seq, (SELECT json_agg(c ORDER BY c.turn, c.position) FROM (
  SELECT {select_list(take("c", _WAITING_CALL.columns))} FROM tool_calls c
  WHERE c.project_id = r.project_id AND c.run_id = r.id AND c.phase <> 'settled') c) AS calls
"""
)
_ADD_EVENT: Final = text(
    "INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)"
    " VALUES (:project_id, :id, :seq, :type, CAST(:data AS json), clock_timestamp())"
)
_MERGE_STATE: Final = text(
    "UPDATE sessions SET state = (state || CAST(:set AS jsonb)) - CAST(:removed AS text[]),"
    " updated_at = clock_timestamp() WHERE project_id = :project_id AND id = :id"
)
_HINT: Final = text("SELECT pg_notify('runward_runs', :hint)")
_HINT_AND_WAKE: Final = text(
    "SELECT pg_notify('runward_runs', :hint), pg_notify('runward_work', :hint)"
)


async def wake_parent(tx: Tx, project_id: ProjectId, lineage: Lineage | None) -> None:
    """Wake the parent of a child run that has ended, so that it reads the child run's result, and
    requeue all ancestors. Does nothing if `lineage` is None."""
    if lineage is None:
        return
    await requeue_ancestors(tx, project_id, lineage.ancestors)
    await tx.execute(_WAKE_PARENT, {"project_id": project_id, "id": lineage.parent})
    await tx.execute(_HINT_AND_WAKE, {"hint": format_hint([lineage.parent])})


async def requeue_ancestors(tx: Tx, project_id: ProjectId, ancestors: Sequence[RunId]) -> None:
    """Requeue idle ancestors, because a run below them can continue."""
    if ancestors:
        await tx.execute(_REQUEUE_ANCESTORS, {"project_id": project_id, "ids": list(ancestors)})


async def mark_idle_ancestors(tx: Tx, project_id: ProjectId, candidates: Sequence[RunId]) -> None:
    """Change the idle runs among `candidates` to `requires_action`, because a run below them now
    waits. `candidates`: IDs of runs, topmost first."""
    idle: list[RunId] = []
    for run_id in reversed(candidates):
        run = {"project_id": project_id, "id": run_id}
        row = (await tx.execute(_MARK_IDLE, run)).one_or_none()
        if row is None:
            break
        calls = [_WAITING_CALL.from_row(call, arguments={}) for call in row.calls]
        event = RunWaitingEvent({"waiting_for": [describe_waiting_call(call) for call in calls]})
        values = {"seq": row.last_seq, "type": event.type, "data": compact(event.data)}
        await tx.execute(_ADD_EVENT, run | values)
        idle.append(run_id)
    if idle:
        await tx.execute(_HINT, {"hint": format_hint(idle)})


async def merge_state(
    tx: Tx, project_id: ProjectId, session_id: SessionId, delta: JsonObject
) -> None:
    """Merge `delta` into the state of the session. A value of null removes the key."""
    kept, removed = split_state_delta(delta)
    values: dict[str, Any] = {"project_id": project_id, "id": session_id}
    await tx.execute(_MERGE_STATE, values | {"set": compact(kept), "removed": removed})


def split_state_delta(delta: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the keys to set with their values, and the keys to remove."""
    kept: JsonObject = {key: value for key, value in delta.items() if value is not None}
    return kept, [key for key, value in delta.items() if value is None]


async def finish_session_turn(
    tx: Tx, project_id: ProjectId, run_id: RunId, place: Place, items: Sequence[JsonObject]
) -> None:
    """Store the items of an ended run in its session, and let the next run start."""
    if place.number is not None:
        await sessions.close_run(tx, project_id, place.session_id, place.number, run_id, items)
