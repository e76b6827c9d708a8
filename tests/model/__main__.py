"""Explore every scope, or show the violation that each planted mistake causes.

`python -m tests.model` explores the small and the large scopes. `--mutants` plants mistakes. Names
of scopes or mutants select some of them. `--figures FILE` writes the figures as JSON.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import structlog

from tests.model.explore import Found, explore
from tests.model.mutants import MUTANTS, planted
from tests.model.scopes import LARGE, SCOPES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model")
    parser.add_argument("names", nargs="*", help="scopes or mutants; all, if there are none")
    parser.add_argument("--mutants", action="store_true", help="plant mistakes")
    parser.add_argument("--small", action="store_true", help="leave the large scopes out")
    parser.add_argument("--max-states", type=int, default=100_000, help="of each scope")
    parser.add_argument("--figures", type=Path, help="write the figures into this file")
    asked = parser.parse_args()
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    if asked.mutants:
        return _show_mutants(asked.names)
    return _show_scopes(asked)


def _show_scopes(asked: argparse.Namespace) -> int:
    scopes = SCOPES if asked.small else {**SCOPES, **LARGE}
    names = asked.names or list(scopes)
    print(f"{'scope':<26} {'states':>8} {'transitions':>11} {'depth':>5} {'seconds':>8}")
    results: list[Found] = []
    for name in names:
        found = explore({**SCOPES, **LARGE}[name], max_states=asked.max_states)
        results.append(found)
        part = "" if found.complete else f"  (stopped: more than {asked.max_states:,} states)"
        print(
            f"{name:<26} {found.states:>8,} {found.transitions:>11,} {found.depth:>5}"
            f" {found.seconds:>8.1f}{part}",
            flush=True,
        )
        _show_violation(found)
    broken = sum(one.violation is not None for one in results)
    print(f"{sum(r.states for r in results):,} states, {broken} violations")
    if asked.figures:
        _write(asked.figures, results)
    return 1 if broken else 0


def _show_violation(found: Found) -> None:
    if found.violation is None:
        return
    print(f"  {found.violation}")
    for number, step in enumerate(found.trace, start=1):
        print(f"    {number:>2}. {step}")


def _show_mutants(names: Sequence[str]) -> int:
    alive = 0
    for mutant in MUTANTS.values():
        if names and mutant.name not in names:
            continue
        found = explore(SCOPES[mutant.scope], mutant=partial(planted, mutant))
        caught = found.violation is not None and found.violation.startswith(mutant.caught_by)
        alive += not caught
        how = f"{len(found.trace)} steps: {found.violation}" if found.violation else "ALIVE"
        print(f"{mutant.area:<9} {mutant.name:<66} {mutant.scope:<9} {how}", flush=True)
        if names:
            _show_violation(found)
    print(f"{len(MUTANTS) if not names else len(names)} mutants, {alive} alive")
    return 1 if alive else 0


def _without_figures(arguments: list[str]) -> list[str]:
    at = arguments.index("--figures")
    return arguments[:at] + arguments[at + 2 :]


def _write(path: Path, results: Sequence[Found]) -> None:
    figures = {
        "scopes": len(results),
        "scopes explored completely": sum(one.complete for one in results),
        "states": sum(one.states for one in results),
        "transitions": sum(one.transitions for one in results),
        "depth": max(one.depth for one in results),
        "CPU seconds": round(sum(one.seconds for one in results)),
        "violations": sum(one.violation is not None for one in results),
        "mutants": len(MUTANTS),
    }
    about = {
        "part": "model",
        "date": datetime.now(UTC).date().isoformat(),
        "command": " ".join(["python -m tests.model", *_without_figures(sys.argv[1:])]),
        "figures": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(about, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
