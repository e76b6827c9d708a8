"""Once a second: what time has made due. Any number of workers may sweep at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import Final, TypeVar, cast
from uuid import UUID

import structlog

from app.domain.abandoned import Abandoned, Closed
from app.domain.errors import AppError, RunUnreadableError
from app.domain.ids import Prefix, show
from app.store import outside, sessions, sweep
from app.store.db import DATABASE_ERRORS, Database, Tx, is_outage, log_fields
from app.store.quarantine import Quarantine
from app.store.sweep import DueAnswer
from app.store.vault import Vault

log = structlog.get_logger()
T = TypeVar("T")
D = TypeVar("D", bound=Hashable)

INTERVAL_SECONDS: Final = 1.0
KEYS_EVERY: Final = 600
"""Sweeps between two looks for old idempotency keys."""
RETRY_EVERY: Final = 60
"""Sweeps between two tries at a row that could not be settled."""


class Reaper:
    """`tell` hears what has been settled without the tool's answer, once that is committed."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        quarantine: Quarantine,
        lease: timedelta,
        tell: Callable[[Iterable[Abandoned]], None],
    ) -> None:
        self._database = database
        self._vault = vault
        self._quarantine = quarantine
        self._lease = lease
        self._tell = tell
        self._sweeps = random.randrange(KEYS_EVERY)  # noqa: S311  # workers take turns
        self._failed: dict[Hashable, int] = {}
        """Rows that could not be settled, and the sweep in which to try again."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._sweeps += 1
            try:
                while await self.sweep():
                    pass
                if self._sweeps % KEYS_EVERY == 0:
                    await self.drop_old_keys()
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("sweep_failed", **log_fields(error))
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311

    async def sweep(self) -> bool:
        """A batch of each kind; each row in a transaction of its own, so that none holds another.
        True: there is more to do at once."""
        freed = await self._alone(sweep.free_expired_leases)
        if freed:
            log.info("leases_expired", runs=len(freed))
        return any(
            [
                len(freed) == sweep.BATCH,
                await self._each(
                    lambda tx: sweep.crash_loops(tx, self._lease),
                    lambda tx, due: outside.quarantine(tx, *due),
                ),
                await self._each(
                    sweep.due_approvals, lambda tx, due: outside.expire_approval(tx, *due)
                ),
                await self._each(sweep.due_callbacks, self._expire_answer),
                await self._each(sweep.due_results, self._expire_answer),
                await self._each(sweep.due_deadlines, lambda tx, due: outside.expire_run(tx, *due)),
                await self._each(sweep.orphans, lambda tx, due: outside.cancel_below(tx, *due)),
                await self._alone(sessions.wake_stranded) == sessions.BATCH,
            ]
        )

    async def _expire_answer(self, tx: Tx, due: DueAnswer) -> Closed | None:
        return await outside.expire_callback(
            tx, self._vault, due.project_id, due.run_id, due.call_id
        )

    async def drop_old_keys(self) -> None:
        while await self._alone(sweep.drop_old_idempotency_keys) == sweep.BATCH:
            pass

    async def _each(
        self,
        find: Callable[[Tx], Awaitable[Sequence[D]]],
        settle: Callable[[Tx, D], Awaitable[Closed | None]],
    ) -> bool:
        """True: the batch was full, and not all of it was in vain."""
        found = await self._alone(find)
        settled = 0
        for due in found:
            if self._failed.get(due, 0) > self._sweeps:
                continue
            try:
                settled += await self._settle(settle, due)
            except AppError as error:  # the run is gone
                log.info("sweep_skipped", code=error.code)
            except Exception as error:
                if is_outage(error):
                    raise
                # One row must end neither the process nor the sweep of the others.
                self._failed = {k: n for k, n in self._failed.items() if n > self._sweeps}
                self._failed[due] = self._sweeps + RETRY_EVERY
                log.exception("sweep_failed", due=_shown(find, due), failed=len(self._failed))
        return len(found) == sweep.BATCH and settled > 0

    async def _settle(self, settle: Callable[[Tx, D], Awaitable[Closed | None]], due: D) -> bool:
        """Return whether there was anything to settle. End a run that cannot be read."""
        try:
            closed = await self._alone(lambda tx: settle(tx, due))
        except RunUnreadableError as error:
            await self._quarantine.end(error.project_id, error.run_id)
            return True
        if closed is not None:
            self._tell(closed.abandoned)
        return closed is not None

    async def _alone(self, act: Callable[[Tx], Awaitable[T]]) -> T:
        async with self._database.pool.begin() as tx:
            return await act(tx)


def _shown(find: object, due: object) -> str:
    """The run or approval, as the API shows its id."""
    if isinstance(due, DueAnswer):
        return f"{show(Prefix.RUN, due.run_id)} {due.call_id}"
    _, id_ = cast("tuple[UUID, UUID]", due)
    return show(Prefix.APPROVAL if find is sweep.due_approvals else Prefix.RUN, id_)
