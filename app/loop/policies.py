"""Projects' own hooks and guardrails, kept between runs until something about them changes."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.guards import Guardrail, Hook
from app.domain.ids import ProjectId
from app.store import policies
from app.store.vault import Vault

MAX_KEPT: Final = 4096
"""Projects in memory."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`secrets` sign what the project's guardrails and hooks are asked, and its agents': newest
    first."""

    hooks: tuple[Hook, ...]
    guardrails: tuple[Guardrail, ...]
    secrets: tuple[str, ...]

    @property
    def checks_results(self) -> bool:
        """Whether results of calls are shown to any of them."""
        return any(one.stage == "output" for one in self.guardrails) or any(
            one.on == "after_tool" for one in self.hooks
        )


NO_POLICY: Final = Policy((), (), ())


class Policies:
    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        self._pool = pool
        self._vault = vault
        self._kept: OrderedDict[UUID, Policy] = OrderedDict()
        self._changes = 0

    async def of(self, project_id: ProjectId) -> Policy:
        kept = self._kept.get(project_id)
        if kept is not None:
            return kept
        changes = self._changes
        async with self._pool.connect() as tx:
            stored = await policies.get_policy(tx, project_id)
        secrets = tuple(self._vault.guard_secret(project_id, one) for one in stored.generations)
        policy = Policy(stored.hooks, stored.guardrails, secrets)
        if changes == self._changes:  # else it may be what was just forgotten
            self._kept[project_id] = policy
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return policy

    def forget(self, project_id: UUID | None) -> None:
        """Something about the project changed; None: about any project."""
        self._changes += 1
        if project_id is None:
            self._kept.clear()
        else:
            self._kept.pop(project_id, None)
