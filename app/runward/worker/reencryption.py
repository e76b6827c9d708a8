"""Encrypt stored values again after the data key has changed, a few batches at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import structlog

from runward.store.data_keys import reencryption
from runward.store.data_keys.key_ring import KeyRing
from runward.store.data_keys.reencryption import TABLES, Batch
from runward.store.postgres.db import Database, is_outage, read_clock

log = structlog.get_logger()

STEP: Final = 10
"""Maximum number of batches of a step."""
PASS_EVERY: Final = 60
"""Number of steps between two passes. A pass leaves locked rows and later writes to the next."""


@dataclass(slots=True)
class _Pass:
    began: datetime
    table: int = 0
    after: tuple[Any, ...] | None = None
    encrypted: int = 0
    unreadable: int = 0
    failed: bool = False
    complete: bool = False


class Reencryption:
    """Encrypts values again in passes over all tables, as long as an older data key may have
    encrypted some. The rows themselves show the progress, so that any number of workers can do this
    at once, and a worker that is lost leaves nothing to repair."""

    def __init__(self, database: Database, key_ring: KeyRing) -> None:
        self._database = database
        self._key_ring = key_ring
        self._pass: _Pass | None = None
        self._steps_to_rest = 0

    async def step(self) -> None:
        """Encrypt the next batches again. The sweep calls this once a second."""
        if not self._key_ring.has_outdated:
            self._pass, self._steps_to_rest = None, 0
        elif self._steps_to_rest:
            self._steps_to_rest -= 1
        else:
            self._pass = self._pass or await self._begin()
            for _ in range(STEP):
                if await self._advance(self._pass):
                    self._pass, self._steps_to_rest = None, PASS_EVERY
                    return

    async def run_pass(self) -> bool:
        """Process all tables now. Return whether the older data keys encrypt no values any more."""
        now = await self._begin()
        while not await self._advance(now):
            pass
        return now.complete

    async def _begin(self) -> _Pass:
        async with self._database.autocommit.connect() as tx:
            return _Pass(await read_clock(tx))

    async def _advance(self, now: _Pass) -> bool:
        """Process a batch. After the last one, end the pass and return True."""
        if now.table == len(TABLES):
            await self._finish(now)
            return True
        vault, table = self._key_ring.vault, TABLES[now.table]
        try:
            async with self._database.pool.begin() as tx:
                batch = await reencryption.reencrypt_batch(tx, vault, table, now.after)
        except Exception as error:
            if is_outage(error):
                raise
            # An error of one row must not end the process or the pass over other tables.
            log.exception("reencryption_failed", table=table.name)
            now.failed = True
            batch = Batch(0, 0, None)
        now.encrypted += batch.encrypted
        now.unreadable += batch.unreadable
        now.after = batch.last
        if batch.last is None:
            now.table += 1
        return False

    async def _finish(self, done: _Pass) -> None:
        async with self._database.pool.begin() as tx:
            done.complete = not done.failed and await reencryption.mark_drained(
                tx, self._key_ring.vault, done.began, done.unreadable
            )
        about = {"unreadable": done.unreadable, "complete": done.complete}
        log.info("values_encrypted_again", rows=done.encrypted, **about)
