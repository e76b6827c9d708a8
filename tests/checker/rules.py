"""All rules. Each is named after the promise that it checks."""

import inspect
from types import ModuleType
from typing import cast

from tests.checker import (
    approvals,
    calls,
    clients,
    events,
    models,
    processes,
    progress,
    runs,
    tables,
)
from tests.checker.history import Rule

MODULES = (runs, events, calls, approvals, clients, models, tables, processes, progress)


def _rules_of(module: ModuleType) -> list[Rule]:
    """The public functions that a module defines and that take the evidence alone."""
    return [
        cast(Rule, value)
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and not name.startswith("_")
        and value.__module__ == module.__name__
        and list(inspect.signature(value).parameters) == ["evidence"]
    ]


RULES: tuple[Rule, ...] = tuple(rule for module in MODULES for rule in _rules_of(module))
