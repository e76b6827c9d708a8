"""Queries that list runs, and that search runs for a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    Boolean,
    ColumnElement,
    Select,
    and_,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
)

from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.run.status import RunStatus
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import runs
from runward.store.runs.views import PARKED, RUN_COLUMNS, RunView, run_from_row

MAX_SEARCHED_RUNS: Final = 2_000
"""Maximum number of runs that one text search reads, because their texts have no index."""
MAX_SKEW_MS: Final = 86_400_000
"""Maximum difference in milliseconds between the database's clock and the clock that created a
run's ID."""
_MAX_MS: Final = 2**48 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_IN_USER_MESSAGES: Final = """EXISTS (
  SELECT FROM run_items i, json_array_elements(i.items) AS m(item),
    LATERAL (SELECT CASE json_typeof(m.item -> 'content') WHEN 'string' THEN m.item ->> 'content'
      ELSE (SELECT string_agg(part ->> 'text', '')
        FROM json_array_elements(m.item -> 'content') AS parts(part)) END AS text) said
  WHERE i.project_id = runs.project_id AND i.run_id = runs.id AND i.kind = 'input'
    AND m.item ->> 'role' = 'user' AND lower(said.text) LIKE lower(:sought) ESCAPE '/')"""
_IN_METADATA: Final = """EXISTS (
  SELECT FROM jsonb_each_text(runs.metadata) AS m(name, value)
  WHERE lower(m.value) LIKE lower(:sought) ESCAPE '/')"""


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions for runs. Without `parent`, only runs without a parent match. `ids`: the first and
    the last ID of a range, in which child runs also match. `text`: a text that occurs, ignoring
    case, in the run's user messages, output, error, agent or model, or in the values of its
    metadata."""

    statuses: Sequence[RunStatus] = ()
    agent: str | None = None
    parent: RunId | None = None
    session: SessionId | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    ids: tuple[UUID, UUID] | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class FoundRuns:
    """A page of runs. `resume_after`: the last run that the text search read, if it stopped before
    it filled the page and there are more runs. Otherwise None."""

    runs: list[RunView]
    resume_after: UUID | None = None


async def search_runs(
    tx: Tx,
    project_id: ProjectId,
    filters: RunFilter,
    *,
    after: UUID | None,
    limit: int,
    descending: bool,
) -> FoundRuns:
    """Return a page of runs, in the order in which they were created."""
    order = runs.c.id.desc() if descending else runs.c.id
    within = [runs.c.project_id == project_id, *_indexed_conditions(filters)]
    if after is not None:
        within.append(runs.c.id < after if descending else runs.c.id > after)
    left_at: UUID | None = None
    if filters.text is not None:
        seen = (
            select(runs.c.id).where(*within).order_by(order).offset(MAX_SEARCHED_RUNS - 1).limit(2)
        )
        last = (await tx.execute(seen)).scalars().all()
        if len(last) == 2:
            left_at = last[0]
            within.append(runs.c.id >= left_at if descending else runs.c.id <= left_at)
    query: Select[Any] = select(*RUN_COLUMNS).where(*within, *_row_conditions(filters))
    rows = await tx.execute(query.order_by(order).limit(limit))
    found = [run_from_row(row) for row in rows]
    return FoundRuns(found, left_at if len(found) < limit else None)


def _indexed_conditions(filters: RunFilter) -> list[ColumnElement[bool]]:
    """Return the conditions that an index or the order of IDs supports."""
    found: list[ColumnElement[bool]] = []
    if filters.ids is not None:
        found.append(runs.c.id.between(*filters.ids))
    if filters.ids is None or filters.parent is not None:
        found.append(runs.c.parent_run_id == filters.parent)
    if filters.session is not None:
        found.append(runs.c.session_id == filters.session)
        if filters.parent is None:
            found.append(runs.c.session_seq.is_not(None))
    if filters.created_from is not None:
        found.append(runs.c.id >= _first_id_at(filters.created_from, -MAX_SKEW_MS))
        found.append(runs.c.created_at >= filters.created_from)
    if filters.created_before is not None:
        found.append(runs.c.id < _first_id_at(filters.created_before, MAX_SKEW_MS))
        found.append(runs.c.created_at < filters.created_before)
    return found


def _row_conditions(filters: RunFilter) -> list[ColumnElement[bool]]:
    """Return the conditions that must be checked for every run."""
    found: list[ColumnElement[bool]] = []
    if filters.statuses:
        found.append(_status_condition(filters.statuses))
    if filters.agent is not None:
        found.append(runs.c.agent == filters.agent)
    if filters.text is not None:
        found.append(_text_condition(filters.text))
    return found


def _status_condition(statuses: Sequence[RunStatus]) -> ColumnElement[bool]:
    """Return a condition for public statuses. It uses only the stored status where that is
    sufficient, because the planner knows how many runs have it."""
    stored, parked = runs.c.status.in_(statuses), literal_column(PARKED, Boolean)
    if RunStatus.IN_PROGRESS in statuses and RunStatus.QUEUED not in statuses:
        return or_(stored, parked)
    if RunStatus.QUEUED in statuses and RunStatus.IN_PROGRESS not in statuses:
        return and_(stored, not_(parked))
    return stored


def _text_condition(sought: str) -> ColumnElement[bool]:
    pattern = "%" + re.sub("[%_/]", r"/\g<0>", sought) + "%"
    texts = (
        runs.c.agent,
        runs.c.active_agent,
        runs.c.config.op("->>")("model"),
        runs.c.output.op("#>>")(literal_column("'{}'")),
        runs.c.error.op("->>")("message"),
    )
    return or_(
        *(func.lower(one).like(func.lower(pattern), escape="/") for one in texts),
        text(_IN_METADATA).bindparams(sought=pattern),
        text(_IN_USER_MESSAGES).bindparams(sought=pattern),
    )


def _first_id_at(at: datetime, skew_ms: int) -> UUID:
    """Return the first UUIDv7 (RFC 9562) of the millisecond, shifted by `skew_ms`."""
    ms = (at - _EPOCH) // timedelta(milliseconds=1) + skew_ms
    return UUID(int=min(max(0, ms), _MAX_MS) << 80)
