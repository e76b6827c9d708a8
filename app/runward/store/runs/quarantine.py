"""The quarantine of runs whose stored data cannot be read. Such runs are ended by SQL alone.

A value may be nested too deep, or a run may be too large for PostgreSQL to return. Such data must
not stop the process that reads it, and must not keep the run open forever.
"""

from typing import Final

import structlog
from sqlalchemy import text

from runward.domain.errors import RunUnreadableError
from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import CallId, Prefix, ProjectId, RunId, SessionId, format_id
from runward.domain.json import JsonObject, compact
from runward.domain.run import texts
from runward.domain.run.family import Lineage
from runward.domain.run.run_events import CALL_ENDINGS
from runward.domain.run.sessions import Place
from runward.domain.run.state import CallOutcome
from runward.domain.run.status import MOVES, RUN_ENDINGS, Move
from runward.metrics.definitions import NO_AGENT, QUARANTINED_RUNS, RUNS_ENDED
from runward.store.postgres.db import Tx
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.tables import OPEN_STATUSES
from runward.store.runs import family, queries
from runward.store.runs.records import format_hint

log = structlog.get_logger()

_ERROR: Final[JsonObject] = {
    "code": RunErrorCode.RUN_UNREADABLE,
    "message": RunUnreadableError.text,
}
_REASONS: Final = {Move.FAIL: CallReason.RUN_ENDED, Move.CANCEL: CallReason.RUN_CANCELLED}
# The caller has locked the run. The statement returns no JSON, because JSON may be unreadable.
_END: Final = text(
    f"""
WITH h AS (
  SELECT project_id, id, last_seq, parent_run_id, parent_call_id, ancestors, path, session_id,
    session_seq
  FROM runs WHERE project_id = :project_id AND id = :id
    AND status IN ({OPEN_STATUSES})
), o AS (
  SELECT c.project_id, c.run_id, c.call_id, c.tool, c.attempt, CASE WHEN c.attempt > 0
      THEN CAST(:sent AS text) ELSE CAST(:unsent AS text) END AS output,
    row_number() OVER (ORDER BY c.turn, c.position) AS n
  FROM tool_calls c JOIN h ON c.project_id = h.project_id AND c.run_id = h.id
  WHERE c.phase <> 'settled'
), g AS (
  UPDATE runs r SET status = :status, lease_expires_at = NULL, fence = r.fence + 1,
    version = r.version + 1, last_seq = h.last_seq + (SELECT count(*) FROM o) + 1,
    error = CAST(:error AS json), ended_at = clock_timestamp()
  FROM h WHERE r.project_id = h.project_id AND r.id = h.id
  RETURNING r.project_id, r.id, r.last_seq, clock_timestamp() AS at
), events AS (
  INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)
  SELECT g.project_id, g.id, h.last_seq + o.n, :call_event, json_build_object('call_id',
    o.call_id, 'tool', o.tool, 'attempt', o.attempt, 'output', o.output, 'is_error', true,
    'reason', CAST(:reason AS text)), g.at
  FROM g CROSS JOIN h CROSS JOIN o
  UNION ALL SELECT g.project_id, g.id, g.last_seq, :run_event, CAST(:data AS json), g.at FROM g
), settled AS (
  UPDATE tool_calls c SET phase = 'settled', ended_at = g.at, result = json_build_object(
    'outcome', CAST(:outcome AS text), 'output', o.output, 'reason', CAST(:reason AS text))
  FROM o CROSS JOIN g
  WHERE c.project_id = o.project_id AND c.run_id = o.run_id AND c.call_id = o.call_id
), cancelled AS (
  UPDATE approvals a SET status = 'cancelled', decided_at = g.at FROM g
  WHERE a.project_id = g.project_id AND a.run_id = g.id AND a.status = 'pending'
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_runs', :hint)
)
SELECT h.* FROM h CROSS JOIN hint"""
)


class Quarantine:
    """Ends unreadable runs. `count`: number of runs that this process has ended."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self.count = 0

    async def end(self, project_id: ProjectId, run_id: RunId, move: Move = Move.FAIL) -> None:
        """End the run if it is open. `move`: FAIL, or CANCEL if a client cancelled the run."""
        async with self._engine.begin() as tx:
            ended = await end_unreadable(tx, project_id, run_id, move)
        if ended:
            self.count += 1
            QUARANTINED_RUNS.count("unreadable")
            RUNS_ENDED.count(MOVES[move].target, NO_AGENT)
            log.error(
                "run_quarantined",
                project=format_id(Prefix.PROJECT, project_id),
                run=format_id(Prefix.RUN, run_id),
                quarantined=self.count,
            )


async def end_unreadable(tx: Tx, project_id: ProjectId, run_id: RunId, move: Move) -> bool:
    """End the run without loading it, and settle its open calls and approvals, like
    `runward.store.runs.locked_run.end_run`. Its session keeps none of its items. Returns False if
    there is no open run with this ID."""
    await queries.lock_runs(tx, project_id, run_id)
    reason, error = _REASONS[move], _ERROR if move is Move.FAIL else None
    unsent = texts.CANCELLED if move is Move.CANCEL else texts.RUN_ENDED
    values = {
        "project_id": project_id,
        "id": run_id,
        "status": MOVES[move].target,
        "error": None if error is None else compact(error),
        "unsent": unsent,
        "sent": f"{unsent} {texts.UNKNOWN_OUTCOME}",
        "reason": reason,
        "outcome": CallOutcome.CANCELLED,
        "call_event": CALL_ENDINGS[CallOutcome.CANCELLED].type,
        "run_event": RUN_ENDINGS[MOVES[move].target].type,
        "data": compact({} if error is None else {"error": error}),
        "hint": format_hint([run_id]),
    }
    row = (await tx.execute(_END, values)).one_or_none()
    if row is None:
        return False
    if row.parent_run_id is not None:
        ancestors = tuple(RunId(one) for one in row.ancestors)
        lineage = Lineage(
            RunId(row.parent_run_id), CallId(row.parent_call_id), ancestors, tuple(row.path)
        )
        await family.wake_parent(tx, project_id, lineage)
    if row.session_id is not None:
        place = Place(SessionId(row.session_id), row.session_seq)
        await family.finish_session_turn(tx, project_id, run_id, place, ())
    return True
