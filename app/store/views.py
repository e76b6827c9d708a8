"""Runs, calls and conversations as the API shows them: plain reads, nothing is locked."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from sqlalchemy import func, select, text

from app.domain.calls import Call, CallPhase
from app.domain.ids import ProjectId, RunId, SessionId
from app.domain.json import JsonObject
from app.domain.run import RunStatus
from app.store import codec
from app.store.approvals import Approval, pending_of
from app.store.db import Tx
from app.store.tables import late_callbacks, runs, tool_calls


@dataclass(frozen=True, slots=True)
class RunView:
    """The head row. `config` is what was asked for, without defaults."""

    id: RunId
    status: RunStatus
    agent: str | None
    config: JsonObject
    turn: int
    usage: dict[str, Any]
    session_id: SessionId | None
    continued_from: RunId | None
    parent_run_id: RunId | None
    output: Any
    output_parsed: Any
    error: JsonObject | None
    incomplete_details: JsonObject | None
    context: JsonObject | None
    metadata: JsonObject
    last_seq: int
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class CallView:
    """A ledger row with its times; `deadline_at` is that of its last attempt."""

    call: Call
    created_at: datetime
    started_at: datetime | None
    deadline_at: datetime | None
    ended_at: datetime | None


USAGE: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "total_tokens",
    "cost_usd",
)
_COLUMNS: Final = (
    runs.c.id,
    runs.c.status,
    func.coalesce(runs.c.active_agent, runs.c.agent).label("agent"),
    runs.c.config,
    runs.c.turn,
    runs.c.input_tokens,
    runs.c.output_tokens,
    runs.c.cached_tokens,
    runs.c.reasoning_tokens,
    runs.c.cost_usd,
    runs.c.session_id,
    runs.c.continued_from,
    runs.c.parent_run_id,
    runs.c.output,
    runs.c.output_parsed,
    runs.c.error,
    runs.c.incomplete_details,
    runs.c.context,
    runs.c.metadata,
    runs.c.last_seq,
    runs.c.created_at,
    runs.c.started_at,
    runs.c.ended_at,
)


async def get_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> RunView | None:
    query = select(*_COLUMNS).where(runs.c.project_id == project_id, runs.c.id == run_id)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _run(row)


async def search_runs(
    tx: Tx,
    project_id: ProjectId,
    *,
    status: str | None,
    agent: str | None,
    after: UUID | None,
    limit: int,
    descending: bool,
) -> list[RunView]:
    """In the order in which they were created."""
    query = select(*_COLUMNS).where(runs.c.project_id == project_id)
    if status is not None:
        query = query.where(runs.c.status == status)
    if agent is not None:
        query = query.where(runs.c.agent == agent)
    if after is not None:
        query = query.where(runs.c.id < after if descending else runs.c.id > after)
    order = runs.c.id.desc() if descending else runs.c.id
    return [_run(row) for row in await tx.execute(query.order_by(order).limit(limit))]


_STATUS: Final = text(
    "SELECT status, last_seq FROM runs WHERE project_id = :project_id AND id = :id"
)


async def status_of(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, int] | None:
    """With the number of the last event."""
    row = (await tx.execute(_STATUS, {"project_id": project_id, "id": run_id})).one_or_none()
    return None if row is None else (RunStatus(row.status), row.last_seq)


async def calls_of(
    tx: Tx, project_id: ProjectId, run_id: RunId, *, phases: tuple[CallPhase, ...] = ()
) -> list[CallView]:
    """In the order in which the model asked for them."""
    query = select(tool_calls).where(
        tool_calls.c.project_id == project_id, tool_calls.c.run_id == run_id
    )
    if phases:
        query = query.where(tool_calls.c.phase.in_(phases))
    rows = await tx.execute(query.order_by(tool_calls.c.turn, tool_calls.c.position))
    return [_call(row) for row in rows]


Waiting: TypeAlias = Approval | CallView
"""What someone outside must do: decide, or settle or answer a call."""


async def waiting_for(
    tx: Tx, project_id: ProjectId, run_ids: Sequence[RunId]
) -> dict[RunId, list[Waiting]]:
    """Of each run, in the order in which the model asked."""
    found: dict[RunId, list[Waiting]] = {run_id: [] for run_id in run_ids}
    if not run_ids:
        return found
    for asked in await pending_of(tx, project_id, run_ids):
        found[asked.run_id].append(asked)
    phases = (CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_RESOLUTION)
    query = (
        select(tool_calls)
        .where(tool_calls.c.project_id == project_id, tool_calls.c.run_id.in_(run_ids))
        .where(tool_calls.c.phase.in_(phases))
        .order_by(tool_calls.c.turn, tool_calls.c.position)
    )
    for row in await tx.execute(query):
        found[RunId(row.run_id)].append(_call(row))
    return found


LastOutput: TypeAlias = Any
"""Any JSON but null."""


async def last_output(tx: Tx, project_id: ProjectId, run_id: RunId, tool: str) -> LastOutput | None:
    """Of the run's last call of `tool` that ended well. None: there is none."""
    query = (
        select(tool_calls.c.result)
        .where(tool_calls.c.project_id == project_id, tool_calls.c.run_id == run_id)
        .where(tool_calls.c.tool == tool, tool_calls.c.phase == CallPhase.SETTLED)
        .order_by(tool_calls.c.turn.desc(), tool_calls.c.position.desc())
    )
    for row in await tx.execute(query):
        result = codec.result_from_json(row.result)
        if not result.is_error:
            return result.output if result.full is None else result.full
    return None


async def keep_late_callback(
    tx: Tx, project_id: ProjectId, run_id: RunId, call_id: str, body: Any, row_id: UUID
) -> None:
    await tx.execute(
        late_callbacks.insert().values(
            project_id=project_id, id=row_id, run_id=run_id, call_id=call_id, body=body
        )
    )


def _run(row: Any) -> RunView:
    return RunView(
        id=RunId(row.id),
        status=RunStatus(row.status),
        agent=row.agent,
        config=row.config,
        turn=row.turn,
        usage={
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "cached_tokens": row.cached_tokens,
            "reasoning_tokens": row.reasoning_tokens,
            "total_tokens": row.input_tokens + row.output_tokens,
            "cost_usd": row.cost_usd,
        },
        session_id=row.session_id,
        continued_from=row.continued_from,
        parent_run_id=row.parent_run_id,
        output=row.output,
        output_parsed=row.output_parsed,
        error=row.error,
        incomplete_details=row.incomplete_details,
        context=row.context,
        metadata=row.metadata,
        last_seq=row.last_seq,
        created_at=row.created_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
    )


def _call(row: Any) -> CallView:
    fields = dict(row._mapping)
    fields["id"] = str(fields["id"])
    for name in ("approval_id", "child_run_id"):
        if fields[name] is not None:
            fields[name] = str(fields[name])
    call = codec.call_from_row(fields)
    return CallView(call, row.created_at, row.started_at, row.deadline_at, row.ended_at)
