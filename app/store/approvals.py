"""Approvals as rows: the inbox, and writing decisions down. Deciding is `app.domain.approvals`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Select, func, insert, select

from app.domain.approvals import ApprovalStatus, Decided, Remember
from app.domain.ids import ApprovalId, ProjectId, RunId, SessionId
from app.domain.json import JsonObject
from app.domain.state import Remembered
from app.store.db import Tx
from app.store.ids import mint
from app.store.tables import approvals, remembered_decisions


@dataclass(frozen=True, slots=True)
class Approval:
    """`decision` is the request body that won, without its digest. `expired`: its time has
    passed, though nobody may have swept it up yet."""

    id: ApprovalId
    run_id: RunId
    call_id: str
    tool: str
    tool_version: int
    agent: str | None
    url: str | None
    arguments: JsonObject
    digest: str
    status: ApprovalStatus
    allowed_decisions: tuple[str, ...]
    requested_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    decision: JsonObject | None
    expired: bool


def _query(project_id: ProjectId) -> Select[Any]:
    overdue = approvals.c.expires_at <= func.clock_timestamp()
    return select(approvals, overdue.label("expired")).where(approvals.c.project_id == project_id)


async def get(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> Approval | None:
    row = (await tx.execute(_query(project_id).where(approvals.c.id == approval_id))).one_or_none()
    return None if row is None else _approval(row)


async def search(
    tx: Tx,
    project_id: ProjectId,
    *,
    status: str | None = None,
    run_id: RunId | None = None,
    tool: str | None = None,
    after: UUID | None = None,
    limit: int,
    descending: bool = False,
) -> list[Approval]:
    """In the order in which they were requested."""
    query = _query(project_id)
    if status is not None:
        query = query.where(approvals.c.status == status)
    if run_id is not None:
        query = query.where(approvals.c.run_id == run_id)
    if tool is not None:
        query = query.where(approvals.c.tool == tool)
    if after is not None:
        query = query.where(approvals.c.id < after if descending else approvals.c.id > after)
    order = approvals.c.id.desc() if descending else approvals.c.id
    return [_approval(row) for row in await tx.execute(query.order_by(order).limit(limit))]


async def pending_of(tx: Tx, project_id: ProjectId, run_ids: Sequence[RunId]) -> list[Approval]:
    query = _query(project_id).where(
        approvals.c.run_id.in_(run_ids), approvals.c.status == ApprovalStatus.PENDING
    )
    return [_approval(row) for row in await tx.execute(query.order_by(approvals.c.id))]


def closed_rows(run_id: RunId, decided: Sequence[Decided], by: str) -> list[dict[str, Any]]:
    """For `runs.change`: what was decided, and by whom."""
    return [
        {
            "run": run_id,
            "id": one.approval_id,
            "status": one.status,
            "decided_by": by,
            "decision": one.decision,
        }
        for one in decided
    ]


async def remember(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    what: Remembered,
    how: Remember,
    session_id: SessionId | None,
) -> None:
    """Of a session it covers the later runs too, where the person said so."""
    seconds = how.expires_seconds
    await tx.execute(
        insert(remembered_decisions).values(
            project_id=project_id,
            id=mint(),
            run_id=run_id,
            session_id=session_id if how.scope == "session" else None,
            decision=what.decision,
            tool=what.tool,
            tool_version=what.version,
            agent=what.agent,
            arguments_digest=what.arguments_digest,
            message=what.message,
            expires_at=None
            if seconds is None
            else func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds),
        )
    )


def _approval(row: Any) -> Approval:
    return Approval(
        id=ApprovalId(row.id),
        run_id=RunId(row.run_id),
        call_id=row.call_id,
        tool=row.tool,
        tool_version=row.tool_version,
        agent=row.agent,
        url=row.url,
        arguments=row.arguments,
        digest=row.digest,
        status=ApprovalStatus(row.status),
        allowed_decisions=tuple(row.allowed_decisions),
        requested_at=row.requested_at,
        expires_at=row.expires_at,
        decided_at=row.decided_at,
        decided_by=row.decided_by,
        decision=row.decision,
        expired=row.expired,
    )
