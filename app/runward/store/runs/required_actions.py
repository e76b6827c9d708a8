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

MIN_COUNTED: Final = 100
"""Up to this number, the counts are also exact for smaller pages."""
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


@dataclass(frozen=True, slots=True)
class PendingPage:
    """The most urgent actions, and how many there are of each type, up to MIN_COUNTED or the size
    of the page. `has_more`: whether there are more actions than the page contains."""

    actions: Sequence[PendingAction]
    counts: PendingCounts
    has_more: bool


_APPROVALS: Final = "FROM approvals WHERE project_id = :project_id AND status = 'pending'"
_CALLS: Final = f"""FROM tool_calls WHERE project_id = :project_id AND received IS NULL
    AND phase IN ({list_values(ACTION_PHASES)})"""
_RESOLVE: Final = "phase = 'awaiting_resolution'"
_APPROVAL: Final = "run_id, call_id, tool, id AS approval_id, id, requested_at, expires_at"
_CALL: Final = """run_id, call_id, tool, CAST(NULL AS uuid), id, coalesce(started_at, created_at),
    deadline_at"""
# Each part reads at most `read` rows in the order of an index. IDs have the order of creation.
_PENDING: Final = text(
    f"""
WITH pending AS (
  (SELECT 2 AS rank, 'approval' AS type, {_APPROVAL}, expires_at AS soon
  {_APPROVALS} AND expires_at < now() + {SOON} ORDER BY expires_at, id LIMIT :read)
  UNION ALL (SELECT 3, 'approval', {_APPROVAL}, NULL
  {_APPROVALS} AND expires_at >= now() + {SOON} ORDER BY id LIMIT :read)
  UNION ALL (SELECT 1, 'resolve', {_CALL}, NULL
  {_CALLS} AND {_RESOLVE} ORDER BY id LIMIT :read)
  UNION ALL (SELECT 4, 'tool_result', {_CALL}, NULL
  {_CALLS} AND NOT {_RESOLVE} ORDER BY id LIMIT :read))
SELECT *, count(*) FILTER (WHERE type = 'approval') OVER () AS approvals,
  count(*) FILTER (WHERE type = 'resolve') OVER () AS resolves,
  count(*) FILTER (WHERE type = 'tool_result') OVER () AS tool_results
FROM pending ORDER BY rank, soon, id LIMIT :limit"""
)


async def list_pending_actions(tx: Tx, project_id: ProjectId, limit: int) -> PendingPage:
    """Return the first `limit` actions in the order of the inbox."""
    counted = max(limit, MIN_COUNTED)
    values = {"project_id": project_id, "limit": limit, "read": counted + 1}
    rows = (await tx.execute(_PENDING, values)).all()
    if not rows:
        return PendingPage([], PendingCounts(), has_more=False)
    actions = [
        PendingAction(
            type=row.type,
            run_id=RunId(row.run_id),
            call_id=row.call_id,
            tool=row.tool,
            approval_id=None if row.approval_id is None else ApprovalId(row.approval_id),
            requested_at=row.requested_at,
            expires_at=None if row.type == "resolve" else row.expires_at,
        )
        for row in rows
    ]
    found = (rows[0].approvals, rows[0].resolves, rows[0].tool_results)
    counts = PendingCounts(*(min(one, counted) for one in found))
    return PendingPage(actions, counts, has_more=sum(found) > len(rows))
