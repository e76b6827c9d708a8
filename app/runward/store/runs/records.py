"""What a step writes, as JSON rows, and the SQL that inserts them behind a gate.

Every writer of a run is one statement: a CTE `g` that changes the head row and returns
`project_id, id, last_seq, k, at`, and these records joined to it. Where `g` lets nothing
through, nothing is written.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from pydantic_core import to_json

from runward.domain.ids import RunId
from runward.domain.run.state import Changes
from runward.store import codec

RECORDS: Final = """
events AS (
  INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)
  SELECT g.project_id, g.id, g.last_seq - g.k + e.n, e.type, e.data, g.at
  FROM json_to_recordset(CAST(:events AS json)) AS e(run uuid, n int, type text, data json)
  JOIN g ON g.id = e.run
), items AS (
  INSERT INTO run_items (project_id, run_id, seq, kind, turn, agent, items, seen)
  SELECT g.project_id, g.id, g.last_seq - g.k + s.n, s.kind, s.turn, s.agent, s.items, s.seen
  FROM json_to_recordset(CAST(:segments AS json))
    AS s(run uuid, n int, kind text, turn int, agent text, items json, seen int)
  JOIN g ON g.id = s.run
), inserted AS (
  INSERT INTO tool_calls (project_id, run_id, call_id, id, turn, position, tool, tool_version,
    arguments, digest, phase, attempt, fence, approval_id, approved_digest, original_arguments,
    raw_arguments, timeout_seconds, result, child_run_id, received, exchange, created_at,
    started_at, deadline_at, ended_at)
  SELECT g.project_id, g.id, c.call_id, c.id, c.turn, c.position, c.tool, c.tool_version,
    c.arguments, c.digest, c.phase, c.attempt, c.fence, c.approval_id, c.approved_digest,
    c.original_arguments, c.raw_arguments, c.timeout_seconds, c.result, c.child_run_id,
    c.received, c.exchange, g.at,
    CASE WHEN c.phase = 'started' THEN g.at END,
    CASE WHEN c.phase = 'started' THEN g.at + make_interval(secs => c.timeout_seconds) END,
    CASE WHEN c.phase = 'settled' THEN g.at END
  FROM json_to_recordset(CAST(:inserted AS json)) AS c(run uuid, id uuid, call_id text, turn int,
    position int, tool text, tool_version int, arguments json, digest text, phase text,
    attempt int, fence bigint, approval_id uuid, approved_digest text, original_arguments json,
    raw_arguments text, timeout_seconds float8, result json, child_run_id uuid, received json,
    exchange json)
  JOIN g ON g.id = c.run
), updated AS (
  UPDATE tool_calls t SET tool_version = c.tool_version, arguments = c.arguments,
    digest = c.digest, phase = c.phase, attempt = c.attempt, fence = c.fence,
    approval_id = c.approval_id, approved_digest = c.approved_digest,
    original_arguments = c.original_arguments, timeout_seconds = c.timeout_seconds,
    result = c.result, child_run_id = c.child_run_id, received = c.received,
    exchange = c.exchange,
    started_at = CASE WHEN c.phase = 'started' THEN g.at ELSE t.started_at END,
    deadline_at = CASE WHEN c.phase = 'started'
      THEN g.at + make_interval(secs => c.timeout_seconds) ELSE t.deadline_at END,
    ended_at = CASE WHEN c.phase = 'settled' THEN g.at END
  FROM json_to_recordset(CAST(:updated AS json)) AS c(run uuid, call_id text, tool_version int,
    arguments json, digest text, phase text, attempt int, fence bigint, approval_id uuid,
    approved_digest text, original_arguments json, timeout_seconds float8, result json,
    child_run_id uuid, received json, exchange json)
  JOIN g ON g.id = c.run
  WHERE t.project_id = g.project_id AND t.run_id = g.id AND t.call_id = c.call_id
), asked AS (
  INSERT INTO approvals (project_id, id, run_id, call_id, tool, tool_version, agent, url,
    arguments, digest, status, allowed_decisions, requested_at, expires_at, decided_at)
  SELECT g.project_id, a.id, g.id, a.call_id, a.tool, a.tool_version, a.agent, a.url,
    a.arguments, a.digest, a.status, ARRAY(SELECT json_array_elements_text(a.allowed)),
    g.at, g.at + make_interval(secs => a.expires_seconds),
    CASE WHEN a.status <> 'pending' THEN g.at END
  FROM json_to_recordset(CAST(:approvals AS json)) AS a(run uuid, id uuid, call_id text,
    tool text, tool_version int, agent text, url text, arguments json, digest text,
    status text, allowed json, expires_seconds float8)
  JOIN g ON g.id = a.run
), closed AS (
  UPDATE approvals a SET status = c.status, decided_at = coalesce(a.decided_at, g.at),
    decided_by = coalesce(a.decided_by, c.decided_by), decision = coalesce(a.decision, c.decision)
  FROM json_to_recordset(CAST(:closed AS json))
    AS c(run uuid, id uuid, status text, decided_by text, decision json)
  JOIN g ON g.id = c.run
  WHERE a.project_id = g.project_id AND a.id = c.id
    AND (a.status = 'pending' OR c.status = 'void' AND a.status IN ('approved', 'edited'))
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
        """Its child runs and shared state are not among them: only a worker's step has those."""
        self.events += [
            {"run": run, "n": number, "type": event.type, "data": event.data}
            for number, event in enumerate(changes.events, start=1)
        ]
        self.segments += [
            codec.segment_to_row(run, number, segment)
            for number, segment in enumerate(changes.segments, start=1)
        ]
        self.inserted += [codec.call_to_row(run, call) for call in changes.inserted.values()]
        self.updated += [codec.call_to_row(run, call) for call in changes.updated.values()]
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
                "allowed": asked.allowed_decisions,
                "expires_seconds": asked.expires_seconds,
            }
            for asked in changes.approvals
        ]
        new = {asked.id for asked in changes.approvals}  # the UPDATE cannot see these rows
        self.closed += [
            {"run": run, "id": approval_id, "status": status, "decided_by": None, "decision": None}
            for approval_id, status in changes.closed_approvals.items()
            if approval_id not in new
        ]

    def to_parameters(self) -> dict[str, str]:
        return {
            "events": rows_to_json(self.events),
            "segments": rows_to_json(self.segments),
            "inserted": rows_to_json(self.inserted),
            "updated": rows_to_json(self.updated),
            "approvals": rows_to_json(self.approvals),
            "closed": rows_to_json(self.closed),
        }


def rows_to_json(rows: Iterable[dict[str, Any]]) -> str:
    return to_json(list(rows), inf_nan_mode="null").decode()


def format_hint(ids: Iterable[UUID]) -> str:
    """The payload of a NOTIFY: which runs changed, `*` where they are too many for one (8,000
    bytes is PostgreSQL's limit). It is a hint: readers look for themselves."""
    listed = ",".join(run_id.hex for run_id in ids)
    return listed if len(listed) < 7900 else "*"
