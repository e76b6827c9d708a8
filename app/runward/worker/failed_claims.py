"""Give back the runs that failed claims may have leased."""

import asyncio
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from runward.services import Storage
from runward.store.postgres.db import DATABASE_ERRORS, log_fields
from runward.store.runs import failed_claims

log = structlog.get_logger()

LAST_TRIES: Final = 3
"""Attempts to give claims back when the worker ends."""
LAST_SECONDS: Final = 1.0
"""Timeout of each of these attempts."""


class FailedClaims:
    """PostgreSQL can commit a claim whose statement failed here, so this searches for its runs
    until their leases expire."""

    def __init__(self, storage: Storage, lease: timedelta) -> None:
        self._storage = storage
        self._lease = lease
        self._marks: dict[UUID, float] = {}
        """For each claim, the time at which its leases expire, on the event loop's clock."""

    def add(self, mark: UUID) -> None:
        now = asyncio.get_running_loop().time()
        self._marks[mark] = now + self._lease.total_seconds()

    async def give_back(self) -> int:
        """Return how many runs were given back."""
        if not self._marks:
            return 0
        marks, now = dict(self._marks), asyncio.get_running_loop().time()
        async with self._storage.connect() as tx:
            given = await failed_claims.return_claims(tx, list(marks))
        if given:
            log.info("claims_given_back", runs=len(given))
        self._marks = {mark: until for mark, until in marks.items() if until > now}
        return len(given)

    async def give_back_last(self) -> None:
        """Give the runs back before the worker ends. If `LAST_TRIES` attempts fail, the leases
        expire."""
        for _ in range(LAST_TRIES):
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    if not self._marks or await self.give_back():
                        return
            except DATABASE_ERRORS as error:
                log.warning("give_back_failed", **log_fields(error))
            await asyncio.sleep(LAST_SECONDS / LAST_TRIES)
