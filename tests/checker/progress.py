"""The promise that work continues: no process hangs while there is work to do."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from math import inf

from tests.checker.evidence import Fault, Stall
from tests.checker.faults import Windows
from tests.checker.history import ENDED, Event, Evidence, Found, time_of
from tests.checker.processes import STALLED_SECONDS, TOLERANCE_SECONDS

HANG_SECONDS = 15.0
"""Without any event although runs are open and there is no fault."""
STUCK_SECONDS = 60.0
"""Between two events of a run, longer than all requests to a model for one turn."""
WAITS = {"run.waiting", "tool_call.progress", "tool_call.approval_requested"}
"""Events after which a run may wait for someone."""
CLAIMS = {"run.started", "run.resumed"}
COSTLY = {"freeze", "restart_postgres", "end_backend", "freeze_relay", "cut_relay"}
"""Faults that may cost a living process its leases."""
EDGE_SECONDS = 0.3
"""After a fault, an answer that it has cut off may still be missing."""
HOLDING = {"freeze", "stall", "freeze_relay"}
"""Faults that stop a process in a transaction, which may lock a run that another one works on. A
lease cannot be renewed meanwhile."""
PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 10.0
"""Between two samples of the processes, which are due each second."""
KEPT_SECONDS = STALLED_SECONDS - TOLERANCE_SECONDS
CLAIM_SECONDS = 30.0
"""From the acceptance of a run to its first claim, without a fault."""


def no_process_hangs(evidence: Evidence) -> Found:
    """While there is work to do and no fault, something happens."""
    settings = evidence.settings
    if settings is None or not evidence.logs:
        return
    around = settings.lease_seconds + settings.polling_seconds
    windows = Windows(evidence.faults, after=around)
    busy: list[tuple[float, int]] = []
    for run_id, log in evidence.logs.items():
        if log:
            open_still = evidence.runs.get(run_id, {}).get("status") not in ENDED
            end = settings.settled_at if open_still else time_of(log[-1])
            busy += [(time_of(log[0]), 1), (end, -1)]
            yield from _unclaimed(evidence, run_id, log, windows)
    times = sorted(time_of(event) for log in evidence.logs.values() for event in log)
    times.append(settings.settled_at)
    for since, until in _busy_spans(busy):
        here = times[bisect_left(times, since) : bisect_right(times, until)]
        for one, other in pairwise(here):
            quiet = windows.outside(one, other)
            if quiet > HANG_SECONDS:
                yield "service", f"no event for {quiet:.0f} s from {one:.3f} on, runs were open"
    yield from _unanswered(evidence, windows)


def no_run_stands_still(evidence: Evidence) -> Found:
    """G1: a run that waits for nobody moves, also under faults: each of them costs a lease and a
    little."""
    for run_id, log in evidence.logs.items():
        row = evidence.run_rows.get(run_id, {})
        for one, other in pairwise(log):
            waits = one["type"] in WAITS or one["data"].get("awaiting_resolution")
            queued = one["type"] == "run.created" and row.get("session_seq") is not None
            quiet = time_of(other) - time_of(one)
            if quiet > STUCK_SECONDS and not (waits or queued) and evidence.settings is not None:
                yield run_id, f"did nothing for {quiet:.0f} s after {one['type']}"


def no_lease_is_lost_without_a_fault(evidence: Evidence) -> Found:
    """A worker keeps the leases of its runs, and its writes count, until it ends or a fault costs
    it the leases."""
    settings = evidence.settings
    if settings is None:
        return
    costly = [one for one in evidence.faults if not _is_harmless(one)]
    faults = Windows([*costly, *_pauses(evidence)], after=EDGE_SECONDS)
    drains = Windows(
        [one for one in costly if one.kind == "terminate"],
        after=settings.drain_seconds + TOLERANCE_SECONDS,
    )
    parents = {row["parent_run_id"] for row in evidence.run_rows.values()}
    for run_id in evidence.logs.keys() - parents:
        for left, taken_over in _lost_leases(evidence.logs[run_id], settings.lease_seconds):
            if not (faults.touches(left, taken_over) or drains.touches(left, taken_over)):
                yield run_id, f"was taken over {taken_over - left:.1f} s after its last event"


def _is_harmless(fault: Fault) -> bool:
    """Whether it lets living workers keep their leases."""
    return fault.target.startswith("api") or (fault.kind, fault.detail) == ("stall", "short")


def _pauses(evidence: Evidence) -> Iterator[Fault]:
    """Yield the times in which the machine was too busy even for the samples of each second."""
    samples = [level.at for level in evidence.levels if level.name == "postgres"]
    for one, other in pairwise(samples):
        if PAUSE_SECONDS < other - one < LONGEST_PAUSE_SECONDS:
            yield Fault(one, "pause", "machine", other)


def a_stalled_worker_keeps_its_leases(evidence: Evidence) -> Found:
    """No other worker takes over the runs of a worker whose event loop is blocked, before the
    worker ends."""
    if evidence.settings is None:
        return
    lease = evidence.settings.lease_seconds
    for stall in evidence.stalls:
        end = min(stall.until or inf, stall.at + KEPT_SECONDS)
        near = {stall.name, "postgres"}
        faults = [one for one in evidence.faults if one.target in near and one.kind in COSTLY]
        if Windows(faults, after=lease).touches(stall.at, end):
            continue
        locking = Windows(
            one for one in evidence.faults if one.kind in HOLDING and one.target != stall.name
        )
        lost = {
            run_id: taken_over
            for run_id in stall.runs
            for left, taken_over in _lost_leases(evidence.logs.get(run_id, []), lease)
            if left < stall.at < taken_over < end and not _had_lost_before(evidence, run_id, stall)
        }
        if len(lost) == 1 and locking.touches(stall.at, end):
            continue
        for run_id, taken_over in lost.items():
            yield run_id, f"was taken over {taken_over - stall.at:.1f} s after {stall.name} stalled"


def _had_lost_before(evidence: Evidence, run_id: str, stall: Stall) -> bool:
    """Whether the last claim of the run was made while the process was stalled an earlier time.
    Another worker holds the lease then, and the process does not know it yet."""
    claims = [
        time_of(event)
        for event in evidence.logs.get(run_id, [])
        if event["type"] in CLAIMS and time_of(event) < stall.at
    ]
    return bool(claims) and any(
        earlier.pid == stall.pid and earlier.at < claims[-1] < (earlier.until or inf)
        for earlier in evidence.stalls
        if earlier.at < stall.at
    )


def _lost_leases(log: list[Event], lease: float) -> Iterator[tuple[float, float]]:
    """Yield the times of the last event before, and of the claim after, a lease that has run out.
    Leave out runs that have waited for someone: they are claimed again when they go on."""
    for one, other in pairwise(log):
        if one["type"] in WAITS or one["data"].get("awaiting_resolution"):
            return
        quiet = time_of(other) - time_of(one)
        if other["type"] == "run.resumed" and quiet > lease - TOLERANCE_SECONDS:
            yield time_of(one), time_of(other)


def _unclaimed(evidence: Evidence, run_id: str, log: list[Event], windows: Windows) -> Found:
    """Runs of a session wait for their turn, so they are left out."""
    row = evidence.run_rows.get(run_id, {})
    claims = [time_of(event) for event in log if event["type"] == "run.started"]
    if row.get("session_seq") is None and claims:
        waited = windows.outside(time_of(log[0]), claims[0])
        if waited > CLAIM_SECONDS:
            yield run_id, f"was claimed {waited:.0f} s after it was accepted"


def _busy_spans(changes: list[tuple[float, int]]) -> list[tuple[float, float]]:
    """When any run was open."""
    spans: list[tuple[float, float]] = []
    count, since = 0, 0.0
    for at, change in sorted(changes, key=lambda each: (each[0], -each[1])):
        if count == 0:
            since = at
        count += change
        if count == 0:
            spans.append((since, at))
    return spans


def _unanswered(evidence: Evidence, windows: Windows) -> Found:
    """A response that is created in the foreground is held as long as its run."""
    for each in evidence.exchanges:
        timed_out = each.status is None and (each.error or "").lower().startswith("timeout")
        held = each.path.startswith("/v1/responses")
        if timed_out and not held and not windows.touches(each.at, each.ended_at):
            yield each.path, f"no answer to {each.client} in {each.ended_at - each.at:.0f} s"
