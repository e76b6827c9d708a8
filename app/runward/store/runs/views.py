"""Runs, calls and conversations as the API shows them. The queries lock nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final, TypeAlias
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    FromClause,
    Select,
    Text,
    Uuid,
    column,
    func,
    literal_column,
    select,
    text,
    tuple_,
)

from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import CallId, ProjectId, RunId, SessionId
from runward.domain.json import JsonObject, compact
from runward.domain.run.items import Item
from runward.domain.run.state import WAITING, Call, CallOutcome, CallPhase
from runward.domain.run.status import RunStatus
from runward.store import codec
from runward.store.access.keys import ActingKey, starter_columns, starter_from_row
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import UNREADABLE, Tx
from runward.store.postgres.tables import OPEN_STATUSES, approvals, runs, tool_calls
from runward.store.runs.approvals import Approval, approval_from_row


@dataclass(frozen=True, slots=True)
class RunView:
    """The row of a run. `config`: the requested configuration, without defaults. `erase_at_end`:
    whether the content is erased after the run has ended."""

    id: RunId
    status: RunStatus
    agent: str | None
    config: JsonObject
    created_by: ActingKey | None
    turn: int
    usage: dict[str, Any]
    session_id: SessionId | None
    continued_from: RunId | None
    schedule_id: UUID | None
    parent_run_id: RunId | None
    output: Any
    output_parsed: Any
    error: JsonObject | None
    incomplete_details: JsonObject | None
    context: JsonObject | None
    metadata: JsonObject
    last_seq: int
    priority: int
    start_at: datetime | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    erase_at_end: bool
    erased_at: datetime | None


@dataclass(frozen=True, slots=True)
class CallView:
    """A row of the tool-call log with its times. `deadline_at`: the deadline of its last
    attempt."""

    call: Call
    created_at: datetime
    started_at: datetime | None
    deadline_at: datetime | None
    ended_at: datetime | None


USAGE_FIELDS: Final = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "total_tokens",
    "cost_usd",
)
PARKED: Final = """(runs.status = 'queued' AND runs.available_at = 'infinity'
  AND runs.started_at IS NOT NULL AND (SELECT c.phase FROM tool_calls c
    WHERE c.project_id = runs.project_id AND c.run_id = runs.id AND c.phase = 'awaiting_child'
    LIMIT 1) IS NULL)"""
"""SQL condition for a run that waits only for callbacks of tools. Such a run is stored as queued.
It needs no worker and no person, so its public status is in_progress. A run that waits for child
runs is shown as queued. The LIMIT keeps the planner from reading all calls."""
PUBLIC_STATUS: Final = f"CASE WHEN {PARKED} THEN 'in_progress' ELSE runs.status END"
_RUN: Final = RowMapping(
    RunView,
    runs,
    only=[field.name for field in fields(RunView) if field.name not in ("created_by", "usage")],
)


def list_run_columns(source: FromClause) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of a RunView. `source`: the table `runs`, or rows of it with this name."""
    return (
        literal_column(PUBLIC_STATUS, Text).label("status"),
        func.coalesce(source.c.active_agent, source.c.agent).label("agent"),
        *(source.c[name] for name in _RUN.columns if name not in ("status", "agent")),
        *(source.c[name] for name in codec.USAGE.columns),
        *starter_columns(source),
    )


RUN_COLUMNS: Final = list_run_columns(runs)


async def get_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> RunView | None:
    query = select(*RUN_COLUMNS).where(runs.c.project_id == project_id, runs.c.id == run_id)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else run_from_row(row)


_FIRST_INPUT: Final = text(
    "SELECT items FROM run_items WHERE project_id = :project_id AND run_id = :id AND seq = 1"
    " AND kind = 'input'"
)


async def get_first_input(tx: Tx, project_id: ProjectId, run_id: RunId) -> list[JsonObject]:
    """Return the messages that the run was started with. A continued run may have none."""
    found = await tx.execute(_FIRST_INPUT, {"project_id": project_id, "id": run_id})
    return found.scalar_one_or_none() or []


_RESPONSE: Final = text(
    "SELECT items FROM run_items WHERE project_id = :project_id AND run_id = :id AND turn = :turn"
    " AND kind = 'response' ORDER BY seq DESC LIMIT 1"
)


async def list_response_items(
    tx: Tx, project_id: ProjectId, run_id: RunId, turn: int
) -> tuple[Item, ...]:
    """Return the items of the model's response in a turn."""
    values = {"project_id": project_id, "id": run_id, "turn": turn}
    found = await tx.execute(_RESPONSE, values)
    return codec.items_from_json(found.scalar_one_or_none() or [])


_STATUS: Final = text(
    f"SELECT {PUBLIC_STATUS} AS status, last_seq FROM runs"
    " WHERE project_id = :project_id AND id = :id"
)


async def get_status(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, int] | None:
    """Return the public status and the sequence number of the last event, or None if the run does
    not exist."""
    row = (await tx.execute(_STATUS, {"project_id": project_id, "id": run_id})).one_or_none()
    return None if row is None else (RunStatus(row.status), row.last_seq)


_OPEN_WITH: Final = text(
    "SELECT id FROM runs WHERE project_id = :project_id AND id > :since"
    " AND created_by = :created_by AND metadata @> CAST(:about AS jsonb)"
    f" AND status IN ({OPEN_STATUSES}) ORDER BY id DESC LIMIT 1"
)


async def find_open_run(
    tx: Tx, project_id: ProjectId, created_by: UUID, metadata: JsonObject, after: UUID
) -> RunId | None:
    """Return the newest open run that this key started after the ID `after` and whose metadata
    contains `metadata`. Returns None if there is none."""
    values = {"project_id": project_id, "created_by": created_by, "since": after}
    row = (await tx.execute(_OPEN_WITH, values | {"about": compact(metadata)})).one_or_none()
    return None if row is None else RunId(row.id)


async def list_calls(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    *,
    phases: tuple[CallPhase, ...] = (),
    call_id: CallId | None = None,
) -> list[CallView]:
    """Return the calls in the order in which the model requested them."""
    query = select(tool_calls).where(
        tool_calls.c.project_id == project_id, tool_calls.c.run_id == run_id
    )
    if phases:
        query = query.where(tool_calls.c.phase.in_(phases))
    if call_id is not None:
        query = query.where(tool_calls.c.call_id == call_id)
    rows = await tx.execute(query.order_by(tool_calls.c.turn, tool_calls.c.position))
    return [_call_from_row(row) for row in rows]


async def find_open_calls(tx: Tx, calls: Sequence[tuple[ProjectId, RunId, UUID]]) -> set[UUID]:
    """Return the IDs of those calls that have no result yet."""
    t = tool_calls.c
    query = select(t.id).where(
        tuple_(t.project_id, t.run_id, t.id).in_(calls), t.phase != CallPhase.SETTLED
    )
    return set((await tx.execute(query)).scalars())


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that needs a decision, a result or input from outside, or that waits for its tool's
    callback. `run_id`: the run of the call. `path`: the agents from the requested run down to that
    run."""

    run_id: RunId
    path: tuple[str, ...]
    subject: Approval | CallView


_FAMILY: Final = (
    text(
        "SELECT id AS looked_at, id, CAST('{}' AS text[]) AS names"
        " FROM unnest(CAST(:ids AS uuid[])) AS id"
        " UNION ALL SELECT a.id, r.id, r.path[a.depth:] FROM runs r"
        " CROSS JOIN LATERAL unnest(r.ancestors) WITH ORDINALITY AS a(id, depth)"
        " WHERE r.project_id = :project_id AND r.parent_run_id IS NOT NULL"
        " AND r.ancestors && CAST(:ids AS uuid[]) AND a.id = ANY(CAST(:ids AS uuid[]))"
        f" AND r.status IN ({OPEN_STATUSES})"
    )
    .columns(column("looked_at", Uuid), column("id", Uuid), column("names", ARRAY(Text)))
    .cte("family")
)
"""The runs `ids`, and their open child runs at all levels."""


def _waiting_query(project_id: ProjectId, run_ids: Sequence[RunId]) -> Select[Any]:
    """Return the query for the waiting calls of these runs and of their child runs."""
    asked = (
        (approvals.c.project_id == tool_calls.c.project_id)
        & (approvals.c.id == tool_calls.c.approval_id)
        & (approvals.c.status == ApprovalStatus.PENDING)
    )
    overdue = (approvals.c.expires_at <= func.clock_timestamp()).label("asked_expired")
    return (
        select(
            _FAMILY.c.looked_at,
            _FAMILY.c.names,
            *tool_calls.c,
            *(one.label(f"asked_{one.name}") for one in approvals.c),
            overdue,
        )
        .select_from(
            _FAMILY.join(
                tool_calls,
                (tool_calls.c.project_id == project_id) & (tool_calls.c.run_id == _FAMILY.c.id),
            ).outerjoin(approvals, asked)
        )
        .where(tool_calls.c.phase.in_(WAITING - {CallPhase.AWAITING_CHILD}))
        .where(tool_calls.c.received.is_(None))
        .order_by(tool_calls.c.id)
        .params(project_id=project_id, ids=list(run_ids))
    )


async def list_waiting_calls(
    tx: Tx, project_id: ProjectId, run_ids: Sequence[RunId]
) -> dict[RunId, list[WaitingCall]]:
    """Return the waiting calls of each run and of its child runs, in the order in which the models
    requested them."""
    found: dict[RunId, list[WaitingCall]] = {run_id: [] for run_id in run_ids}
    if not run_ids:
        return found
    for row in await tx.execute(_waiting_query(project_id, run_ids)):
        what = _call_from_row(row)
        if what.call.phase is CallPhase.AWAITING_APPROVAL:
            if row.asked_id is None:
                continue
            what = approval_from_row(row, "asked_", path=row.names)
        one = WaitingCall(RunId(row.run_id), tuple(row.names), what)
        found[RunId(row.looked_at)].append(one)
    return found


LastOutput: TypeAlias = Any
"""Any JSON value except null."""


async def find_last_output(
    tx: Tx, project_id: ProjectId, run_id: RunId, tool: str
) -> LastOutput | None:
    """Return the output of the run's last successful call of `tool`, or None if there is none."""
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


MAX_LATE_CALLBACKS: Final = 100
"""Maximum number of late callbacks that are stored for one run. Further ones get the same response
and are dropped."""
_KEEP_LATE: Final = text(
    "INSERT INTO late_callbacks (project_id, id, run_id, call_id, body)"
    " SELECT :project_id, :id, :run_id, :call_id, CAST(:body AS json) WHERE (SELECT count(*)"
    " FROM late_callbacks WHERE project_id = :project_id AND run_id = :run_id) < :max_late"
)


async def store_late_callback(
    tx: Tx, project_id: ProjectId, run_id: RunId, call_id: str, body: JsonObject, row_id: UUID
) -> None:
    """Store a late callback, unless the run already has the maximum number. The caller has locked
    the run."""
    values = {"project_id": project_id, "id": row_id, "run_id": run_id, "call_id": call_id}
    await tx.execute(_KEEP_LATE, values | {"body": compact(body), "max_late": MAX_LATE_CALLBACKS})


def run_from_row(row: Any) -> RunView:
    """Return a run from a row of RUN_COLUMNS."""
    counts = {**row._mapping, "total_tokens": row.input_tokens + row.output_tokens}
    usage = {name: counts[name] for name in USAGE_FIELDS}
    return _RUN.read(row, created_by=starter_from_row(row), usage=usage)


def _call_from_row(row: Any) -> CallView:
    columns = dict(row._mapping)
    if columns["result"] == UNREADABLE:
        columns["result"] = {"outcome": CallOutcome.OUTCOME_UNKNOWN, "output": UNREADABLE}
    if columns["exchange"] == UNREADABLE:
        columns["exchange"] = None
    call = codec.CALL.from_row(columns)
    return CallView(call, row.created_at, row.started_at, row.deadline_at, row.ended_at)
