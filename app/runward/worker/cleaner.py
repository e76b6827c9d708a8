"""Remove data whose retention has passed, a few batches at a time."""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from runward.domain.ids import Prefix, ProjectId, format_id
from runward.domain.retention import DataClass, FixedClass, RetentionLimits
from runward.metrics.definitions import BACKGROUND_FAILURES, REMOVED_ROWS
from runward.store.postgres.db import Database, Tx, is_outage
from runward.store.retention import cleaner
from runward.store.retention.cleaner import Removed
from runward.store.runs import sweep
from runward.store.schedules import slots

log = structlog.get_logger()
_Work = tuple[ProjectId, DataClass] | FixedClass

_DELETE_FIXED: Final[Mapping[FixedClass, tuple[Callable[[Tx], Awaitable[int]], int]]] = {
    FixedClass.IDEMPOTENCY_KEYS: (sweep.delete_expired_idempotency_keys, sweep.KEYS_BATCH),
    FixedClass.SCHEDULE_SLOTS: (slots.delete_old, slots.OLD_BATCH),
}
"""For each class, the function that deletes a batch, and its maximum size."""
STEP: Final = 2
"""Maximum number of batches of a step that remove something."""
STEP_ALL: Final = 100
"""Maximum number of all batches of a step."""


class Cleaner:
    """Removes data in passes over all projects. The sweep calls `step` once a second, so that
    other duties do not wait for the end of a pass."""

    def __init__(self, database: Database, limits: RetentionLimits) -> None:
        self._database = database
        self._limits = limits
        self._work: deque[_Work] = deque()
        """What this pass still has to check."""

    @property
    def is_done(self) -> bool:
        return not self._work

    async def begin(self) -> None:
        """Begin the next pass."""
        async with self._database.autocommit.connect() as tx:
            self._work = deque([*FixedClass, *await cleaner.list_work(tx, self._limits)])

    async def step(self) -> None:
        """Remove the next batches of the pass. The projects take turns."""
        removed = 0
        for _ in range(STEP_ALL):
            if self.is_done or removed == STEP:
                return
            work = self._work.popleft()
            found = await self._try_remove(work)
            if found.more:
                self._work.append(work)
            if found.rows:
                removed += 1
                about = _describe(work)
                REMOVED_ROWS.count(about["data_class"], by=found.rows)
                log.debug("data_removed", **about, rows=found.rows)

    async def _try_remove(self, work: _Work) -> Removed:
        """Remove a batch. An error of one project must not end the pass over the others."""
        try:
            return await self._remove(work)
        except Exception as error:
            if is_outage(error):
                raise
            BACKGROUND_FAILURES.count("clean")
            log.exception("removal_failed", **_describe(work))
            return Removed()

    async def _remove(self, work: _Work) -> Removed:
        async with self._database.pool.begin() as tx:
            if not isinstance(work, FixedClass):
                return await cleaner.remove_batch(tx, self._limits, *work)
            delete, batch = _DELETE_FIXED[work]
            rows = await delete(tx)
            return Removed(rows, more=rows == batch)


def _describe(work: _Work) -> dict[str, str]:
    if isinstance(work, FixedClass):
        return {"data_class": work}
    return {"project": format_id(Prefix.PROJECT, work[0]), "data_class": work[1]}
