"""Generate random stories about the real service: `python -m tests.stateful`, or `make stateful`.
With `--planted`, use copies of the service that have one mistake each. A story is a sequence of
requests and faults.
"""

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from hypothesis.stateful import RULE_MARKER

from tests.stateful.chapters import Chapters
from tests.stateful.mistakes import MISTAKES
from tests.stateful.telling import Failure, search
from tests.stateful.world import World

PLANTED_EXAMPLES = 100
PLANTED_STEPS = 6
SEED = 0
WITH_FAULTS = frozenset({"unknown_outcome_is_sent_again"})
"""Mistakes that show only when something fails."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=300)
    parser.add_argument("--planted", nargs="*", metavar="MISTAKE", help="all, or those named")
    parser.add_argument("--figures", type=Path, help="the figures are written there, as JSON")
    options = parser.parse_args()
    if options.planted is not None:
        missed = [name for name in options.planted or MISTAKES if find(name) is None]
        raise SystemExit(f"not found: {', '.join(missed)}" if missed else 0)
    began = time.monotonic()
    with World() as world:
        failure = search(world, options.examples)
        figures = {
            "examples": world.number,
            "steps": world.steps,
            "rules": sum(hasattr(getattr(Chapters, name), RULE_MARKER) for name in dir(Chapters)),
            "runs": world.runs,
            "violations": int(failure is not None),
            "seconds": round(time.monotonic() - began),
        }
    print(failure or "Every story ended well.")
    print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    if options.figures:
        about = {"part": "stateful", "date": f"{datetime.now(UTC):%Y-%m-%d}",
                 "command": f"make stateful EXAMPLES={options.examples}"}  # fmt: skip
        options.figures.write_text(json.dumps({**about, "figures": figures}, indent=2) + "\n")
    raise SystemExit(failure is not None)


def find(name: str) -> Failure | None:
    """The shortest story that shows a planted mistake."""
    prepare = "tests.stateful.mistakes:prepare"
    with World(prepare, {"STATEFUL_MISTAKE": name}) as world:
        failure = search(
            world,
            PLANTED_EXAMPLES,
            steps=PLANTED_STEPS,
            faults=name in WITH_FAULTS,
            seed=SEED,
        )
    print(f"{name}:\n{failure or '    not found'}\n", flush=True)
    return failure


if __name__ == "__main__":
    main()
