"""Test every meaningful combination: `python -m tests.crash`, or `make crash`."""

import argparse
import json
import math
import re
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from tests.crash.cells import FAULTS, KINDS, Cell, all_cells, meaningless
from tests.crash.lane import Outcome
from tests.crash.mistakes import MISTAKES
from tests.crash.playing import play_all
from tests.crash.points import POINTS
from tests.support.postgres import Databases, TestRun

SECONDS_PER_MINUTE = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=4, help="cells that are played at once")
    parser.add_argument("--only", default="", help="a pattern: POINT/FAULT/KIND")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the cells")
    parser.add_argument("--figures", type=Path, help="the figures are written there, as JSON")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no cell after that")
    parser.add_argument("--planted", action="store_true", help="one cell for each planted mistake")
    options = parser.parse_args()
    cells = [cell for cell in all_cells() if re.search(options.only, str(cell))]
    began = time.monotonic()
    with _databases() as databases:
        if options.planted:
            raise SystemExit(not play_planted(databases))
        Random(options.seed).shuffle(cells)
        outcomes = play_all(
            databases, cells, options.lanes, say, seconds=options.minutes * SECONDS_PER_MINUTE
        )
    print(table(outcomes))
    figures = figures_of(outcomes, time.monotonic() - began)
    print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if options.figures:
        about = {"part": "crash", "date": f"{datetime.now(UTC):%Y-%m-%d}", "command": "make crash"}
        options.figures.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")
    raise SystemExit(not all(outcome.fine for outcome in outcomes))


@contextmanager
def _databases() -> Generator[Databases]:
    run = TestRun.begin()
    try:
        with Databases(run) as databases:
            databases.make_template()
            yield databases
    finally:
        run.end()


def play_planted(databases: Databases) -> bool:
    """Whether each mistake is found."""
    missed: list[str] = []
    for mistake, (_, name) in MISTAKES.items():
        [cell] = [cell for cell in all_cells() if str(cell) == name]
        [outcome] = play_all(databases, [cell], 1, mistake=mistake)
        print(f"{mistake}: {outcome.cell}: {'; '.join(outcome.problems) or 'MISSED'}", flush=True)
        if outcome.fine:
            missed.append(mistake)
    return not missed


def say(outcome: Outcome) -> None:
    problems = ["was not reached"] * (not outcome.reached) + outcome.problems
    print(f"{outcome.cell}: {'; '.join(problems) or 'fine'}", flush=True)


def table(outcomes: list[Outcome]) -> str:
    """A row for each point; for each kind the faults that were played, in capitals where they
    failed, and `-` where the combination means nothing."""
    found = {outcome.cell: outcome for outcome in outcomes}
    lines = [f"{'point':28}" + "".join(f"{kind:>11}" for kind in KINDS)]
    for point in POINTS:
        row = f"{point.name:28}"
        for kind in KINDS:
            marks = ""
            for fault in FAULTS:
                outcome = found.get(Cell(point, fault, kind))
                if outcome is not None:
                    marks += fault[0] if outcome.fine else fault[0].upper()
            row += f"{marks or ('-' if meaningless(point, kind) else '.'):>11}"
        lines.append(row)
    lines.append("k: kill, f: freeze past the lease, c: connections cut; -: means nothing")
    reasons = Counter(reason for point in POINTS for kind in KINDS
                      if (reason := meaningless(point, kind)))  # fmt: skip
    lines += [f"- {count} x {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


def figures_of(outcomes: list[Outcome], seconds: float) -> dict[str, int]:
    by_fault = Counter(outcome.cell.fault for outcome in outcomes if outcome.reached)
    return {
        "points": len({outcome.cell.point.name for outcome in outcomes}),
        "combinations": len(outcomes),
        "not played": len(all_cells()) - len(outcomes),
        "reached": sum(outcome.reached for outcome in outcomes),
        **{f"{fault}s" if fault != "freeze" else "freezes": by_fault[fault] for fault in FAULTS},
        "violations": sum(len(outcome.problems) for outcome in outcomes),
        "seconds": round(seconds),
    }


if __name__ == "__main__":
    main()
