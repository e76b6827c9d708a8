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
    TextClause,
    func,
    literal_column,
    not_,
    or_,
    select,
    text,
    union_all,
)

from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import compact
from runward.domain.run.status import RunStatus
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import OPEN_STATUSES, runs
from runward.store.runs.views import PARKED, RunView, list_run_columns, run_from_row

MAX_SEARCHED_RUNS: Final = 2_000
"""Maximum number of runs that a text search reads without an index."""
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
_RUN_TEXT: Final = """(coalesce(agent, '') || chr(10) || coalesce(active_agent, '') || chr(10)
  || coalesce(config ->> 'model', '') || chr(10) || (metadata #>> '{}') || chr(10)
  || coalesce(output #>> '{}', '') || chr(10) || coalesce(error ->> 'message', ''))"""
"""The text of the index `runs_text`, which contains the runs that have ended. Metadata is JSON, so
its texts are escaped."""
_ITEMS_TEXT: Final = "(items #>> '{}')"
"""The text of the index `run_items_text`: the JSON of the input, so its texts are escaped."""
_CUT: Final = "zqxjkvzqxjkv"
"""The indexes contain this word instead of the rest of a text that is longer than
INDEXED_CHARACTERS. A search examines all these runs."""
INDEXED_CHARACTERS: Final = 8_192
"""Indexing a text of this length takes about 5 ms. Without a limit, a long text would delay the
commit in which its run ends."""


def _matches(source: str, *patterns: str) -> str:
    """Return a condition that the index of this text supports."""
    indexed = f"""(left({source}, {INDEXED_CHARACTERS})
  || CASE WHEN length({source}) > {INDEXED_CHARACTERS} THEN '{_CUT}' ELSE '' END)"""
    likes = [f"{indexed} ILIKE {pattern} ESCAPE '/'" for pattern in (*patterns, f"'%{_CUT}%'")]
    return f"({' OR '.join(likes)})"


CANDIDATES: Final = f"""runs.id = ANY(ARRAY(
  SELECT id FROM runs WHERE project_id = :project_id AND ended_at IS NOT NULL
    AND {_matches(_RUN_TEXT, ":sought", ":escaped")}
  UNION ALL SELECT id FROM runs WHERE project_id = :project_id AND status IN ({OPEN_STATUSES})
    AND {_matches(_RUN_TEXT, ":sought", ":escaped")}
  UNION ALL SELECT run_id FROM run_items WHERE project_id = :project_id AND kind = 'input'
    AND {_matches(_ITEMS_TEXT, ":escaped")}))"""
"""The runs that may contain the text. The conditions of a page check them exactly. The array makes
PostgreSQL look the runs up by their IDs."""
_HAS_INDEXES: Final = text(
    """SELECT count(*) = 2 AND (:ascii OR (SELECT datctype FROM pg_database
  WHERE datname = current_database()) NOT IN ('C', 'POSIX'))
FROM pg_index WHERE indexrelid IN (to_regclass('runs_text'), to_regclass('run_items_text'))
  AND indisvalid"""
)
"""Whether the extension pg_trgm serves the search. With the locale C, it ignores characters that
are not ASCII."""
_INDEXABLE: Final = re.compile(r"[^\W_]{3}")
"""A text that a trigram index can find."""


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
    schedule: UUID | None = None
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
    window = [runs.c.project_id == project_id, *_indexed_conditions(filters)]
    if filters.text is None:
        page = _Page(after, limit, descending)
        by_status = _status_conditions(filters.statuses)
        return FoundRuns(await page.read(tx, [*window, *_row_conditions(filters)], by_status))
    return await _search_text(tx, project_id, filters, window, _Page(after, limit, descending))


@dataclass(frozen=True, slots=True)
class _Page:
    after: UUID | None
    limit: int
    descending: bool

    @property
    def order(self) -> ColumnElement[Any]:
        return runs.c.id.desc() if self.descending else runs.c.id.asc()

    def begin(self) -> list[ColumnElement[bool]]:
        """Return the condition for the runs after the cursor."""
        if self.after is None:
            return []
        return [runs.c.id < self.after if self.descending else runs.c.id > self.after]

    def end(self, last: UUID) -> ColumnElement[bool]:
        return runs.c.id >= last if self.descending else runs.c.id <= last

    async def read(
        self,
        tx: Tx,
        conditions: Sequence[ColumnElement[bool] | TextClause],
        by_status: Sequence[ColumnElement[bool]] = (),
    ) -> list[RunView]:
        """Return the runs that meet all conditions, and one of `by_status` if there are any."""
        query = self._select([*conditions, *self.begin()], by_status)
        return [run_from_row(row) for row in await tx.execute(query)]

    def _select(
        self,
        conditions: Sequence[ColumnElement[bool] | TextClause],
        by_status: Sequence[ColumnElement[bool]],
    ) -> Select[Any]:
        """Return the query. Each of several statuses has a query of its own. PostgreSQL then merges
        their index entries in order, instead of sorting all runs with these statuses."""
        if len(by_status) < 2:
            query = select(*list_run_columns(runs)).where(*conditions, *by_status)
            return query.order_by(self.order).limit(self.limit)
        parts = (select(runs).where(*conditions, one).order_by(self.order) for one in by_status)
        found = union_all(*(part.limit(self.limit).subquery().select() for part in parts)).subquery(
            "runs"
        )
        order = found.c.id.desc() if self.descending else found.c.id.asc()
        return select(*list_run_columns(found)).order_by(order).limit(self.limit)


async def _search_text(
    tx: Tx,
    project_id: ProjectId,
    filters: RunFilter,
    window: list[ColumnElement[bool]],
    page: _Page,
) -> FoundRuns:
    """Read the first runs of the window, which finds frequent texts. Then find the others with the
    indexes, if there are any."""
    assert filters.text is not None
    seen = select(runs.c.id).where(*window, *page.begin()).order_by(page.order)
    last = (await tx.execute(seen.offset(MAX_SEARCHED_RUNS - 1).limit(2))).scalars().all()
    conditions = [*window, *_row_conditions(filters)]
    if filters.statuses:
        conditions.append(or_(*_status_conditions(filters.statuses)))
    if len(last) < 2:
        return FoundRuns(await page.read(tx, conditions))
    found = await page.read(tx, [*conditions, page.end(last[0])])
    if len(found) == page.limit:
        return FoundRuns(found)
    if not await _is_indexed(tx, filters.text):
        return FoundRuns(found, last[0])
    rest = _Page(last[0], page.limit - len(found), page.descending)
    candidates = text(CANDIDATES).bindparams(
        project_id=project_id,
        sought=_pattern(filters.text),
        escaped=_pattern(_escape(filters.text)),
    )
    return FoundRuns([*found, *await rest.read(tx, [*conditions, candidates])])


async def _is_indexed(tx: Tx, sought: str) -> bool:
    if _INDEXABLE.search(sought) is None:
        return False
    return bool(await tx.scalar(_HAS_INDEXES, {"ascii": sought.isascii()}))


def _escape(sought: str) -> str:
    """Return the text as it appears in a JSON string."""
    return compact(sought)[1:-1]


def _pattern(sought: str) -> str:
    return "%" + re.sub("[%_/]", r"/\g<0>", sought) + "%"


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
    if filters.schedule is not None:
        found.append(runs.c.schedule_id == filters.schedule)
    if filters.created_from is not None:
        found.append(runs.c.id >= _first_id_at(filters.created_from, -MAX_SKEW_MS))
        found.append(runs.c.created_at >= filters.created_from)
    if filters.created_before is not None:
        found.append(runs.c.id < _first_id_at(filters.created_before, MAX_SKEW_MS))
        found.append(runs.c.created_at < filters.created_before)
    return found


def _row_conditions(filters: RunFilter) -> list[ColumnElement[bool]]:
    """Return the conditions that must be checked for every run, without its status."""
    found: list[ColumnElement[bool]] = []
    if filters.agent is not None:
        found.append(runs.c.agent == filters.agent)
    if filters.text is not None:
        found.append(_text_condition(filters.text))
    return found


def _status_conditions(statuses: Sequence[RunStatus]) -> list[ColumnElement[bool]]:
    """Return conditions for public statuses, of which a run meets at most one."""
    found = {status: runs.c.status == status for status in statuses}
    parked = literal_column(PARKED, Boolean)
    if RunStatus.QUEUED in found and RunStatus.IN_PROGRESS not in found:
        found[RunStatus.QUEUED] &= not_(parked)
    if RunStatus.IN_PROGRESS in found and RunStatus.QUEUED not in found:
        return [*found.values(), parked]
    return [*found.values()]


def _text_condition(sought: str) -> ColumnElement[bool]:
    pattern = _pattern(sought)
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
