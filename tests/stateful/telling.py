"""Search for a story in which a promise does not hold, and print the shortest one."""

from collections.abc import Iterator
from dataclasses import dataclass

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.chapters import Chapters
from tests.stateful.world import World

STEPS = 10
SHRINK_SECONDS = 45
"""For shortening a story; what is found by then is told. Hypothesis has no setting for it."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`lines`: one for each step. `problem`: the promise that does not hold."""

    lines: list[str]
    problem: str

    def __str__(self) -> str:
        return "\n".join([*self.lines, f"  {self.problem}"])


def search(
    world: World, examples: int, *, steps: int = STEPS, faults: bool = True, seed: int | None = None
) -> Failure | None:
    """None: every story ended well. `faults`: processes and PostgreSQL may fail in them. `seed`: of
    the stories; None: others each time."""
    engine.MAX_SHRINKING_SECONDS = SHRINK_SECONDS
    story = type("Story", (Chapters,), {"world": world, "with_faults": faults})
    if seed is not None:
        hypothesis.seed(seed)(story)
    try:
        run_state_machine_as_test(story, settings=_settings(examples, steps))
    except Exception as error:
        return Failure(list(_lines(error)), f"{type(error).__name__}: {error}")
    return None


def _settings(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much),
    )


def _lines(error: BaseException) -> Iterator[str]:
    for note in getattr(error, "__notes__", []):
        yield from (line for line in note.splitlines() if line.startswith("    "))
