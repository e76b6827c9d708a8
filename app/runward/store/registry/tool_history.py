"""The calls of a tool in all runs of a project. The queries lock nothing."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.events.values import CallReason
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.state import CallOutcome, CallPhase
from runward.domain.run.tools import UNREGISTERED
from runward.store.postgres.db import Tx

MAX_COUNTED: Final = 100
"""Maximum number of calls in the statistics, newest first."""
MESSAGE_CHARACTERS: Final = 500


@dataclass(frozen=True, slots=True)
class PastCall:
    """A row of the tool-call log without arguments and output. `agent`: the agent that made the
    call. `duration_ms`: the duration of its last attempt. `message`: at most MESSAGE_CHARACTERS of
    the detail for operators or, if there is none, of the output."""

    id: UUID
    run_id: RunId
    call_id: str
    agent: str | None
    tool_version: int | None
    phase: CallPhase
    attempt: int
    outcome: CallOutcome | None
    reason: CallReason | None
    message: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: float | None


@dataclass(frozen=True, slots=True)
class ToolFigures:
    """Statistics of the newest calls: numbers of all calls, of failed calls, and of calls that were
    sent and have ended. The latter are `timed`. The percentiles are of the durations of their last
    attempts in milliseconds, or None if there are no such calls."""

    calls: int
    failed: int
    timed: int
    p50_ms: float | None
    p95_ms: float | None


# A continued run has copies of the previous run's calls. These copies are older than the run and
# are not counted again. An inline tool is a different tool, even if it has the same name.
_CALLS: Final = f"""
  tool_calls c JOIN runs r ON r.project_id = c.project_id AND r.id = c.run_id
    AND r.created_at <= c.created_at
  WHERE c.project_id = :project_id AND c.tool = :tool
    AND c.tool_version IS DISTINCT FROM {UNREGISTERED}"""
_MS: Final = "CAST(extract(epoch FROM c.ended_at - c.started_at) * 1000 AS float8)"
_PAGE: Final = f"""
SELECT c.id, c.run_id, c.call_id, c.tool_version, c.phase, c.attempt, c.created_at, c.started_at,
  c.ended_at, {_MS} AS duration_ms, c.result ->> 'outcome' AS outcome,
  c.result ->> 'reason' AS reason,
  left(coalesce(c.result ->> 'detail', c.result ->> 'output'), {MESSAGE_CHARACTERS}) AS said,
  coalesce((SELECT i.agent FROM run_items i WHERE i.project_id = c.project_id
    AND i.run_id = c.run_id AND i.turn = c.turn AND i.kind = 'response'
    ORDER BY i.seq DESC LIMIT 1), r.agent) AS agent
FROM {_CALLS}{{after}} ORDER BY c.id{{order}} LIMIT :limit"""  # The values are constants.
_FIGURES: Final = text(
    f"""
SELECT count(*) AS calls,
  count(*) FILTER (WHERE outcome IN ('failed', 'timed_out', 'outcome_unknown')) AS failed,
  count(ms) AS timed,
  percentile_cont(0.5) WITHIN GROUP (ORDER BY ms) AS p50,
  percentile_cont(0.95) WITHIN GROUP (ORDER BY ms) AS p95
FROM (SELECT c.result ->> 'outcome' AS outcome, {_MS} AS ms FROM {_CALLS}
  ORDER BY c.id DESC LIMIT {MAX_COUNTED}) AS newest"""
)


async def list_past_calls(
    tx: Tx, project_id: ProjectId, tool: str, *, after: UUID | None, limit: int, descending: bool
) -> list[PastCall]:
    """Return a page of the calls, in the order in which models requested them."""
    query = _PAGE.format(
        after="" if after is None else f" AND c.id {'<' if descending else '>'} :after",
        order=" DESC" if descending else "",
    )
    values: dict[str, Any] = {"project_id": project_id, "tool": tool, "limit": limit}
    if after is not None:
        values["after"] = after
    return [_call_from_row(row) for row in await tx.execute(text(query), values)]


async def read_figures(tx: Tx, project_id: ProjectId, tool: str) -> ToolFigures:
    row = (await tx.execute(_FIGURES, {"project_id": project_id, "tool": tool})).one()
    return ToolFigures(row.calls, row.failed, row.timed, row.p50, row.p95)


def _call_from_row(row: Any) -> PastCall:
    return PastCall(
        id=row.id,
        run_id=RunId(row.run_id),
        call_id=row.call_id,
        agent=row.agent,
        tool_version=row.tool_version,
        phase=CallPhase(row.phase),
        attempt=row.attempt,
        outcome=None if row.outcome is None else CallOutcome(row.outcome),
        reason=None if row.reason is None else CallReason(row.reason),
        message=row.said,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        duration_ms=row.duration_ms,
    )
