"""Caches of each project's data. They are invalidated when the project changes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Final, Generic, TypeVar
from uuid import UUID

from runward.domain.ids import ProjectId
from runward.domain.registry.guards import Guardrail, Hook
from runward.egress.addresses import TargetError
from runward.llm.catalog import PROJECT_SECRET_NAMES, ModelCatalog, Models
from runward.store.access.vault import Vault
from runward.store.postgres.engine import AsyncEngine
from runward.store.registry import agents, policies
from runward.store.registry.agents import RegisteredAgent
from runward.tools import signing

MAX_KEPT: Final = 4096
"""Maximum number of cached projects."""
MAX_AGENTS: Final = 64
"""Maximum number of cached agents of a project."""

T = TypeVar("T")


class ProjectCache(Generic[T]):
    def __init__(self, read: Callable[[ProjectId], Awaitable[T]]) -> None:
        self._read = read
        self._kept: OrderedDict[UUID, T] = OrderedDict()
        self._changes = 0

    async def of(self, project_id: ProjectId) -> T:
        kept = self._kept.get(project_id)
        if kept is not None:
            return kept
        changes = self._changes
        found = await self._read(project_id)
        if changes == self._changes:  # otherwise the value may already be outdated
            self._kept[project_id] = found
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def forget(self, project_id: UUID | None) -> None:
        """Drop the cached data of a project that changed. None: of all projects."""
        self._changes += 1
        if project_id is None:
            self._kept.clear()
        else:
            self._kept.pop(project_id, None)


class ProjectModels(ProjectCache[Models]):
    """The models that each project can use. API keys in the project's secrets replace the keys of
    the environment. `secrets` reads values by name. `check_url` raises TargetError for an address
    that Runward must not call."""

    def __init__(
        self,
        catalog: ModelCatalog,
        secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]],
        check_url: Callable[[str], Awaitable[None]],
    ) -> None:
        async def read(project_id: ProjectId) -> Models:
            own = await secrets(project_id, PROJECT_SECRET_NAMES)
            return catalog.for_project(
                own, await _find_url_problem(own.get("OPENAI_BASE_URL"), check_url)
            )

        super().__init__(read)


async def _find_url_problem(
    url: str | None, check_url: Callable[[str], Awaitable[None]]
) -> str | None:
    if url is None:
        return None
    try:
        await check_url(url)
    except TargetError as error:
        return f"the project's OPENAI_BASE_URL {error}"
    return None


@dataclass(frozen=True, slots=True)
class ProjectPolicy:
    """A project's policy. `all_secrets` sign the requests to the guardrails and hooks of the
    project and of its agents, newest first. `current_secrets`: the number of those that also sign
    after the overlap, one for each data key of the deployment."""

    hooks: tuple[Hook, ...]
    guardrails: tuple[Guardrail, ...]
    all_secrets: tuple[str, ...]
    overlap_ends: float = inf
    current_secrets: int = 1
    has_budgets: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the signing secrets that are valid now."""
        return signing.valid_secrets(self.all_secrets, self.overlap_ends, self.current_secrets)


NO_POLICY: Final = ProjectPolicy((), (), ())


class PolicyCache(ProjectCache[ProjectPolicy]):
    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        async def read(project_id: ProjectId) -> ProjectPolicy:
            async with pool.connect() as tx:
                stored = await policies.get_policy(tx, project_id)
            derived = [vault.derive_guard_secrets(project_id, one) for one in stored.generations]
            return ProjectPolicy(
                stored.hooks,
                stored.guardrails,
                tuple(chain.from_iterable(derived)),
                signing.end_of_overlap(stored.former_seconds),
                len(derived[0]),
                stored.has_budgets,
            )

        super().__init__(read)


class AgentCache(ProjectCache[OrderedDict[str, RegisteredAgent]]):
    """The agents that runs were started with. An entry can be outdated until a notification
    arrives. Therefore, a run is accepted only if its agent still has the cached version."""

    def __init__(self, pool: AsyncEngine) -> None:
        self._pool = pool.execution_options(isolation_level="AUTOCOMMIT")

        async def make_empty(_: ProjectId) -> OrderedDict[str, RegisteredAgent]:
            return OrderedDict()

        super().__init__(make_empty)

    async def find(self, project_id: ProjectId, name: str) -> RegisteredAgent | None:
        """Return the agent, or None if it does not exist."""
        cached = await self.of(project_id)
        if (agent := cached.get(name)) is not None:
            return agent
        async with self._pool.connect() as tx:
            agent = await agents.get_agent(tx, project_id, name)
        if agent is not None:  # If the project has changed meanwhile, `cached` is no longer used.
            cached[name] = agent
            while len(cached) > MAX_AGENTS:
                cached.popitem(last=False)
        return agent
