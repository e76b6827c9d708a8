"""The promises about the final tables: no row is orphaned, and nothing waits forever."""

from collections.abc import Callable, Collection
from operator import itemgetter
from typing import Any

from tests.checker.history import ENDED, CallKey, Evidence, Found, Json, seconds


def _call_of(row: Json) -> CallKey:
    return row["run_id"], row["call_id"]


def _parent_call_of(row: Json) -> CallKey | None:
    return None if row["parent_run_id"] is None else (row["parent_run_id"], row["parent_call_id"])


def _child_of(row: Json) -> str | None:
    return row["child_run_id"] if row["phase"] == "awaiting_child" else None


def _started_run_of(row: Json) -> Any:
    """The response of another request is stored with the resource that it describes."""
    return row["resource_id"] if row.get("answer") is None else None


REFERENCES: tuple[tuple[str, str, Callable[[Json], Any]], ...] = (
    ("runs", "run", itemgetter("parent_run_id")),
    ("runs", "call", _parent_call_of),
    ("runs", "session", itemgetter("session_id")),
    ("tool_calls", "run", itemgetter("run_id")),
    ("tool_calls", "run", _child_of),
    ("tool_calls", "approval", itemgetter("approval_id")),
    ("approvals", "run", itemgetter("run_id")),
    ("approvals", "call", _call_of),
    ("late_callbacks", "call", _call_of),
    ("session_items", "session", itemgetter("session_id")),
    ("session_items", "run", itemgetter("run_id")),
    ("remembered_decisions", "run", itemgetter("run_id")),
    ("idempotency_keys", "run", _started_run_of),
)
"""Table, kind of the row that its rows name, and the key of that row; `None` names none."""


def each_row_has_its_owner(evidence: Evidence) -> Found:
    """Each row that names another row names one that is there."""
    if not evidence.has_tables:
        return
    owners: dict[str, Collection[Any]] = {
        "run": evidence.run_rows.keys(),
        "call": evidence.calls.keys(),
        "approval": {row["id"] for row in evidence.rows("approvals")},
        "session": {row["id"] for row in evidence.rows("sessions")},
    }
    for table, kind, key_of in REFERENCES:
        for row in evidence.rows(table):
            key = key_of(row)
            if key is not None and key not in owners[kind]:
                yield f"{table} of {row.get('run_id', row.get('id'))}", f"no {kind} {key}"
    for run_id in evidence.logs.keys() - evidence.run_rows.keys():
        yield f"run_events of {run_id}", "no such run"


def no_approval_waits_for_an_ended_run(evidence: Evidence) -> Found:
    """G8: the approvals of an ended run are closed, and none waits beyond its call."""
    for row in evidence.rows("approvals"):
        run = evidence.run_rows.get(row["run_id"])
        call = evidence.calls.get((row["run_id"], row["call_id"]))
        if row["status"] != "pending" or run is None:
            continue
        if run["status"] in ENDED:
            yield row["id"], f"is pending, its run is {run['status']}"
        elif call is not None and call["phase"] != "awaiting_approval":
            yield row["id"], f"is pending, its call is {call['phase']}"


def no_call_is_open_in_an_ended_run(evidence: Evidence) -> Found:
    """G6: each call of an ended run has its result."""
    for (run_id, call_id), row in evidence.calls.items():
        run = evidence.run_rows.get(run_id)
        if row["phase"] != "settled" and run is not None and run["status"] in ENDED:
            yield f"{run_id} {call_id}", f"is {row['phase']}, its run is {run['status']}"


def no_run_is_left_by_its_worker(evidence: Evidence) -> Found:
    """G1: a run in progress has a live lease, and one that is never available waits for a call."""
    if evidence.settings is None:
        return
    waiting = {run_id for (run_id, _), row in evidence.calls.items() if row["phase"] != "settled"}
    for run_id, row in evidence.run_rows.items():
        if row["status"] == "in_progress":
            late = evidence.settings.settled_at - seconds(row["lease_expires_at"] or 0.0)
            if late > evidence.settings.lease_seconds:
                yield run_id, f"is in progress, its lease expired {late:.1f} s before the end"
        parked = row["status"] == "queued" and row["available_at"] == "infinity"
        if parked and row["started_at"] is not None and run_id not in waiting:
            yield run_id, "is never available again and has no open call"


def no_session_waits_for_an_ended_run(evidence: Evidence) -> Found:
    """G26: when a run of a session has ended, the next one may begin."""
    first: dict[str, Json] = {}
    for row in evidence.rows("runs"):
        if row["session_seq"] is not None and row["status"] not in ENDED:
            before = first.setdefault(row["session_id"], row)
            if row["session_seq"] < before["session_seq"]:
                first[row["session_id"]] = row
    for session_id, row in first.items():
        if row["started_at"] is None and row["available_at"] == "infinity":
            yield session_id, f"{row['id']} waits, and no open run is before it"
