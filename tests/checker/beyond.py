"""Planted breaches beyond runs and calls: in the final tables, and in the processes."""

from datetime import datetime
from typing import Any

from tests.checker.evidence import Fault, ProcessEvent, Stall
from tests.checker.history import Json
from tests.checker.spoiling import (
    CALLED_BACK,
    CHILD,
    LATER,
    REJECTED,
    SECOND,
    Breach,
    Lines,
    at,
    event,
    of,
)
from tests.checker.story import START, uuid

# Tables.


def a_row_is_orphaned(lines: Lines) -> None:
    lines.set("tables/session_items.jsonl", of(run_id=SECOND), run_id=uuid("1", 99))


def an_approval_is_left_pending(lines: Lines) -> None:
    row = {"id": uuid("3", 9), "run_id": CHILD, "call_id": "k1", "status": "pending"}
    lines.change("tables/approvals.jsonl", lambda rows: rows.append(row | {"decision": None}))


def a_call_is_left_open(lines: Lines) -> None:
    lines.set("tables/tool_calls.jsonl", of(run_id=CHILD), phase="started", result=None)


def a_lease_has_expired(lines: Lines) -> None:
    lines.set(
        "tables/runs.jsonl", of(id=REJECTED), status="in_progress", lease_expires_at=at(START)
    )


def a_session_is_stuck(lines: Lines) -> None:
    waits = {"status": "queued", "available_at": "infinity", "started_at": None}
    lines.set("tables/runs.jsonl", of(id=SECOND), **waits)


# Processes.


def a_process_ends(lines: Lines) -> None:
    lines.append("processes.jsonl", ProcessEvent(LATER, "api-0", 11, "ended", 70))


def a_process_cannot_start(lines: Lines) -> None:
    lines.append("processes.jsonl", ProcessEvent(LATER, "api-0", 99, "started"))
    lines.append("processes.jsonl", ProcessEvent(LATER, "api-0", 99, "ended", 3))


def a_drained_process_fails(lines: Lines) -> None:
    lines.set("processes.jsonl", of(pid=13, event="ended"), code=1)


def a_process_ends_too_early(lines: Lines) -> None:
    """Its event loop was blocked for a shorter time than the bound."""
    lines.set("stalls.jsonl", of(pid=15), at=START - 9)


def a_process_stays_stalled(lines: Lines) -> None:
    lines.append("stalls.jsonl", Stall(START, "worker-0", 14, [], START + 20))


def a_worker_loses_a_lease(lines: Lines) -> None:
    lines.events(SECOND, take_over)


def a_stalled_worker_loses_a_lease(lines: Lines) -> None:
    """Meanwhile, another worker is killed."""
    lines.events(SECOND, take_over)
    lines.append("stalls.jsonl", Stall(START + 16, "worker-0", 14, [SECOND], START + 21))
    for second in (0, 5):
        lines.append("faults.jsonl", Fault(START + 15 + second, "kill", "worker-1"))


def take_over(log: list[Json]) -> None:
    """The run is claimed twice more before its end."""
    last = log.pop()
    log += [event(last, "run.resumed", START + 15 + second) for second in (0, 5)]
    log.append(event(last, "run.completed", START + 21, output="done"))


def a_process_ignores_the_signal(lines: Lines) -> None:
    lines.set("processes.jsonl", of(pid=13, event="ended"), at=START + 20)


def at_the_end(**fields: Any) -> Breach:
    """The last samples of all processes differ."""

    def alter(rows: list[Json]) -> None:
        for row in rows[-9:]:
            row.update(fields)

    return lambda lines: lines.change("levels.jsonl", alter)


def a_process_spins(lines: Lines) -> None:
    def alter(rows: list[Json]) -> None:
        for row in rows:
            row["cpu_seconds"] = row["at"] - START + 10

    lines.change("levels.jsonl", alter)


def work_stops(lines: Lines) -> None:
    def delay(log: list[Json]) -> None:
        last = log.pop()
        begun = datetime.fromisoformat(last["created_at"]).timestamp()
        log.append(event(last, "run.completed", begun + 20, output="done"))
        lines.set("tables/runs.jsonl", of(id=REJECTED), ended_at=at(begun + 20))

    lines.events(REJECTED, delay)
    lines.set_settings(settled_at=LATER + 20.0)


def a_run_stands_still(lines: Lines) -> None:
    """Another run works meanwhile."""

    def delay(log: list[Json]) -> None:
        last = log.pop()
        begun = datetime.fromisoformat(log[-1]["created_at"]).timestamp()
        if last["run_id"] == CALLED_BACK:
            log += [event(last, "model.retried", begun + 10 * n) for n in range(1, 8)]
        log.append(event(last, "run.completed", begun + 70, output="done"))

    for run in (REJECTED, CALLED_BACK):
        lines.events(run, delay)
    lines.set_settings(settled_at=LATER + 80, last_fault_at=LATER + 60)


def a_request_is_not_answered(lines: Lines) -> None:
    lines.ask("/v1/runs", None, error="TimeoutError: ")
