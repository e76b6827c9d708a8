"""Tool versions ready for use, kept between runs: parsed and compiled once."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.ids import ProjectId
from app.domain.toolbox import Tool, compile_tool
from app.store import registry
from app.store.vault import Vault

MAX_KEPT: Final = 4096
"""Tool versions in memory."""


@dataclass(frozen=True, slots=True)
class Armed:
    """A tool and the secrets that sign its requests."""

    tool: Tool
    secrets: tuple[str, ...]


class Toolbox:
    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        self._pool = pool
        self._vault = vault
        self._kept: OrderedDict[tuple[UUID, str, int], Armed] = OrderedDict()

    async def fetch(
        self, project_id: ProjectId, wanted: Iterable[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Armed]:
        """By name and version; versions that do not exist are left out."""
        pairs = set(wanted)
        missing = [pair for pair in pairs if (project_id, *pair) not in self._kept]
        if missing:
            async with self._pool.connect() as tx:
                found = await registry.read_versions(tx, self._vault, project_id, missing)
            for one in found:
                armed = Armed(compile_tool(one.spec, one.version), one.secrets)
                self._kept[project_id, one.spec.name, one.version] = armed
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return {pair: self._kept[key] for pair in pairs if (key := (project_id, *pair)) in self._kept}

    def forget(self, project_id: UUID | None) -> None:
        """Something about the project's tools changed (a secret, say); None: of any project."""
        for key in [key for key in self._kept if project_id in (None, key[0])]:
            del self._kept[key]
