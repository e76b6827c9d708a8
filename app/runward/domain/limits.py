"""Limits of projects and of API keys, which an admin of the project sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from pydantic import JsonValue

from runward.domain.json import to_compact_json


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of one API key. None: no limit."""

    running_runs: int | None = None
    queued_runs: int | None = None
    requests_per_minute: int | None = None
    event_streams: int | None = None


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """Limits of a project. None: no limit. `agents`: the maximum number of running runs of single
    agents. `tools`: of running runs that can call single tools. `concurrency_keys`: of running runs
    with the same value, by the CEL expression of the value."""

    running_runs: int | None = None
    queued_runs: int | None = None
    requests_per_minute: int | None = None
    event_streams: int | None = None
    agents: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    tools: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)
    concurrency_keys: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    def restrict_claims(self, key: KeyLimits) -> bool:
        """Return whether a run that this API key starts may have to wait although a worker is
        free."""
        totals = (self.running_runs, key.running_runs)
        return bool(self.agents or self.tools or self.concurrency_keys) or totals != (None, None)


NO_LIMITS = ProjectLimits()
NO_KEY_LIMITS = KeyLimits()


def digest_expression(expression: str) -> str:
    """Return 32 hexadecimal digits that identify the expression of a concurrency key."""
    return sha256(expression.encode()).hexdigest()[:32]


def name_concurrency_group(expression: str, value: JsonValue) -> str:
    """Return the name of the group of runs with this value: `v`, 32 digits of the expression, and
    32 digits of the value. The name has a fixed size, and does not contain the client's value."""
    value_digest = sha256(to_compact_json(value)).hexdigest()[:32]
    return f"v{digest_expression(expression)}{value_digest}"
