"""Store the worker's heartbeat, so that operators can list the workers.

The event loop sends the heartbeat, so a blocked loop sends none. Leases do not depend on it."""

import asyncio
import socket
from typing import Any, Final

import structlog

from runward.store import workers
from runward.store.postgres.db import DATABASE_ERRORS, is_outage, log_fields, mint
from runward.store.postgres.engine import AsyncEngine
from runward.worker.main import Worker

log = structlog.get_logger()

END_SECONDS: Final = 2.0
"""Maximum time for which the end of a worker waits for the database."""


class Presence:
    """The row of a worker in the table of workers."""

    def __init__(self, autocommit: AsyncEngine, worker: Worker, version: str) -> None:
        self._autocommit = autocommit
        self._worker = worker
        self._row: dict[str, Any] = {
            "id": mint(),
            "version": version,
            "host": socket.gethostname(),
            "concurrency": worker.concurrency,
        }

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            try:
                async with self._autocommit.connect() as tx:
                    await workers.store_heartbeat(tx, self._row, runs=len(self._worker.executions))
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
                log.warning("presence_failed", **log_fields(error))
            await asyncio.sleep(workers.HEARTBEAT.total_seconds())

    async def end(self) -> None:
        """Delete the row. If the database is unavailable, the row remains, and becomes outdated."""
        try:
            async with asyncio.timeout(END_SECONDS), self._autocommit.connect() as tx:
                await workers.delete_worker(tx, self._row["id"])
        except DATABASE_ERRORS as error:
            log.warning("presence_failed", **log_fields(error))
