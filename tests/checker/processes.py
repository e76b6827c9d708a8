"""The promises about the processes: they run, they work, and they stop when asked."""

from collections import defaultdict
from statistics import median

from tests.checker.evidence import Level, ProcessEvent
from tests.checker.faults import Windows
from tests.checker.history import Evidence, Found, seconds

STOP_SECONDS = 10.0
"""Beyond the drain, until a process that was asked to stop has ended."""
UNAVAILABLE = 3
"""The exit code of a process that cannot start because its database does not answer."""
OUTAGES = {"restart_postgres", "end_backend", "freeze_relay", "cut_relay"}
STALLED = 70
"""The exit code of a worker whose event loop was blocked."""
STALLED_SECONDS = 10.0
"""A worker must not end itself before its event loop was blocked for so long."""
TOLERANCE_SECONDS = 1.0
STALLED_AT_MOST_SECONDS = 16.0
"""A worker must have ended itself by then. It counts in thirds of its lease."""
QUIET_SAMPLES = 3
"""Samples of a process that are its level before and after the load."""
GROWTH_FACTOR = 1.5
GROWTH_BYTES = 96 * 1024 * 1024
MORE_CONNECTIONS = 24
"""Of a process, after the load: connections that it may keep open in its pools."""
MORE_BACKENDS_PER_PROCESS = 16
IDLE_SHARE = 0.5
"""Of one processor, used by a process that has nothing to do."""


def no_process_ends_by_itself(evidence: Evidence) -> Found:
    """A process ends because it was killed, or was asked to stop; then its exit code is 0. Or it
    could not start because the database was away, or its event loop was blocked."""
    away = Windows(one for one in evidence.faults if one.kind in OUTAGES)
    for name, life in _lives(evidence).items():
        asked = {event.event for event in life}
        for event in life:
            if event.event != "ended" or "killed" in asked:
                continue
            starting = event.code == UNAVAILABLE and "ready" not in asked
            if starting and away.touches(life[0].at, event.at):
                continue
            if event.code == STALLED and _was_stalled(evidence, event):
                continue
            if "asked_to_stop" not in asked:
                yield name, f"ended by itself with code {event.code}"
            elif event.code not in (0, None):
                yield name, f"was asked to stop and ended with code {event.code}"


def _was_stalled(evidence: Evidence, ended: ProcessEvent) -> bool:
    """Whether the event loop was blocked long enough before the end of the process."""
    return any(
        stall.pid == ended.pid and ended.at - stall.at > STALLED_SECONDS - TOLERANCE_SECONDS
        for stall in evidence.stalls
    )


def every_stalled_process_ends(evidence: Evidence) -> Found:
    """A worker whose event loop does not move ends itself, so that others take over its runs."""
    for stall in evidence.stalls:
        seconds = 0.0 if stall.until is None else stall.until - stall.at
        if seconds > STALLED_AT_MOST_SECONDS:
            yield f"{stall.name} {stall.pid}", f"went on after {seconds:.1f} s without a move"


def every_process_stops_when_asked(evidence: Evidence) -> Found:
    """G14: a process ends within its drain time after SIGTERM."""
    if evidence.settings is None:
        return
    bound = evidence.settings.drain_seconds + STOP_SECONDS
    for name, life in _lives(evidence).items():
        asked = [event.at for event in life if event.event == "asked_to_stop"]
        over = [event.at for event in life if event.event in ("ended", "killed")]
        frozen = _frozen(life)
        if asked:
            end = min(over) if over else evidence.settings.settled_at
            waited = end - asked[0] - frozen
            if waited > bound:
                told = "ended" if over else "is there"
                yield name, f"{told} {waited:.1f} s after it was asked to stop, not {bound:g}"


def _frozen(life: list[ProcessEvent]) -> float:
    """Seconds for which the process was stopped."""
    total, since = 0.0, None
    for event in life:
        if event.event == "stopped":
            since = event.at
        elif event.event in ("continued", "killed", "ended") and since is not None:
            total, since = total + event.at - since, None
    return total


def memory_returns_to_its_level(evidence: Evidence) -> Found:
    """The memory of a process after the load is near that before it."""
    for name, before, after in _levels(evidence):
        one, other = _median(before, "rss_bytes"), _median(after, "rss_bytes")
        if other > one * GROWTH_FACTOR + GROWTH_BYTES:
            yield name, f"{one / 2**20:.0f} MiB before the load, {other / 2**20:.0f} MiB after it"


def connections_return_to_their_level(evidence: Evidence) -> Found:
    """So are the connections of each process, and of PostgreSQL."""
    processes = evidence.settings.processes if evidence.settings else 1
    for name, before, after in _levels(evidence):
        one, other = _median(before, "connections"), _median(after, "connections")
        more = MORE_BACKENDS_PER_PROCESS * processes if "postgres" in name else MORE_CONNECTIONS
        if other > one + more:
            yield name, f"{one:.0f} connections before the load, {other:.0f} after it"


def no_idle_process_spins(evidence: Evidence) -> Found:
    """A process without work uses no processor time."""
    for name, _, after in _levels(evidence):
        used = [level for level in after if level.cpu_seconds is not None]
        if len(used) < 2:
            continue
        first, last = used[0], used[-1]
        assert first.cpu_seconds is not None and last.cpu_seconds is not None
        share = (last.cpu_seconds - first.cpu_seconds) / max(last.at - first.at, 1.0)
        if share > IDLE_SHARE:
            yield name, f"uses {share:.0%} of a processor without work"


def _lives(evidence: Evidence) -> dict[str, list[ProcessEvent]]:
    """The events of each process, by its name and pid."""
    lives: dict[str, list[ProcessEvent]] = defaultdict(list)
    for event in evidence.processes:
        lives[f"{event.name} {event.pid}"].append(event)
    return lives


def _levels(evidence: Evidence) -> list[tuple[str, list[Level], list[Level]]]:
    """The first samples of each process that is still there at the end, and its last ones, after
    everything has settled."""
    if evidence.settings is None:
        return []
    by_name: dict[str, list[Level]] = defaultdict(list)
    for level in evidence.levels:
        by_name[f"{level.name} {level.pid or ''}".strip()].append(level)
    quiet = max(
        (seconds(row["ended_at"]) for row in evidence.rows("runs") if row["ended_at"]),
        default=evidence.settings.load_ended_at,
    )
    found: list[tuple[str, list[Level], list[Level]]] = []
    for name, levels in by_name.items():
        after = [level for level in levels if level.at > quiet][-QUIET_SAMPLES:]
        if len(levels) > 2 * QUIET_SAMPLES and after:
            found.append((name, levels[:QUIET_SAMPLES], after))
    return found


def _median(levels: list[Level], name: str) -> float:
    return median(getattr(level, name) or 0 for level in levels)
