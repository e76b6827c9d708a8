"""Claims that failed: give back the runs that they may have leased."""

import asyncio
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from runward.services import Storage
from runward.store.postgres.db import DATABASE_ERRORS, log_fields
from runward.store.runs import claims

log = structlog.get_logger()

LAST_TRIES: Final = 3
"""As the worker ends."""
LAST_SECONDS: Final = 1.0
"""For each of them."""


class FailedClaims:
    """PostgreSQL may finish a claim after it has failed here, so its runs are looked for until
    their leases have run out."""

    def __init__(self, storage: Storage, lease: timedelta) -> None:
        self._storage = storage
        self._lease = lease
        self._marks: dict[UUID, float] = {}
        """And when the leases of each will have run out."""

    def add(self, mark: UUID) -> None:
        now = asyncio.get_running_loop().time()
        self._marks[mark] = now + self._lease.total_seconds()

    async def give_back(self) -> int:
        """Return how many runs were given back."""
        if not self._marks:
            return 0
        marks, now = dict(self._marks), asyncio.get_running_loop().time()
        async with self._storage.read() as tx:
            given = await claims.return_claims(tx, list(marks))
        if given:
            log.info("claims_given_back", runs=len(given))
        self._marks = {mark: until for mark, until in marks.items() if until > now}
        return len(given)

    async def give_back_last(self) -> None:
        """The same as the worker ends, but only for a moment: at worst the leases run out."""
        for _ in range(LAST_TRIES):
            try:
                async with asyncio.timeout(LAST_SECONDS):
                    if not self._marks or await self.give_back():
                        return
            except DATABASE_ERRORS as error:
                log.warning("give_back_failed", **log_fields(error))
            await asyncio.sleep(LAST_SECONDS / LAST_TRIES)
