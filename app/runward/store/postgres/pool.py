"""A connection pool that closes the connections that it no longer needs."""

from time import perf_counter
from typing import Any, Final

from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry

from runward.metrics.definitions import POOL_WAIT_SECONDS

MAX_IDLE: Final = 4
"""Maximum number of idle connections after a quiet interval. With the connections of the two
writers, the listener and the leases, an idle process has at most eight."""


class ShrinkingPool(AsyncAdaptedQueuePool):
    """A pool that grows to its size under load. `close_surplus` shrinks it again."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._peak = 0
        """Maximum number of connections in use at once since the last `close_surplus`."""

    def _do_get(self) -> ConnectionPoolEntry:
        began = perf_counter()
        entry = super()._do_get()
        POOL_WAIT_SECONDS.observe(perf_counter() - began)
        self._peak = max(self._peak, self.checkedout())
        return entry

    def close_surplus(self) -> None:
        """Close the idle connections that were not needed since the last call, except for
        `MAX_IDLE`. Must run in a greenlet of SQLAlchemy, on a connection of this pool."""
        in_use = self.checkedout()
        keep = max(MAX_IDLE - 1, self._peak - in_use)  # the caller returns one more connection
        self._peak = in_use
        while self.checkedin() > keep:
            self._pool.get(block=False).close()
            self._dec_overflow()
