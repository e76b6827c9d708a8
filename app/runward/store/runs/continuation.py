"""Continued runs: new runs that begin with the conversation of an incomplete run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import text

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.errors import FieldError
from runward.domain.events.run_data import RunOrigin
from runward.domain.events.values import CallReason
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id
from runward.domain.registry.tools import EXCEED_BUDGET
from runward.domain.run.bounds import check_room
from runward.domain.run.config import AgentConfig, Limits
from runward.domain.run.items import Item
from runward.domain.run.parsed_calls import count_calls
from runward.domain.run.run_events import add_run_created
from runward.domain.run.state import Changes, RunState, Segment, SegmentKind, list_requested_calls
from runward.domain.run.status import RunStatus
from runward.store import codec
from runward.store.postgres.columns import insert_select, take
from runward.store.postgres.db import Tx, mint
from runward.store.postgres.tables import run_items, tool_calls
from runward.store.runs import queries, sessions
from runward.store.runs.queue import NewRun

# If the previous run is also a continuation, the items and calls that it began with do not count
# toward its limits.
_READ_STOPPED: Final = text(
    """
SELECT r.agent, r.agent_version, r.config, r.metadata, r.priority, r.concurrency_groups,
  r.erase_at_end,  r.incomplete_details ->> 'reason' AS reason,
  CASE WHEN r.session_seq IS NOT NULL THEN r.session_id END AS session_id,
  coalesce((SELECT max(i.turn) FROM run_items i
    WHERE i.project_id = r.project_id AND i.run_id = r.id AND i.seq <= 0), 0) AS turns_before,
  (SELECT count(*) FROM tool_calls c WHERE c.project_id = r.project_id AND c.run_id = r.id
    AND c.created_at < r.created_at) AS calls_before
FROM runs r WHERE r.project_id = :project_id AND r.id = :id"""
)
# The new run's events are numbered from 1. The copied items have lower numbers.
_COPIED_ITEM: Final = take("i", run_items.columns.keys()) | {
    "run_id": ":id",
    "seq": "i.seq - max(i.seq) OVER ()",
    "kind": "CASE WHEN i.kind = 'repair' THEN 'input' ELSE i.kind END",
}
_COPIED_CALL: Final = take("c", tool_calls.columns.keys()) | {
    "run_id": ":id",
    "id": "gen_random_uuid()",
    "fence": "0",
    "received": "NULL",
    "exchange": "NULL",
}
# A decision about a budget applies only to the run that asked for it, so its call is not copied.
_COPY: Final = text(
    f"""
WITH former AS (
  SELECT * FROM runs WHERE project_id = :project_id AND id = :former AND erased_at IS NULL
), items AS (
  {insert_select(run_items, _COPIED_ITEM)}
  FROM run_items i JOIN former f ON i.project_id = f.project_id AND i.run_id = f.id
), calls AS (
  {insert_select(tool_calls, _COPIED_CALL)}
  FROM tool_calls c JOIN former f ON c.project_id = f.project_id AND c.run_id = f.id
  WHERE c.phase = 'settled' AND (c.tool <> '{EXCEED_BUDGET}' OR c.approval_id IS NULL)
)
UPDATE runs r SET active_agent = f.active_agent, shared = f.shared
FROM former f WHERE r.project_id = f.project_id AND r.id = :id
RETURNING r.id"""
)
_FIND_OPEN_CONTINUATION: Final = text(
    "SELECT 1 FROM runs WHERE project_id = :project_id AND id = ANY(CAST(:others AS uuid[]))"
    " AND id <> :id AND continued_from = :former LIMIT 1"
)
_INPUT_NEEDED: Final = "is required, because the model has already given its final answer"


@dataclass(frozen=True, slots=True)
class PreparedContinuation:
    """A continued run that is not accepted yet. `session_id`: the session in which it needs a slot
    before it is accepted. `agent`: the agent that continues the run. After a handoff, it is not the
    agent that started the run."""

    run: NewRun
    session_id: SessionId | None
    agent: str | None


async def prepare(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    *,
    turns: int | None,
    messages: Sequence[Item],
) -> PreparedContinuation:
    """Return the run that continues this run. It is not accepted yet. `turns`: maximum number of
    new turns. If `turns` is None, the limit of the incomplete run applies. Raises AppErrors."""
    found = await queries.load(tx, project_id, run_id)
    if found is None:
        raise not_found.RunNotFoundError
    status, state = found
    row = (await tx.execute(_READ_STOPPED, {"project_id": project_id, "id": run_id})).one()
    _check(status, state, row.reason, messages)
    check_room(messages, stored=state.stored_bytes)
    config = codec.config_from_json(row.config)
    allowed = _limits_of_run(config.limits, row.turns_before, row.calls_before)
    config = _extend_limits(config, allowed, state, turns)
    changes = Changes()
    origin: RunOrigin = {"continued_from": format_id(Prefix.RUN, run_id)}
    add_run_created(changes, row.agent, config, origin)
    # A deadline stops a run between two steps, so no input is necessary.
    if messages or row.reason != "deadline":
        opening = Segment(SegmentKind.INPUT, state.turn, state.agent, tuple(messages))
        changes.segments.append(opening)
    new = RunState(
        project_id=project_id,
        id=RunId(mint()),
        agent=row.agent,
        config=config,
        context=state.context,
        created_by=state.created_by,
        team=state.team,
        turn=state.turn,
    )
    session = None if row.session_id is None else SessionId(row.session_id)
    run = NewRun(
        new,
        changes,
        metadata=row.metadata,
        agent_version=row.agent_version,
        continued_from=run_id,
        priority=row.priority,
        concurrency_groups=row.concurrency_groups,
        erase_at_end=row.erase_at_end,
    )
    return PreparedContinuation(run, session, state.agent)


def _check(
    status: RunStatus, state: RunState, reason: str | None, messages: Sequence[Item]
) -> None:
    if status is not RunStatus.INCOMPLETE:
        raise e.ConflictError(
            f"The status of this run is {status}. Only an incomplete run can be continued."
        )
    if state.lineage is not None:
        raise e.ConflictError("A child run cannot be continued. Start a new run instead.")
    if state.config.kind != "llm" and reason == CallReason.LIMIT:
        raise e.ConflictError(
            "This workflow skipped a step when it reached its maximum number of tool calls, so it "
            "cannot be continued. Start a new run."
        )
    last = state.segments[-1] if state.segments else None
    answered = last and last.kind is SegmentKind.RESPONSE and not list_requested_calls(last)
    if answered and not messages and reason != "deadline":
        raise e.InvalidRequestError(errors=[FieldError("input", _INPUT_NEEDED)])


def _limits_of_run(limits: Limits, turns_before: int, calls_before: int) -> Limits:
    """Return the run's limits without the turns and calls that it inherited."""
    own = {
        "max_turns": limits.max_turns - turns_before,
        "max_tool_calls": limits.max_tool_calls - calls_before,
    }
    return limits.model_copy(update=own)


def _extend_limits(
    config: AgentConfig, allowed: Limits, state: RunState, turns: int | None
) -> AgentConfig:
    """Return the configuration with limits that include the turns and calls that the new run begins
    with."""
    limits: dict[str, Any] = {
        "max_turns": state.turn + (turns or allowed.max_turns),
        "max_tool_calls": count_calls(state) + allowed.max_tool_calls,
    }
    return config.model_copy(update={"limits": config.limits.model_copy(update=limits)})


async def copy_history(tx: Tx, new: NewRun) -> None:
    """Copy to the accepted run, in the same transaction: the items and settled calls of the
    previous run, its agent and its state. The session keeps the previous run's items until this run
    has ended. It then replaces them with this run's items. Raises ConflictError if another open run
    of the session continues the same run, and RunErasedError if the previous run has been
    erased meanwhile."""
    state = new.state
    values = {"project_id": state.project_id, "id": state.id, "former": new.continued_from}
    if state.place is not None:
        others = await sessions.open_runs(tx, state.project_id, state.place.session_id)
        if (
            await tx.execute(_FIND_OPEN_CONTINUATION, {**values, "others": list(others)})
        ).one_or_none():
            raise e.ConflictError(
                "Another run that continues this run has not ended. Wait until it ends, or cancel "
                "it."
            )
    if (await tx.execute(_COPY, values)).one_or_none() is None:
        raise not_found.RunErasedError
