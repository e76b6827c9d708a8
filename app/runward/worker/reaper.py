"""Once a second: what time has made due. Any number of workers may sweep at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import Final, Literal, TypeAlias, TypeVar, cast
from uuid import UUID

import structlog

from runward.domain.errors import AppError, RunUnreadableError
from runward.domain.ids import Prefix, format_id
from runward.domain.run.abandoned import AbandonedCall, Closed
from runward.store.access.vault import Vault
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    Database,
    Tx,
    is_outage,
    is_statement_timeout,
    log_fields,
)
from runward.store.runs import sessions, sweep, transitions
from runward.store.runs.quarantine import Quarantine
from runward.store.runs.sweep import DueAnswer

log = structlog.get_logger()
T = TypeVar("T")
D = TypeVar("D", bound=Hashable)
SweepKind: TypeAlias = Literal["crash_loop", "approval", "callback", "result", "deadline", "orphan"]

INTERVAL_SECONDS: Final = 1.0
KEYS_EVERY: Final = 600
"""Sweeps between two looks for old idempotency keys."""
RETRY_EVERY: Final = 60
"""Sweeps between two tries at a row that could not be settled."""


class Reaper:
    """`enqueue_notices` hears what has been settled without the tool's answer, once that is
    committed."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        quarantine: Quarantine,
        lease: timedelta,
        enqueue_notices: Callable[[Iterable[AbandonedCall]], None],
    ) -> None:
        self._database = database
        self._vault = vault
        self._quarantine = quarantine
        self._lease = lease
        self._tell = enqueue_notices
        self._sweeps = random.randrange(KEYS_EVERY)  # noqa: S311  # workers take turns
        self._failed: dict[SweepKind, dict[Hashable, int]] = {}
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
        kinds: tuple[Callable[[], Awaitable[bool]], ...] = (
            self._free_leases,
            self._end_crash_loops,
            lambda: self._each(
                "approval",
                sweep.list_due_approvals,
                lambda tx, due: transitions.expire_approval(tx, *due),
            ),
            lambda: self._each("callback", sweep.list_due_callbacks, self._expire_answer),
            lambda: self._each("result", sweep.list_due_results, self._expire_answer),
            lambda: self._each(
                "deadline",
                sweep.list_due_deadlines,
                lambda tx, due: transitions.expire_run(tx, *due),
            ),
            lambda: self._each(
                "orphan",
                sweep.list_orphans,
                lambda tx, due: transitions.cancel_descendants(tx, *due),
            ),
            self._wake_stranded,
        )
        return any([await self._past_timeouts(kind) for kind in kinds])

    async def _past_timeouts(self, kind: Callable[[], Awaitable[bool]]) -> bool:
        """False also if PostgreSQL gave up: that must not keep the other kinds waiting."""
        try:
            return await kind()
        except DATABASE_ERRORS as error:
            if not is_statement_timeout(error):
                raise
            log.warning("sweep_failed", **log_fields(error))
            return False

    async def _free_leases(self) -> bool:
        freed = await self._alone(sweep.free_expired_leases)
        if freed:
            log.info("leases_expired", runs=len(freed))
        return len(freed) == sweep.BATCH

    async def _end_crash_loops(self) -> bool:
        return await self._each(
            "crash_loop",
            lambda tx, limit: sweep.list_crash_loops(tx, self._lease, limit),
            lambda tx, due: transitions.quarantine(tx, *due),
        )

    async def _wake_stranded(self) -> bool:
        return await self._alone(sessions.wake_stranded) == sessions.BATCH

    async def _expire_answer(self, tx: Tx, due: DueAnswer) -> Closed | None:
        return await transitions.expire_callback(
            tx, self._vault, due.project_id, due.run_id, due.call_id
        )

    async def drop_old_keys(self) -> None:
        while await self._alone(sweep.delete_expired_idempotency_keys) == sweep.BATCH:
            pass

    async def _each(
        self,
        kind: SweepKind,
        find: Callable[[Tx, int], Awaitable[Sequence[D]]],
        settle: Callable[[Tx, D], Awaitable[Closed | None]],
    ) -> bool:
        """Settle a batch, and after it the rows that failed before. True: the batch was full, and
        not all of it was in vain."""
        failed = self._failed.get(kind, {})
        limit = sweep.BATCH + len(failed)
        found = await self._alone(lambda tx: find(tx, limit))
        failed = self._failed[kind] = {due: failed[due] for due in found if due in failed}
        settled = 0
        for due in sorted(found, key=failed.__contains__):
            if failed.get(due, 0) > self._sweeps:
                continue
            try:
                settled += await self._settle(settle, due)
            except AppError as error:  # the run is gone
                log.info("sweep_skipped", code=error.code)
            except Exception as error:
                if is_outage(error) and not is_statement_timeout(error):
                    raise
                # One row must end neither the process nor the sweep of the others.
                failed[due] = self._sweeps + RETRY_EVERY
                log.exception("sweep_failed", due=_describe_due(kind, due), failed=len(failed))
                if is_outage(error):
                    break  # others may take as long: the next sweep begins with them
        return len(found) == limit and settled > 0

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


def _describe_due(kind: SweepKind, due: object) -> str:
    """The run or approval, as the API shows its id."""
    if isinstance(due, DueAnswer):
        return f"{format_id(Prefix.RUN, due.run_id)} {due.call_id}"
    _, id_ = cast("tuple[UUID, UUID]", due)
    return format_id(Prefix.APPROVAL if kind == "approval" else Prefix.RUN, id_)
