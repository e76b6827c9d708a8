"""The models that each project may ask: those of the service's environment, or in their place those
that the project's own secrets reach."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final
from uuid import UUID

from app.domain.ids import ProjectId
from app.egress.targets import TargetError
from app.llm.catalog import OWN_NAMES, ModelCatalog, Models

MAX_KEPT: Final = 4096
"""Projects in memory."""


class ProjectModels:
    """`secrets` reads values by name; `check_url` raises TargetError for an address that may not be
    called."""

    def __init__(
        self,
        catalog: ModelCatalog,
        secrets: Callable[[ProjectId, Collection[str]], Awaitable[Mapping[str, str]]],
        check_url: Callable[[str], Awaitable[None]],
    ) -> None:
        self._catalog = catalog
        self._secrets = secrets
        self._check_url = check_url
        self._kept: OrderedDict[UUID, Models] = OrderedDict()
        self._changes = 0

    async def of(self, project_id: ProjectId) -> Models:
        kept = self._kept.get(project_id)
        if kept is not None:
            return kept
        changes = self._changes
        own = await self._secrets(project_id, OWN_NAMES)
        models = self._catalog.of(own, await self._why_not(own.get("OPENAI_BASE_URL")))
        if changes == self._changes:  # else it may be what was just forgotten
            self._kept[project_id] = models
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return models

    async def _why_not(self, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            await self._check_url(url)
        except TargetError as error:
            return f"the project's OPENAI_BASE_URL {error}"
        return None

    def forget(self, project_id: UUID | None) -> None:
        """Something about the project, maybe a secret, changed; None: about any project."""
        self._changes += 1
        if project_id is None:
            self._kept.clear()
        else:
            self._kept.pop(project_id, None)
