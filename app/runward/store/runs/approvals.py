"""Stored approvals: queries for the inbox, and the rows of decisions.
`runward.domain.run.approvals` applies decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    CompoundSelect,
    Select,
    Uuid,
    case,
    cast,
    func,
    insert,
    literal,
    literal_column,
    select,
    union_all,
    update,
)

from runward.domain.events.values import ApprovalStatus, DecisionKind
from runward.domain.ids import ApprovalId, ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.run.approvals import DecisionRecord
from runward.domain.run.decisions import RememberedDecision, RememberOptions
from runward.store.access.keys import ActingKey, starter_columns, starter_from_row
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.tables import api_keys, approvals, remembered_decisions, runs


@dataclass(frozen=True, slots=True)
class RootRun:
    """The run that a client started: the run of the call, or its topmost ancestor. `input`: the
    text of the last user message in its input, at most MAX_INPUT_CHARACTERS characters. None if
    there is no such message."""

    id: RunId
    agent: str | None
    created_by: ActingKey | None
    created_at: datetime
    input: str | None


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval. `decision`: the request body of the accepted decision, without its digest.
    `expired`: whether `expires_at` has passed. The status may still be pending. `path`: the agents
    from the run that a client started or requested down to the run of the call. It is empty if both
    are the same run. `model_message`: the text of the response that requested the call, at most
    MAX_INPUT_CHARACTERS characters. `run`, `decider_name` and `model_message` are None if they were
    not queried."""

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
    allowed_decisions: tuple[DecisionKind, ...]
    requested_at: datetime
    expires_at: datetime
    decided_at: datetime | None
    decided_by: str | None
    decision: JsonObject | None
    expired: bool
    path: tuple[str, ...]
    run: RootRun | None = None
    decider_name: str | None = None
    model_message: str | None = None


_APPROVAL: Final = RowMapping(
    Approval, approvals, only=[column.name for column in approvals.c if column.name != "project_id"]
)
MAX_INPUT_CHARACTERS: Final = 2_000

_top: Final = runs.alias("top")
_INPUT: Final[ColumnElement[str | None]] = literal_column(
    f"""(SELECT left(CASE json_typeof(m.item -> 'content') WHEN 'string' THEN m.item ->> 'content'
    ELSE (SELECT string_agg(part ->> 'text', '' ORDER BY p)
      FROM json_array_elements(m.item -> 'content') WITH ORDINALITY AS parts(part, p)) END,
    {MAX_INPUT_CHARACTERS})
  FROM run_items i, json_array_elements(i.items) WITH ORDINALITY AS m(item, n)
  WHERE i.project_id = top.project_id AND i.run_id = top.id AND i.kind = 'input'
    AND m.item ->> 'role' = 'user'
  ORDER BY i.seq DESC, m.n DESC LIMIT 1)"""
)
_MODEL_MESSAGE: Final[ColumnElement[str | None]] = literal_column(
    f"""(SELECT left(string_agg(CASE json_typeof(m.item -> 'content')
    WHEN 'string' THEN m.item ->> 'content'
    ELSE (SELECT string_agg(part ->> 'text', '' ORDER BY p)
      FROM json_array_elements(m.item -> 'content') WITH ORDINALITY AS parts(part, p)) END,
    E'\\n' ORDER BY m.n), {MAX_INPUT_CHARACTERS})
  FROM tool_calls c JOIN run_items i ON i.project_id = c.project_id AND i.run_id = c.run_id
      AND i.turn = c.turn AND i.kind = 'response',
    json_array_elements(i.items) WITH ORDINALITY AS m(item, n)
  WHERE c.project_id = approvals.project_id AND c.run_id = approvals.run_id
    AND c.call_id = approvals.call_id AND m.item ->> 'role' = 'assistant')"""
)
_DECIDER_ID: Final = func.substr(approvals.c.decided_by, len("key_") + 1)
_RUN_OF_APPROVAL: Final = (runs.c.project_id == approvals.c.project_id) & (
    runs.c.id == approvals.c.run_id
)


_DECIDER_NAME: Final = (
    select(api_keys.c.name)
    .where(
        api_keys.c.project_id == approvals.c.project_id,
        api_keys.c.id
        == case((approvals.c.decided_by.like("key~_%", escape="~"), cast(_DECIDER_ID, Uuid))),
    )
    .correlate(approvals)
    .scalar_subquery()
)


def _select_approvals(project_id: ProjectId) -> Select[Any]:
    overdue = approvals.c.expires_at <= func.clock_timestamp()
    first = func.coalesce(runs.c.ancestors[1], runs.c.id)
    above = (_top.c.project_id == runs.c.project_id) & (_top.c.id == first)
    return (
        select(
            approvals,
            overdue.label("expired"),
            runs.c.path,
            _top.c.id.label("top_id"),
            _top.c.agent.label("top_agent"),
            _top.c.created_at.label("top_created_at"),
            *starter_columns(_top),
            _INPUT.label("top_input"),
            _MODEL_MESSAGE.label("model_message"),
            _DECIDER_NAME.label("decider_name"),
        )
        .select_from(approvals.join(runs, _RUN_OF_APPROVAL).join(_top, above))
        .where(approvals.c.project_id == project_id, runs.c.erased_at.is_(None))
    )


async def get(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> Approval | None:
    row = (
        await tx.execute(_select_approvals(project_id).where(approvals.c.id == approval_id))
    ).one_or_none()
    return None if row is None else _approval_with_run(row)


async def list_expired(tx: Tx, project_id: ProjectId, run_id: RunId) -> frozenset[ApprovalId]:
    """Return the run's approvals that have expired and that no sweep has closed yet."""
    query = select(approvals.c.id).where(
        approvals.c.project_id == project_id,
        approvals.c.run_id == run_id,
        approvals.c.status == ApprovalStatus.PENDING,
        approvals.c.expires_at <= func.clock_timestamp(),
    )
    return frozenset(ApprovalId(row.id) for row in await tx.execute(query))


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
    """Return a page of approvals, in the order in which they were requested. `run_id`: return only
    approvals of this run and of its child runs at all levels."""
    query = _select_approvals(project_id)
    if status is not None:
        query = query.where(approvals.c.status == status)
    if run_id is not None:
        query = query.where(approvals.c.run_id.in_(_select_family(project_id, run_id)))
    if tool is not None:
        query = query.where(approvals.c.tool == tool)
    rows = await tx.execute(
        select_page(query, approvals.c.id, after=after, limit=limit, descending=descending)
    )
    return [_approval_with_run(row) for row in rows]


def _select_family(project_id: ProjectId, run_id: RunId) -> CompoundSelect[Any]:
    below = runs.alias("below")
    return union_all(
        select(literal(run_id, Uuid)),
        select(below.c.id).where(
            below.c.project_id == project_id,
            below.c.parent_run_id.is_not(None),
            below.c.ancestors.op("@>")(cast([run_id], ARRAY(Uuid))),
        ),
    )


def decisions_to_rows(
    run_id: RunId, decided: Sequence[DecisionRecord], approver: str
) -> list[dict[str, Any]]:
    """Return the rows for `queries.change_run`: the decisions and the approver."""
    return [
        {
            "run": run_id,
            "id": one.approval_id,
            "status": one.status,
            "decided_by": approver,
            "decision": one.decision,
        }
        for one in decided
    ]


async def cancel(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> None:
    """Cancel a pending approval for which no call waits any more."""
    await tx.execute(
        update(approvals)
        .where(
            approvals.c.project_id == project_id,
            approvals.c.id == approval_id,
            approvals.c.status == ApprovalStatus.PENDING,
        )
        .values(status=ApprovalStatus.CANCELLED, decided_at=func.clock_timestamp())
    )


async def remember(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    decision: RememberedDecision,
    options: RememberOptions,
    session_id: SessionId | None,
) -> None:
    """Store a decision. If the approver chose the scope `session`, it also covers later runs of the
    session."""
    seconds = options.expires_seconds
    await tx.execute(
        insert(remembered_decisions).values(
            project_id=project_id,
            id=mint(),
            run_id=run_id,
            session_id=session_id if options.scope == "session" else None,
            decision=decision.decision,
            tool=decision.tool,
            tool_version=decision.version,
            agent=decision.agent,
            arguments_digest=decision.arguments_digest,
            message=decision.message,
            expires_at=None
            if seconds is None
            else func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, seconds),
        )
    )


def _approval_with_run(row: Any) -> Approval:
    run = RootRun(
        id=RunId(row.top_id),
        agent=row.top_agent,
        created_by=starter_from_row(row),
        created_at=row.top_created_at,
        input=row.top_input,
    )
    return replace(
        approval_from_row(row),
        run=run,
        decider_name=row.decider_name,
        model_message=row.model_message or None,
    )


def approval_from_row(row: Any, prefix: str = "", *, path: Sequence[str] | None = None) -> Approval:
    """Return an approval from the columns of `approvals`. `prefix`: the prefix of the columns'
    labels. `path`: replaces the path of the run."""
    fields = {
        name.removeprefix(prefix): value
        for name, value in row._mapping.items()
        if name.startswith(prefix)
    }
    path = tuple(fields["path"] if path is None else path)
    return _APPROVAL.from_row(fields, expired=fields["expired"], path=path)
