"""Limits of projects, which an admin of the project sets."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """None: no limit. `agents`: the maximum number of running runs of single agents."""

    running_runs: int | None = None
    queued_runs: int | None = None
    requests_per_minute: int | None = None
    agents: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    @property
    def restricts_claims(self) -> bool:
        """Return whether a run of the project may have to wait although a worker is free."""
        return self.running_runs is not None or bool(self.agents)


NO_LIMITS = ProjectLimits()
