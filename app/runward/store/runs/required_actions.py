"""Required actions of people and clients in all runs of a project. The queries lock nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from sqlalchemy import text

from runward.domain.ids import ApprovalId, ProjectId, RunId
from runward.domain.run.state import ACTION_PHASES
from runward.store.postgres.columns import list_values
from runward.store.postgres.db import Tx

ActionType: TypeAlias = Literal["approval", "resolve", "tool_result"]

SOON: Final = "interval '1 hour'"
"""Approvals that expire within this time come first, ordered by expiry."""


@dataclass(frozen=True, slots=True)
class PendingAction:
    type: ActionType
    run_id: RunId
    call_id: str
    tool: str
    approval_id: ApprovalId | None
    requested_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class PendingCounts:
    approval: int = 0
    resolve: int = 0
    tool_result: int = 0


_PENDING: Final = text(
    f"""
WITH pending AS (
  SELECT 'approval' AS type, run_id, call_id, tool, id AS approval_id, id, requested_at, expires_at,
    CASE WHEN expires_at < now() + {SOON} THEN expires_at END AS soon
  FROM approvals WHERE project_id = :project_id AND status = 'pending'
  UNION ALL
  SELECT CASE phase WHEN 'awaiting_resolution' THEN 'resolve' ELSE 'tool_result' END, run_id,
    call_id, tool, NULL, id, coalesce(started_at, created_at),
    CASE WHEN phase <> 'awaiting_resolution' THEN deadline_at END, NULL
  FROM tool_calls WHERE project_id = :project_id AND received IS NULL
    AND phase IN ({list_values(ACTION_PHASES)}))
SELECT *, count(*) FILTER (WHERE type = 'approval') OVER () AS approvals,
  count(*) FILTER (WHERE type = 'resolve') OVER () AS resolves,
  count(*) FILTER (WHERE type = 'tool_result') OVER () AS tool_results
FROM pending
ORDER BY array_position(ARRAY['resolve', 'approval', 'tool_result'], type), soon, requested_at, id
LIMIT :limit"""
)


async def list_pending_actions(
    tx: Tx, project_id: ProjectId, limit: int
) -> tuple[Sequence[PendingAction], PendingCounts]:
    """Return the first `limit` actions in the order of the inbox, and the counts of all actions."""
    rows = (await tx.execute(_PENDING, {"project_id": project_id, "limit": limit})).all()
    if not rows:
        return [], PendingCounts()
    actions = [
        PendingAction(
            type=row.type,
            run_id=RunId(row.run_id),
            call_id=row.call_id,
            tool=row.tool,
            approval_id=None if row.approval_id is None else ApprovalId(row.approval_id),
            requested_at=row.requested_at,
            expires_at=row.expires_at,
        )
        for row in rows
    ]
    counts = PendingCounts(rows[0].approvals, rows[0].resolves, rows[0].tool_results)
    return actions, counts
