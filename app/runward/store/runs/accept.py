"""Accepting runs: concurrent POSTs share one commit."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import TextClause, text

from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.run.family import list_tool_names
from runward.domain.run.state import Changes, RunState
from runward.store import codec
from runward.store.postgres.columns import RowMapping, insert_select, recordset, take
from runward.store.postgres.tables import runs
from runward.store.runs.records import RECORDS, Records, rows_to_json


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to accept. `lease`: the accepting process claims it at once. `waits`: no worker claims
    it before the earlier runs of its session have ended."""

    state: RunState
    """As it is before its first event. Its version and fence are those of a new run."""
    changes: Changes
    metadata: JsonObject = field(default_factory=dict[str, JsonValue])
    agent_version: int | None = None
    continued_from: RunId | None = None
    lease: bool = False
    waits: bool = False
    idempotency: tuple[str, str, str] | None = None
    """The key, the route and the body's digest."""

    @property
    def id(self) -> RunId:
        return self.state.id

    @property
    def tool_names(self) -> tuple[str, ...]:
        return list_tool_names(self.state.config, self.state.team)


_ORIGIN: Final = RowMapping(
    NewRun, runs, only=("metadata", "agent_version", "continued_from", "tool_names")
)
_GIVEN: Final = (
    *codec.STATE.columns,
    *_ORIGIN.columns,
    *codec.LINEAGE.columns,
    *codec.PLACE.columns,
)
_NO_LINEAGE: Final[dict[str, Any]] = {"ancestors": (), "path": ()}
_RUNS: Final = recordset(
    runs,
    "steps",
    "s",
    _GIVEN,
    "k int, lease bool, waits bool, deadline float8, key text, route text, body_digest text",
)
_INSERTED: Final = {
    **take("s", _GIVEN),
    "status": "CASE WHEN s.lease THEN 'in_progress' ELSE 'queued' END",
    "tool_versions": "coalesce((SELECT json_object_agg(t.name, t.version) FROM tools t"
    " WHERE t.project_id = s.project_id AND t.deleted_at IS NULL"
    " AND t.name = ANY(s.tool_names)), '{}')",
    "available_at": "CASE WHEN s.waits THEN 'infinity' ELSE clock_timestamp() END",
    "fence": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "claims": "CASE WHEN s.lease THEN 1 ELSE 0 END",
    "lease_expires_at": "CASE WHEN s.lease THEN clock_timestamp() + CAST(:lease AS interval) END",
    "started_at": "CASE WHEN s.lease THEN statement_timestamp() END",
    "last_seq": "s.k",
    "deadline_at": "statement_timestamp() + make_interval(secs => s.deadline)",
    "created_at": "statement_timestamp()",
}


def _accept(lock_timeout: str = "", source: str = "") -> TextClause:
    return text(
        f"""
WITH {lock_timeout}s AS (
  SELECT s.* FROM {source}{_RUNS}
), g AS (
  {insert_select(runs, _INSERTED)}
  FROM s
  RETURNING project_id, id, last_seq, last_seq AS k, created_at AS at, tool_versions, deadline_at
),{RECORDS}, keys AS (
  INSERT INTO idempotency_keys (project_id, key, route, body_digest, resource_id, expires_at)
  SELECT s.project_id, s.key, s.route, s.body_digest, s.id,
    clock_timestamp() + interval '24 hours'
  FROM s WHERE s.key IS NOT NULL ORDER BY s.project_id, s.key
), hint AS MATERIALIZED (
  SELECT CASE WHEN CAST(:wakes AS bool) THEN pg_notify('runward_work', '') END
)
SELECT g.id, g.at, g.tool_versions FROM g CROSS JOIN hint"""
    )


ACCEPT: Final = _accept()
ACCEPT_TOGETHER: Final = _accept(
    "hurry AS MATERIALIZED (SELECT set_config('lock_timeout', '100ms', true)), ",
    "hurry CROSS JOIN ",
)
"""For the runs of several requests. It fails if it has to wait long, for example because another
transaction holds one of the keys."""


def accept_values(batch: Sequence[NewRun], lease: timedelta) -> dict[str, Any]:
    """Return the parameters of ACCEPT."""
    records = Records()
    for new in batch:
        records.add(new.id, new.changes)
    return {
        "steps": rows_to_json(map(_row, batch)),
        "lease": lease,
        "wakes": any(not (new.lease or new.waits) for new in batch),
        **records.to_parameters(),
    }


def _row(new: NewRun) -> dict[str, Any]:
    state = new.state
    key, route, body_digest = new.idempotency or (None, None, None)
    return {
        **codec.STATE.to_row(state),
        **_ORIGIN.to_row(new),
        **(codec.LINEAGE.to_row(state.lineage) if state.lineage else _NO_LINEAGE),
        **(codec.PLACE.to_row(state.place) if state.place else {}),
        "k": len(new.changes.events),
        "lease": new.lease,
        "waits": new.waits,
        "deadline": state.config.limits.deadline_seconds,
        "key": key,
        "route": route,
        "body_digest": body_digest,
    }


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """`tool_versions`: of the run's tools, as they were in the accepting commit."""

    at: datetime
    tool_versions: dict[str, int]
