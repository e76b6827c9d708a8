"""The rows of a step as JSON, and the SQL that inserts them.

Every writer of a run uses one statement. Its CTE `g` changes the run's row and returns `project_id,
id, last_seq, k, at`. The records are joined to `g`. If `g` returns no row for a run, nothing is
written for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from pydantic_core import to_json

from runward.domain.ids import RunId
from runward.domain.run.state import Call, Changes
from runward.store import codec
from runward.store.postgres.columns import insert_select, recordset, set_columns, take
from runward.store.postgres.tables import approvals, run_events, run_items, tool_calls

_EVENT: Final = ("type", "data")
_CALL: Final = codec.CALL.columns
_FIXED: Final = frozenset({"call_id", "id", "turn", "position", "tool", "raw_arguments"})
_CHANGING: Final = tuple(name for name in _CALL if name not in _FIXED)
_REQUEST: Final = (
    *("id", "call_id", "tool", "tool_version", "agent", "url", "arguments", "digest", "status"),
    "allowed_decisions",
)
_DECISION: Final = ("id", "status", "decided_by", "decision")
_RUN: Final = {"project_id": "g.project_id", "run_id": "g.id"}
_CALL_DEADLINE: Final = "g.at + make_interval(secs => c.timeout_seconds)"

_EVENTS: Final = _RUN | take("e", _EVENT) | {"seq": "g.last_seq - g.k + e.n", "created_at": "g.at"}
_ITEMS: Final = _RUN | take("s", codec.SEGMENT.columns) | {"seq": "g.last_seq - g.k + s.n"}
_INSERTED: Final = {
    **_RUN,
    **take("c", _CALL),
    "created_at": "g.at",
    "started_at": "CASE WHEN c.phase = 'started' THEN g.at END",
    "deadline_at": f"CASE WHEN c.phase = 'started' THEN {_CALL_DEADLINE} END",
    "ended_at": "CASE WHEN c.phase = 'settled' THEN g.at END",
}
_UPDATED: Final = {
    **take("c", _CHANGING),
    "started_at": "CASE WHEN c.phase = 'started' THEN g.at ELSE t.started_at END",
    "deadline_at": f"CASE WHEN c.phase = 'started' THEN {_CALL_DEADLINE} ELSE t.deadline_at END",
    "ended_at": "CASE WHEN c.phase = 'settled' THEN g.at END",
}
_REQUESTED: Final = {
    **_RUN,
    **take("a", _REQUEST),
    "requested_at": "g.at",
    "expires_at": "g.at + make_interval(secs => a.expires_seconds)",
    "decided_at": "CASE WHEN a.status <> 'pending' THEN g.at END",
}

NEW_RECORDS: Final = f"""
events AS (
  {insert_select(run_events, _EVENTS)}
  FROM {recordset(run_events, "events", "e", _EVENT, "run uuid, n int")}
  JOIN g ON g.id = e.run
), items AS (
  {insert_select(run_items, _ITEMS)}
  FROM {recordset(run_items, "segments", "s", codec.SEGMENT.columns, "run uuid, n int")}
  JOIN g ON g.id = s.run
)"""
"""The records of a new run, which has no calls yet."""
RECORDS: Final = f"""{NEW_RECORDS}, inserted AS (
  {insert_select(tool_calls, _INSERTED)}
  FROM {recordset(tool_calls, "inserted", "c", _CALL, "run uuid")}
  JOIN g ON g.id = c.run
), updated AS (
  UPDATE tool_calls t SET {set_columns(tool_calls, _UPDATED)}
  FROM {recordset(tool_calls, "updated", "c", ("call_id", *_CHANGING), "run uuid")}
  JOIN g ON g.id = c.run
  WHERE t.project_id = g.project_id AND t.run_id = g.id AND t.call_id = c.call_id
), asked AS (
  {insert_select(approvals, _REQUESTED)}
  FROM {recordset(approvals, "approvals", "a", _REQUEST, "run uuid, expires_seconds float8")}
  JOIN g ON g.id = a.run
), closed AS (
  UPDATE approvals a SET status = c.status, decided_at = coalesce(a.decided_at, g.at),
    decided_by = coalesce(a.decided_by, c.decided_by), decision = coalesce(a.decision, c.decision)
  FROM {recordset(approvals, "closed", "c", _DECISION, "run uuid")}
  JOIN g ON g.id = c.run
  WHERE a.project_id = g.project_id AND a.id = c.id
    AND (a.status = 'pending' OR c.status = 'superseded' AND a.status IN ('approved', 'edited'))
)"""


@dataclass(slots=True)
class Records:
    """The rows of one statement, for any number of runs."""

    events: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    segments: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    inserted: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    updated: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    approvals: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    closed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, run: RunId, changes: Changes) -> None:
        """Add the rows of a run. Child runs and shared state are not included, because only the
        steps of workers change them."""
        self.events += [
            {"run": run, "n": number, "type": event.type, "data": event.data}
            for number, event in enumerate(changes.events, start=1)
        ]
        self.segments += [
            codec.SEGMENT.to_row(segment) | {"run": run, "n": number}
            for number, segment in enumerate(changes.segments, start=1)
        ]
        self.inserted += [_call_row(run, call) for call in changes.inserted.values()]
        self.updated += [_call_row(run, call) for call in changes.updated.values()]
        self.approvals += [
            {
                "run": run,
                "id": asked.id,
                "call_id": asked.call.id,
                "tool": asked.call.tool,
                "tool_version": asked.call.version,
                "agent": asked.agent,
                "url": asked.url,
                "arguments": asked.call.arguments,
                "digest": asked.call.digest,
                "status": changes.closed_approvals.get(asked.id, "pending"),
                "allowed_decisions": asked.allowed_decisions,
                "expires_seconds": asked.expires_seconds,
            }
            for asked in changes.approvals
        ]
        new = {asked.id for asked in changes.approvals}  # The UPDATE cannot read these rows.
        self.closed += [
            {"run": run, "id": approval_id, "status": status, "decided_by": None, "decision": None}
            for approval_id, status in changes.closed_approvals.items()
            if approval_id not in new
        ]

    def to_new_parameters(self) -> dict[str, str]:
        """Return the parameters of NEW_RECORDS."""
        return {"events": rows_to_json(self.events), "segments": rows_to_json(self.segments)}

    def to_parameters(self) -> dict[str, str]:
        """Return the parameters of RECORDS."""
        return {
            **self.to_new_parameters(),
            "inserted": rows_to_json(self.inserted),
            "updated": rows_to_json(self.updated),
            "approvals": rows_to_json(self.approvals),
            "closed": rows_to_json(self.closed),
        }


def _call_row(run: RunId, call: Call) -> dict[str, Any]:
    row = codec.CALL.to_row(call)
    row["run"] = run
    return row


def rows_to_json(rows: Iterable[dict[str, Any]]) -> str:
    return to_json(list(rows), inf_nan_mode="null").decode()


def format_hint(ids: Iterable[UUID]) -> str:
    """Return the payload of a NOTIFY: the IDs of the changed runs. If the payload would exceed
    PostgreSQL's limit of 8,000 bytes, return `*`. Readers use it only as a hint, and read the
    database."""
    listed = ",".join(run_id.hex for run_id in ids)
    return listed if len(listed) < 7900 else "*"
