"""The workers of the deployment. Each worker stores a heartbeat."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, select, text

from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, select_page
from runward.store.postgres.tables import workers

HEARTBEAT: Final = timedelta(seconds=10)
"""Time between two heartbeats of a worker."""
ALIVE: Final = 3 * HEARTBEAT
"""Age of the last heartbeat up to which a worker counts as alive."""
_KEPT: Final = timedelta(hours=1)
"""Age of the last heartbeat after which a worker that was lost is deleted."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker. `runs`: the number of runs that it executed at its last heartbeat."""

    id: UUID
    version: str
    host: str
    concurrency: int
    runs: int
    started_at: datetime
    heartbeat_at: datetime


_WORKER: Final = RowMapping(WorkerRow, workers)
_HEARTBEAT: Final = text(
    """
WITH lost AS (
  DELETE FROM workers WHERE heartbeat_at < clock_timestamp() - CAST(:kept AS interval)
    AND id <> :id
)
INSERT INTO workers (id, version, host, concurrency, runs)
VALUES (:id, :version, :host, :concurrency, :runs)
ON CONFLICT (id) DO UPDATE SET runs = excluded.runs, heartbeat_at = clock_timestamp()"""
)


async def store_heartbeat(tx: Tx, worker: Mapping[str, Any], *, runs: int) -> None:
    """Insert or update the worker, and delete the workers that were lost long ago. `worker`: its
    ID, version, host and concurrency."""
    await tx.execute(_HEARTBEAT, {**worker, "runs": runs, "kept": _KEPT})


async def delete_worker(tx: Tx, worker_id: UUID) -> None:
    await tx.execute(delete(workers).where(workers.c.id == worker_id))


async def list_workers(
    tx: Tx, *, after: UUID | None, limit: int, descending: bool
) -> list[WorkerRow]:
    query = select_page(
        select(workers), workers.c.id, after=after, limit=limit, descending=descending
    )
    return [_WORKER.read(row) for row in await tx.execute(query)]
