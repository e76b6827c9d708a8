"""An independent checker that finds broken promises of the service. It reads the logs of tool
servers, model servers, clients and processes, the tables, and the fault log. It imports no code of
the service.

`check(folder)` reads the evidence folder of a chaos run, `broken(evidence)` the evidence of a test.
Each returns one `Violation` for each breach. Only an empty list is a pass.
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
