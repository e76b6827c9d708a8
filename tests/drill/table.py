"""The table of the phases, counted in the evidence."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

from tests import checker
from tests.checker.calls import a_plain_call_is_sent_at_most_once
from tests.checker.history import ENDED, Evidence, time_of
from tests.checker.loading import load
from tests.checker.processes import (
    connections_return_to_their_level,
    every_stalled_process_ends,
    memory_returns_to_its_level,
    no_idle_process_spins,
)
from tests.checker.progress import a_stalled_worker_keeps_its_leases
from tests.checker.runs import every_accepted_run_is_kept
from tests.drill.phases import Phase

WITHOUT_EVIDENCE: Final = (
    a_stalled_worker_keeps_its_leases,
    connections_return_to_their_level,
    every_stalled_process_ends,
    memory_returns_to_its_level,
    no_idle_process_spins,
)
"""The drill blocks no event loop, and does not sample the processes."""
CHECKED: Final = tuple(rule for rule in checker.RULES if rule not in WITHOUT_EVIDENCE)
HEAD: Final = (
    *("phase", "seconds", "runs started", "completed", "failed", "other ends"),
    *("without PostgreSQL (s)", "longest gap without progress (s)"),
    *("repeated effects", "lost runs"),
)


def judge(
    folder: Path, phases: Sequence[Phase], outages: Sequence[tuple[float, float]]
) -> tuple[str, list[checker.Violation]]:
    """Return the table as Markdown, and the violations of the rules in `CHECKED`."""
    evidence = load(folder)
    repeated = [
        _hit_at(evidence, where) for where, _ in a_plain_call_is_sent_at_most_once(evidence)
    ]
    lost = [_minted_at(run_id) for run_id, _ in every_accepted_run_is_kept(evidence)]
    moves = sorted(time_of(event) for log in evidence.logs.values() for event in log)
    rows = [HEAD, tuple("---" for _ in HEAD)]
    for phase in phases:
        ended = _ended_in(evidence, phase)
        completed, failed = ended.count("completed"), ended.count("failed")
        here = [phase.began, *(at for at in moves if _within(phase, at)), phase.ended]
        rows.append(
            (
                phase.name,
                f"{phase.ended - phase.began:.0f}",
                str(_count(phase, _started(evidence))),
                str(completed),
                str(failed),
                str(len(ended) - completed - failed),
                f"{sum(_overlap(phase, *outage) for outage in outages):.1f}",
                f"{max(other - one for one, other in pairwise(here)):.1f}",
                str(_count(phase, repeated)),
                str(_count(phase, lost)),
            )
        )
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return table, checker.broken(evidence, CHECKED)


def _overlap(phase: Phase, began: float, ended: float) -> float:
    return max(0.0, min(ended, phase.ended) - max(began, phase.began))


def _started(evidence: Evidence) -> list[float]:
    return [_seconds(row["created_at"]) for row in evidence.rows("runs")]


def _ended_in(evidence: Evidence, phase: Phase) -> list[str]:
    return [
        row["status"]
        for row in evidence.rows("runs")
        if row["status"] in ENDED and _within(phase, _seconds(row["ended_at"]))
    ]


def _hit_at(evidence: Evidence, where: str) -> float:
    """When the call was sent for the last time. `where`: run and call, as the rule names them."""
    run_id, call_id = where.split(" ", 1)
    return max(hit.at for hit in evidence.hits_by_call[run_id, call_id])


def _minted_at(run_id: str) -> float:
    """The time in a UUIDv7."""
    return (UUID(run_id.removeprefix("run_")).int >> 80) / 1000


def _count(phase: Phase, times: Iterable[float]) -> int:
    return sum(_within(phase, at) for at in times)


def _within(phase: Phase, at: float) -> bool:
    return phase.began <= at < phase.ended


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
