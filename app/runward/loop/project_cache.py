"""What is known of each project, read once and kept until something about the project changes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar
from uuid import UUID

from runward.domain.ids import ProjectId

MAX_KEPT: Final = 4096
"""Projects in memory."""

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
        if changes == self._changes:  # else it may be what was just forgotten
            self._kept[project_id] = found
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found

    def forget(self, project_id: UUID | None) -> None:
        """Something about the project changed; None: about any project."""
        self._changes += 1
        if project_id is None:
            self._kept.clear()
        else:
            self._kept.pop(project_id, None)
