"""A poll, once a second, for changes whose notifications were lost."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from runward.store.live import changes
from runward.store.live.changes import SeenVersion
from runward.store.postgres.db import DATABASE_ERRORS, Database, Tx, is_outage, log_fields

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 1.0
KEPT_SECONDS: Final = 60.0
"""Seconds for which a project is polled after `carry` last named it."""
MAX_PROJECTS: Final = 256
"""Maximum number of polled projects, in addition to the projects of executed runs."""
MAX_SHARE: Final = 0.1
"""Share of the time that polling may take. Projects with more tools and agents take longer."""


@dataclass(slots=True)
class _Project:
    used_at: float
    mark: str | None = None


class ChangeWatch:
    """Polls for changes. `carried` returns the runs that the worker executes. `on_run` and
    `on_project` are called for each change, and sometimes without a change. `on_new` is called for
    a project that was not polled before, which may have changed."""

    def __init__(
        self,
        database: Database,
        *,
        carried: Callable[[], Sequence[SeenVersion]],
        on_run: Callable[[UUID], None],
        on_project: Callable[[UUID], None],
        on_new: Callable[[UUID], None],
    ) -> None:
        self._database = database
        self._carried = carried
        self._on_run = on_run
        self._on_project = on_project
        self._on_new = on_new
        self._projects: OrderedDict[UUID, _Project] = OrderedDict()
        """Ordered by the time of the last `carry`, latest last."""
        self._rests_until = 0.0

    def carry(self, project_id: UUID) -> None:
        """Poll the project, because the worker executes one of its runs or the API accepted one of
        its clients. If the project was not polled before, report a change, because this process may
        have outdated data."""
        if project_id not in self._projects:
            self._on_new(project_id)
            self._projects[project_id] = _Project(_now())
        self._projects[project_id].used_at = _now()
        self._projects.move_to_end(project_id)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.look()
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("watch_failed", **log_fields(error))

    async def look(self) -> None:
        began, known = _now(), self._carried()
        for one in known:
            self.carry(one.project_id)
        self._drop_idle(began)
        if not self._projects:
            return
        async with self._database.autocommit.connect() as tx:
            for run_id in await changes.find_changed_runs(tx, known):
                self._on_run(run_id)
            if self._rests_until <= _now():
                await self._look_at_projects(tx)

    async def _look_at_projects(self, tx: Tx) -> None:
        began = _now()
        try:
            marks = await changes.read_project_marks(tx, list(self._projects))
        finally:
            self._rests_until = _now() + (_now() - began) / MAX_SHARE
        for project_id, mark in marks.items():
            project = self._projects.get(project_id)
            if project is not None and project.mark != mark:
                tell = self._on_new if project.mark is None else self._on_project
                project.mark = mark
                tell(project_id)

    def _drop_idle(self, began: float) -> None:
        """Stop polling idle projects. `began`: the start of this poll, which has called `carry` for
        all active projects."""
        for project_id, project in list(self._projects.items()):
            if project.used_at >= began:
                return
            if len(self._projects) > MAX_PROJECTS or project.used_at < began - KEPT_SECONDS:
                del self._projects[project_id]


def _now() -> float:
    return asyncio.get_running_loop().time()
