"""Figures of a chaos run, counted in its evidence, and the floors of some of them.

If a figure is below its floor, the chaos run proves too little and fails. A floor is a number for
1,000 runs, and scales with the runs.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, TypeAlias

from tests.chaos.faults import LEASE_SECONDS, PER_THOUSAND, count_of
from tests.checker.evidence import Fault, Folder, ToolEnd, ToolHit

Figures: TypeAlias = dict[str, float]

SHARE_OF_PLAN: Final = 0.75
"""Of the planned faults of each kind, that must have found a target."""
ABANDONED_SECONDS: Final = 1.0
"""Within this time after a kill, the tool servers notice that their client is gone."""
TAKEN_OVER_SECONDS: Final = LEASE_SECONDS + 6.0
AT_WORK: Final = ("run.started", "run.resumed", "tool_call.started")
"""Events after which a worker is at work. If `run.resumed` comes next, the worker was lost."""
WINDOWS: Final = {
    "kills of a worker while a tool call was in flight": 4,
    "kills of a worker between two commits of a run": 6,
    "freezes of a worker that held leases": 4,
    "stalls of a worker that held leases": 3,
    "restarts of PostgreSQL while a tool call was in flight": 1,
}
RACES: Final = {
    "races for a decision": 20,
    "races for a result": 10,
    "races for an idempotency key": 40,
    "requests closed before the response": 20,
    "requests closed before the end of the body": 10,
    "streams closed by the client": 200,
    "cancels (immediate)": 15,
    "cancels (after_turn)": 8,
}
"""What clients do, as the load's summary calls it."""
MODEL_FAULTS: Final = {
    "429": 20,
    "500": 15,
    "503": 8,
    "hang": 8,
    "cut": 15,
    "reset": 8,
    "slow": 40,
    "foul": 10,
}
TOOL_FAULTS: Final = {
    "reset_before": 8,
    "reset_after": 8,
    "cut": 4,
    "hang": 8,
    "slow": 30,
    "error_503": 15,
    "retry_after": 15,
    "later": 20,
    "twice": 6,
    "early": 6,
    "never": 1,
    "too_late": 1,
    "not_json": 1,
    "too_large": 1,
    "deep": 1,
    "is_error": 1,
}
RUNS_OF_A_KIND: Final = 20


@dataclass(frozen=True, slots=True)
class Floor:
    name: str
    found: float
    needed: float

    @property
    def reached(self) -> bool:
        return self.found >= self.needed


def count_faults(folder: Folder) -> tuple[Figures, Figures]:
    """Return the faults by kind and target or detail, and how often they hit a window that
    matters."""
    faults = sorted(folder.faults(), key=lambda fault: fault.at)
    counted = Counter((fault.kind, fault.detail or "") for fault in faults)
    figures: Figures = {_name(*key): counted[key] for key in PER_THOUSAND}
    workers = [fault for fault in faults if fault.target.startswith("worker")]
    kills = [fault for fault in workers if fault.kind == "kill"]
    freezes = [fault for fault in workers if fault.kind == "freeze"]
    restarts = [fault for fault in faults if fault.kind == "restart_postgres"]
    abandoned, hits = _abandoned(folder), _hits(folder)
    taken_over = sorted(_taken_over(folder))
    windows = (
        sum(_some(abandoned, kill.at, kill.at + ABANDONED_SECONDS) for kill in kills),
        sum(_some_across(taken_over, kill, TAKEN_OVER_SECONDS) for kill in kills),
        sum(_some_across(taken_over, freeze, TAKEN_OVER_SECONDS) for freeze in freezes),
        sum(bool(stall.runs) and stall.name.startswith("worker") for stall in folder.stalls()),
        sum(any(at < restart.at < end for at, end in hits) for restart in restarts),
    )
    return figures, dict(zip(WINDOWS, windows, strict=True))


def _name(kind: str, detail: str) -> str:
    return f"{kind} ({detail})" if detail else kind


def _abandoned(folder: Folder) -> list[float]:
    """When tool servers noticed that their client was gone."""
    return sorted(
        line.at
        for line in folder.tools()
        if isinstance(line, ToolEnd) and line.outcome == "abandoned"
    )


def _hits(folder: Folder) -> list[tuple[float, float]]:
    """The beginning and the end of each hit."""
    began: dict[int, float] = {}
    hits: list[tuple[float, float]] = []
    for line in folder.tools():
        if isinstance(line, ToolHit):
            began[line.number] = line.at
        elif isinstance(line, ToolEnd) and line.number in began:
            hits.append((began.pop(line.number), line.at))
    return hits


def _taken_over(folder: Folder) -> Iterator[tuple[float, float]]:
    """For each run that was taken over in the middle of its work: the last commit before, and the
    first after."""
    events: dict[str, list[tuple[int, str, str]]] = {}
    for row in folder.rows("run_events"):
        events.setdefault(row["run_id"], []).append((row["seq"], row["type"], row["created_at"]))
    for ordered in map(sorted, events.values()):
        for (_, before, left), (_, after, resumed) in pairwise(ordered):
            if after == "run.resumed" and before in AT_WORK:
                yield _seconds(left), _seconds(resumed)


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _some(times: list[float], begin: float, end: float) -> bool:
    place = bisect_left(times, begin)
    return place < len(times) and times[place] <= end


def _some_across(spans: Iterable[tuple[float, float]], fault: Fault, seconds: float) -> bool:
    return any(left < fault.at < resumed < fault.at + seconds for left, resumed in spans)


def count_runs(folder: Folder, summary: dict[str, Any]) -> Figures:
    """Count runs by kind and by final status, and what was asked of whom."""
    figures: Figures = {}
    statuses = Counter(str(row["status"]) for row in folder.rows("runs"))
    for kind, count in sorted(Counter(one.kind for one in folder.plans()).items()):
        figures[f"runs ({kind})"] = count
    figures |= {f"ended as {status}": count for status, count in sorted(statuses.items())}
    hits = Counter(line.transport for line in folder.tools() if isinstance(line, ToolHit))
    figures |= {f"tool hits ({transport})": count for transport, count in sorted(hits.items())}
    asked = Counter(one.number for one in folder.models())
    figures["model requests"] = len(asked)
    figures["events"] = sum(1 for _ in folder.rows("run_events"))
    figures["HTTP exchanges"] = sum(1 for _ in folder.exchanges())
    figures["stream frames"] = sum(1 for _ in folder.frames())
    figures |= {name: summary.get("clients", {}).get(name, 0) for name in RACES}
    return figures


def floors(runs: int, figures: Figures, summary: dict[str, Any]) -> list[Floor]:
    """Everything that has to have happened, with how often it did."""
    found = [
        Floor(
            name := _name(*key),
            figures.get(name, 0),
            max(1, int(count_of(count, runs) * SHARE_OF_PLAN)),
        )
        for key, count in PER_THOUSAND.items()
    ]
    kinds = {name: RUNS_OF_A_KIND for name in figures if name.startswith("runs (")}
    for needed in (WINDOWS, RACES, kinds):
        found += [_floor(name, figures.get(name, 0), n, runs) for name, n in needed.items()]
    for part, needed in (("model", MODEL_FAULTS), ("tool", TOOL_FAULTS)):
        counted = summary.get(f"{part}_behaviors", {})
        found += [
            _floor(f"{part}: {name}", counted.get(name, 0), n, runs) for name, n in needed.items()
        ]
    return found


def _floor(name: str, found: float, per_thousand: int, runs: int) -> Floor:
    return Floor(name, found, per_thousand * runs // 1000)
