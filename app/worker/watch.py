"""Notifications get lost: once a second, look for the changes that they would have told of."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from app.store import changes
from app.store.changes import Known
from app.store.db import DATABASE_ERRORS, Database, is_outage, log_fields

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 1.0
MAX_PROJECTS: Final = 256
"""The projects that are looked at, those whose runs were carried last."""


class Watch:
    """`carried` returns the runs that the worker holds. `on_run` and `on_project` are told what
    has changed, and sometimes what has not."""

    def __init__(
        self,
        database: Database,
        *,
        carried: Callable[[], Sequence[Known]],
        on_run: Callable[[UUID], None],
        on_project: Callable[[UUID], None],
    ) -> None:
        self._database = database
        self._carried = carried
        self._on_run = on_run
        self._on_project = on_project
        self._marks: OrderedDict[UUID, str | None] = OrderedDict()

    def carry(self, project_id: UUID) -> None:
        """A run of the project is about to be carried. Whatever this process has kept of a project
        that it did not look at may be out of date."""
        if project_id not in self._marks:
            self._on_project(project_id)
            self._marks[project_id] = None
            if len(self._marks) > MAX_PROJECTS:
                self._marks.popitem(last=False)
        self._marks.move_to_end(project_id)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            try:
                await self.look()
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("watch_failed", **log_fields(error))

    async def look(self) -> None:
        projects = list(self._marks)
        if not projects:
            return
        async with self._database.autocommit.connect() as tx:
            for run_id in await changes.changed_runs(tx, self._carried()):
                self._on_run(run_id)
            marks = await changes.marks(tx, projects)
        for project_id, mark in marks.items():
            if self._marks.get(project_id, mark) != mark:
                self._marks[project_id] = mark
                self._on_project(project_id)
