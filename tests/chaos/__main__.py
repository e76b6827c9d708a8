"""Run many runs of many kinds while their processes are killed, frozen and cut off.

    make chaos RUNS=10000
    python -m tests.chaos --runs 1000 --seed 7 --keep DIR

The program writes the evidence to a folder, and tests/checker reads it. The exit code is 1 if a
promise was broken, if a kind of fault or race occurred too rarely to prove anything, or if the load
could not be completed. In these cases, the program keeps the folder.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvloop

from tests import checker
from tests.chaos.figures import Figures, Floor, count_faults, count_runs, floors
from tests.chaos.stage import Chaos
from tests.chaos.story import lines_about
from tests.checker.evidence import Folder

SHOWN_VIOLATIONS: Final = 20


@dataclass(frozen=True, slots=True)
class Options:
    runs: int
    seed: int
    minutes: float
    keep: Path | None
    figures: Path | None
    tries: int


def main() -> None:
    options = _options()
    for left in reversed(range(options.tries)):
        if _try(options, options.seed + left, is_last=left == 0):
            return


def _try(options: Options, seed: int, *, is_last: bool) -> bool:
    """Return False if too little happened to prove anything, unless this is the last try."""
    folder = options.keep or Path(tempfile.mkdtemp(prefix="runward-chaos-"))
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty.")
    chaos = Chaos(folder, options.runs, seed, options.minutes)
    print(f"{options.runs} runs, seed {seed}, evidence in {folder}", flush=True)
    uvloop.run(_play(chaos))
    figures, missed, broken = judge(chaos)
    _print_figures(figures)
    _print_problems(Folder(folder), chaos.problems, missed, broken)
    if options.figures is not None:
        _write_figures(options, figures)
    if chaos.problems or broken or (missed and is_last):
        raise SystemExit(f"\nFAILED. The evidence is in {folder}; seed {seed}.")
    if options.keep is None:
        shutil.rmtree(folder)
    print("\nOnce more, with another seed." if missed else "\nEvery promise held.", flush=True)
    return not missed


def judge(chaos: Chaos) -> tuple[Figures, list[Floor], Sequence[checker.Violation]]:
    """Return the figures, the floors that were not reached, and the violations."""
    folder = Folder(chaos.folder)
    faults, windows = count_faults(folder)
    figures: Figures = faults | windows | count_runs(folder, chaos.summary)
    began = time.monotonic()
    broken = checker.check(chaos.folder)
    figures |= {"rules": len(checker.RULES), "violations": len(broken), **chaos.figures}
    figures["seconds of checking"] = round(time.monotonic() - began, 1)
    figures["runs per second"] = round(chaos.runs / max(1, chaos.figures["load_seconds"]), 1)
    missed = [floor for floor in floors(chaos.runs, figures, chaos.summary) if not floor.reached]
    return figures, missed, broken


async def _play(chaos: Chaos) -> None:
    """Until the end, or until SIGTERM; Ctrl-C does the same."""
    playing = asyncio.current_task()
    assert playing is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, playing.cancel)
    await chaos.play()


def _print_figures(figures: Figures) -> None:
    width = max(map(len, figures))
    print()
    for name, number in figures.items():
        print(f"{name:{width}}  {number:>12,g}")


def _print_problems(
    folder: Folder,
    problems: Sequence[str],
    missed: Sequence[Floor],
    broken: Sequence[checker.Violation],
) -> None:
    for problem in problems:
        print(f"\n{problem}")
    if missed:
        print("\nToo few to prove anything:")
        for floor in missed:
            print(f"  {floor.name}: {floor.found:g} of at least {floor.needed:g}")
    for violation in broken[:SHOWN_VIOLATIONS]:
        print(f"\nVIOLATION {violation.rule}\n  {violation.where}: {violation.what}")
        for line in lines_about(folder, violation):
            print(f"    {line}")
    if len(broken) > SHOWN_VIOLATIONS:
        print(f"\n… and {len(broken) - SHOWN_VIOLATIONS} more violations")


def _write_figures(options: Options, figures: Figures) -> None:
    assert options.figures is not None
    written = {
        "part": "chaos",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "command": f"make chaos RUNS={options.runs}",
        "figures": figures,
    }
    options.figures.parent.mkdir(parents=True, exist_ok=True)
    options.figures.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, help="of the plan (random)")
    parser.add_argument("--minutes", type=float, default=60, help="at most (%(default)s)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the evidence there")
    parser.add_argument("--figures", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument(
        "--tries", type=int, default=1, help="with other seeds, after too few faults"
    )
    given = parser.parse_args()
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    return Options(given.runs, seed, given.minutes, given.keep, given.figures, given.tries)


if __name__ == "__main__":
    main()
