"""Projects' own hooks and guardrails, kept between runs until something about them changes."""

from dataclasses import dataclass
from math import inf
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain.ids import ProjectId
from runward.domain.registry.guards import Guardrail, Hook
from runward.loop.project_cache import ProjectCache
from runward.store.access.vault import Vault
from runward.store.registry import policies
from runward.tools import signing


@dataclass(frozen=True, slots=True)
class ProjectPolicy:
    """`all_secrets` sign what the project's guardrails and hooks are asked, and its agents': newest
    first."""

    hooks: tuple[Hook, ...]
    guardrails: tuple[Guardrail, ...]
    all_secrets: tuple[str, ...]
    overlap_ends: float = inf

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those that are valid now."""
        return signing.valid_secrets(self.all_secrets, self.overlap_ends)


NO_POLICY: Final = ProjectPolicy((), (), ())


class PolicyCache(ProjectCache[ProjectPolicy]):
    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        async def read(project_id: ProjectId) -> ProjectPolicy:
            async with pool.connect() as tx:
                stored = await policies.get_policy(tx, project_id)
            secrets = tuple(
                vault.derive_guard_secret(project_id, one) for one in stored.generations
            )
            overlap_ends = signing.end_of_overlap(stored.former_seconds)
            return ProjectPolicy(stored.hooks, stored.guardrails, secrets, overlap_ends)

        super().__init__(read)
