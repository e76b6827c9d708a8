"""The promises about runs, their child runs and their sessions."""

from collections import Counter, defaultdict
from itertools import pairwise
from math import inf

from tests.checker.evidence import Exchange, Fault
from tests.checker.history import (
    CLOCK_TOLERANCE_SECONDS,
    ENDED,
    TERMINAL,
    Event,
    Evidence,
    Found,
    Json,
    part_of,
    time_of,
)

ENDS_WITHIN_SECONDS = 60.0
"""From the last fault, or from the last word of a client, to the end of a run."""
LOST_WORKERS_OF_A_CRASH_LOOP = 3
LEASES_OF_AN_END = 1.5
"""From the loss of the last worker to the end: the rest of its lease, and one for its report."""
EDGE_SECONDS = 0.3
"""A worker may be lost before it hears that it has claimed a run."""
CLAIMED = {"run.started", "run.resumed"}
CONTENT = ("arguments", "changes", "context", "detail", "message", "metadata", "output", "text")
OUTSIDE = {"tool_call.approval_decided", "input.received"}


def every_run_ends_once(evidence: Evidence) -> Found:
    """G1: exactly one final event, the last one, and GET says the same."""
    for run_id, run in evidence.runs.items():
        types = [event["type"] for event in evidence.logs.get(run_id, [])]
        ends = [TERMINAL[kind] for kind in types if kind in TERMINAL]
        if not ends:
            if run["status"] in ENDED or not evidence.may_be_unfinished:
                yield run_id, f"is {run['status']} without a terminal event"
        elif len(ends) > 1 or types[-1] not in TERMINAL:
            yield run_id, f"terminal events {ends}, last is {types[-1]}"
        elif ends[0] != run["status"]:
            yield run_id, f"GET says {run['status']}, its events say {ends[0]}"


def every_run_ends_in_time(evidence: Evidence) -> Found:
    """G1: a run ends within a bounded time after the last fault and the last word of a client."""
    if evidence.settings is None:
        return
    for run_id, log in evidence.logs.items():
        if not log or log[-1]["type"] not in TERMINAL:
            continue
        asked = [time_of(event) for event in log if event["type"] in OUTSIDE]
        begun = max([evidence.settings.last_fault_at, time_of(log[0]), *asked])
        late = time_of(log[-1]) - begun
        if late > ENDS_WITHIN_SECONDS:
            yield run_id, f"ended {late:.0f} s after the last fault or word of a client"


def an_erased_run_has_no_content(evidence: Evidence) -> Found:
    """Of an erased run, no text and no value of a client, model, tool or approver is left."""
    for run_id in evidence.erased:
        for row in (evidence.runs.get(run_id, {}), evidence.run_rows.get(run_id, {})):
            if found := [name for name in CONTENT if row.get(name)]:
                yield run_id, f"is erased, and has {found}"
        for event in evidence.logs.get(run_id, []):
            if found := [name for name in CONTENT if event["data"].get(name)]:
                yield run_id, f"is erased, and its event {event['sequence']} has {found}"


def every_accepted_run_is_kept(evidence: Evidence) -> Found:
    """G1: an id that anyone has seen, in an answer, a stream or a request, is in the tables."""
    if evidence.has_tables:
        for run_id, where in evidence.seen_ids.items():
            if run_id not in evidence.run_rows:
                yield run_id, f"was seen in {where}, the tables do not have it"


def a_crash_loop_has_lost_workers(evidence: Evidence) -> Found:
    """G17: a run fails as `crash_loop` only if three workers were lost that may have had it."""
    lease = evidence.settings.lease_seconds if evidence.settings else 0.0
    for run_id, row in evidence.run_rows.items():
        log = evidence.logs.get(run_id, [])
        if part_of(row, "error").get("code") != "crash_loop" or not log:
            continue
        claims = [time_of(event) for event in log if event["type"] in CLAIMED]
        since = claims[-LOST_WORKERS_OF_A_CRASH_LOOP:][0] - EDGE_SECONDS if claims else inf
        until = time_of(log[-1]) - lease * LEASES_OF_AN_END
        lost = sum(_loses_workers(fault, since, until) for fault in evidence.faults)
        if lost < LOST_WORKERS_OF_A_CRASH_LOOP:
            yield run_id, f"failed as crash_loop with {lost} lost workers since its last claims"


def _loses_workers(fault: Fault, since: float, until: float) -> bool:
    """Whether a worker that claimed a run after `since` may have ended, or may have lost its
    leases without a report, by this fault."""
    if fault.kind in ("kill", "freeze") or (fault.kind, fault.detail) == ("stall", "long"):
        return fault.target.startswith("worker") and since <= fault.at <= until
    if fault.kind in ("freeze_relay", "restart_postgres"):
        away = not fault.target.startswith("api")
        return away and fault.at <= until and since <= (fault.until or fault.at)
    return False


def a_child_ends_with_its_parent(evidence: Evidence) -> Found:
    """G1: no child run is left open, and none is left without the call that started it."""
    for run_id, row in evidence.run_rows.items():
        if row["parent_run_id"] is None:
            continue
        parent = evidence.run_rows.get(row["parent_run_id"])
        if parent is None:
            continue  # a rule of its own
        if parent["status"] in ENDED and row["status"] not in ENDED:
            yield run_id, f"is {row['status']}, its parent is {parent['status']}"
        call = evidence.calls.get((row["parent_run_id"], row["parent_call_id"]))
        if call is None:
            continue
        started = _started_children(evidence, row["parent_run_id"], row["parent_call_id"])
        if run_id not in started or call["child_run_id"] != started[-1]:
            yield run_id, f"its parent's call waits for {call['child_run_id']}"


def _started_children(evidence: Evidence, run_id: str, call_id: str) -> list[str]:
    """The child runs of a call, in order. Only a plugin's function can start several."""
    return [
        event["data"]["run_id"]
        for event in evidence.logs.get(run_id, [])
        if event["data"].get("status") == "child_started" and event["data"]["call_id"] == call_id
    ]


def expectations_hold(evidence: Evidence) -> Found:
    """The plan of a run says which ends are possible, and how often a tool may be called."""
    for run_id, name in evidence.plan_of.items():
        row, plan = evidence.run_rows.get(run_id), evidence.plans.get(name)
        if row is not None and plan is not None and row["parent_run_id"] is None:
            yield from _unexpected(run_id, row, plan.expects)
    hits = Counter((evidence.plan_of.get(hit.run_id), hit.tool) for hit in evidence.hits)
    for name, plan in evidence.plans.items():
        for tool, most in part_of(plan.expects, "hits_at_most").items():
            if hits[name, tool] > most:
                yield name, f"{tool} has {hits[name, tool]} hits, expected at most {most}"
        for tool, least in part_of(plan.expects, "hits_at_least").items():
            if hits[name, tool] < least:
                yield name, f"{tool} has {hits[name, tool]} hits, expected at least {least}"


def _unexpected(run_id: str, row: Json, expects: Json) -> Found:
    crashed = part_of(row, "error").get("code") == "crash_loop"  # a rule of its own
    statuses = expects.get("statuses")
    if statuses and row["status"] in ENDED and row["status"] not in statuses and not crashed:
        yield run_id, f"is {row['status']} ({row['error']}), expected {statuses}"
    completed = "output" in expects and row["status"] == "completed"
    if completed and row["output"] != expects["output"]:
        yield run_id, f"its output is {row['output']}, expected {expects['output']}"


def a_cancel_is_final(evidence: Evidence) -> Found:
    """G11: a run whose immediate cancel got a 2xx is cancelled, and stays so."""
    for run_id, exchange in _cancels(evidence):
        row = evidence.run_rows.get(run_id)
        if row is not None and row["status"] != "cancelled":
            yield run_id, f"its cancel got {exchange.status}, it is {row['status']}"


def nothing_starts_after_a_cancel(evidence: Evidence) -> Found:
    """G11: after the cancel was answered nothing starts, in the run or below it."""
    below: dict[str, list[str]] = defaultdict(list)
    for run_id, row in evidence.run_rows.items():
        for above in (run_id, *row["ancestors"]):
            below[above].append(run_id)
    for cancelled, exchange in _cancels(evidence):
        for run_id in below[cancelled] or [cancelled]:
            for event in evidence.logs.get(run_id, []):
                late = time_of(event) - exchange.ended_at
                if _starts(event) and late > CLOCK_TOLERANCE_SECONDS:
                    yield run_id, f"{event['type']} {late:.3f} s after its cancel was answered"


def _starts(event: Event) -> bool:
    return event["type"] in ("tool_call.started", "run.started", "run.resumed") or (
        event["data"].get("status") == "child_started"
    )


def _cancels(evidence: Evidence) -> list[tuple[str, Exchange]]:
    found: list[tuple[str, Exchange]] = []
    for each in evidence.exchanges:
        parts = each.path.split("?")[0].split("/")
        if each.method == "POST" and parts[1:3] == ["v1", "runs"] and parts[4:] == ["cancel"]:
            mode = each.body.get("mode", "immediate")
            if each.status is not None and each.status < 300 and mode == "immediate":
                found.append((parts[3], each))
    return found


def session_runs_take_turns(evidence: Evidence) -> Found:
    """G26: the runs of a session never interleave, and work in the order of their acceptance."""
    places: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for run_id, row in evidence.run_rows.items():
        if row["session_id"] is not None and row["session_seq"] is not None:
            places[row["session_id"]].append((row["session_seq"], run_id))
    for session_id, runs in places.items():
        spans = [
            (time_of(started), time_of(log[-1]) if log[-1]["type"] in TERMINAL else None, run_id)
            for _, run_id in sorted(runs)
            for log in [evidence.logs.get(run_id, [])]
            for started in [event for event in log if event["type"] == "run.started"][:1]
        ]
        for (_, end, first), (start, _, second) in pairwise(spans):
            if end is None or start < end - CLOCK_TOLERANCE_SECONDS:
                yield session_id, f"{second} started before {first} had ended"
