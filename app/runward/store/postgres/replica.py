"""Reads from a replica: a standby that replays the changes of the primary with a delay.

Only reads that may lag and that can be long use it. They use the primary instead if there is no
replica, if it lags, and if it fails. A failed replica is not tried again for some seconds."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Final, TypeVar

import structlog
from sqlalchemy import text

from runward.store.postgres.db import DATABASE_ERRORS, Database, Tx, log_fields, open_database
from runward.store.postgres.engine import AsyncEngine

log = structlog.get_logger()
T = TypeVar("T")

CONNECTIONS: Final = 4
"""Maximum number of connections of one process to the replica."""
MAX_LAG: Final = timedelta(seconds=30)
"""Maximum age of the data of a read. Workers commit heartbeats more often, so an idle primary does
not make a replica look older."""
CHECK_SECONDS: Final = 2.0
"""Maximum number of seconds to connect to the replica and to read its lag. If its network is cut,
it does not even refuse connections."""
RETRY_SECONDS: Final = 10.0
"""Seconds for which a replica that could not be used is not tried again."""
STALE: Final = f"It is no standby, or has replayed no commit of the last {MAX_LAG.seconds} seconds."
# NULL if the server is no standby, or has replayed no commit since its start.
LAG: Final = text(
    "SELECT CASE WHEN pg_is_in_recovery()"
    " THEN clock_timestamp() - pg_last_xact_replay_timestamp() END"
)


class ReplicaReader:
    """Reads from the replica, or from the primary. `replica`: None if there is none."""

    def __init__(self, primary: AsyncEngine, replica: AsyncEngine | None) -> None:
        self._primary = primary
        self._replica = replica
        self._retry_at = 0.0
        self._failed = False

    async def read(self, query: Callable[[Tx], Awaitable[T]]) -> T:
        """Return the result of a query that only reads. The query runs again on the primary if the
        replica fails."""
        if self._replica is not None and time.monotonic() >= self._retry_at:
            if self._failed:  # Only this read tries the replica again. The others do not wait.
                self._retry_at = time.monotonic() + RETRY_SECONDS
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(CHECK_SECONDS):
                        tx = await stack.enter_async_context(self._replica.connect())
                        current = await is_current(tx)
                    if current:
                        result = await query(tx)
                        self._report_use()
                        return result
                self._report_failure(reason=STALE)
            except DATABASE_ERRORS as error:
                self._report_failure(**log_fields(error))
        async with self._primary.connect() as tx:
            return await query(tx)

    def _report_use(self) -> None:
        if self._failed:
            log.info("replica_used_again")
        self._failed, self._retry_at = False, 0.0

    def _report_failure(self, **fields: object) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if not self._failed:
            log.warning("replica_not_used", **fields)
        self._failed = True


def open_replica(url: str, pool_size: int = CONNECTIONS) -> Database:
    """Raises DatabaseUrlError."""
    return open_database(url, pool_size=pool_size, name="RUNWARD_REPLICA_URL")


async def is_current(tx: Tx) -> bool:
    """Return whether the server is a standby that has replayed a recent commit."""
    lag = await tx.scalar(LAG)
    return lag is not None and lag <= MAX_LAG
