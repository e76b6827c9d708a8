"""GET /v1/workers: the workers of the deployment."""

from datetime import datetime
from typing import Literal, Self

from runward.api.http.auth import Operator
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import EXAMPLE_TIME, ResponseModel, with_example
from runward.api.http.paging import Page, Pagination
from runward.api.http.routes import make_router
from runward.domain.ids import Prefix, format_id
from runward.store import workers
from runward.store.workers import WorkerRow

routes = make_router("Service")


class WorkerProcess(ResponseModel):
    """A worker process, as it was at its last heartbeat."""

    model_config = with_example(
        id="wrk_019a5f1e8c537e648f3a7d9cbc5f4e82",
        object="worker",
        version="0.1.0",
        host="runward-worker-7d9c",
        concurrency=256,
        runs=12,
        started_at=EXAMPLE_TIME,
        last_heartbeat_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the worker. A worker gets a new ID each time it starts."""
    object: Literal["worker"] = "worker"
    version: str
    """Version of Runward that the worker runs."""
    host: str
    """Host name of the worker's machine or container."""
    concurrency: int
    """Maximum number of runs that the worker executes at the same time."""
    runs: int
    """Number of runs that the worker executed at its last heartbeat."""
    started_at: datetime
    """When the worker started."""
    last_heartbeat_at: datetime
    """When the worker sent its last heartbeat. Workers send one every 10 seconds. If it is older
    than 30 seconds, the worker was lost or cannot reach the database."""

    @classmethod
    def from_row(cls, row: WorkerRow) -> Self:
        return cls.from_attributes(
            row, id=format_id(Prefix.WORKER, row.id), last_heartbeat_at=row.heartbeat_at
        )


@routes.get("/workers")
async def list_workers(
    principal: Operator, storage: StorageDep, pagination: Pagination
) -> Page[WorkerProcess]:
    """List the workers of the deployment. A worker that stops is removed from the list. A worker
    that was lost is removed after an hour."""
    async with storage.connect() as tx:
        found = await workers.list_workers(tx, **pagination.by_id(Prefix.WORKER))
    return pagination.page(found, WorkerProcess.from_row, lambda one: one.id)
