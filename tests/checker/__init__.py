"""The independent checker: from the logs of tool servers, model servers, clients and processes,
from the tables and the fault log, it tells which promises of the service were broken. It imports
nothing of the service.

`check(folder)` reads the evidence folder of a chaos run, `broken(evidence)` the evidence of a test.
Each answers one `Violation` for each breach; an empty list is the only pass.
"""

from collections.abc import Iterable
from pathlib import Path

from tests.checker.history import Evidence, Reader, Rule, Violation
from tests.checker.loading import load
from tests.checker.rules import RULES

__all__ = ["RULES", "Evidence", "Reader", "Violation", "broken", "check"]


def check(folder: Path) -> list[Violation]:
    """The violations in an evidence folder."""
    return broken(load(folder))


def broken(evidence: Evidence, rules: Iterable[Rule] = RULES) -> list[Violation]:
    """The violations in the evidence, in the order of the rules."""
    return [
        Violation(rule.__name__, where, what) for rule in rules for where, what in rule(evidence)
    ]
