"""Liveness, readiness and metrics of a process. An API process serves them on its port, and a
worker on a port of its own."""

import asyncio
from typing import Final, Literal

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import DBAPIError

from runward.api.exposition import render_metrics
from runward.api.http.dependencies import LiveDep, RunQueueDep, StorageDep
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.store import readiness
from runward.store.postgres.db import DATABASE_ERRORS, READ_ONLY, is_outage, sqlstate


class Liveness(ResponseModel):
    """The process is alive."""

    model_config = with_example(status="ok")

    status: Literal["ok"]


class Readiness(ResponseModel):
    """The process is ready for requests."""

    model_config = with_example(status="ready")

    status: Literal["ready"]


READY_SECONDS: Final = 5.0
_WORKER_FAILED: Final = "A task of the worker has ended unexpectedly, so this process is stopping."

routes: APIRouter = make_router("Service", prefix="")


@routes.get("/livez", summary="Check liveness")
async def check_liveness(queue: RunQueueDep) -> Liveness:
    """Check that the process is alive. If a task of the process's worker has ended unexpectedly,
    Runward responds with 503. If the event loop is blocked, there is no response."""
    if queue.has_failed():
        raise e.UnavailableError(_WORKER_FAILED)
    return Liveness(status="ok")


@routes.get("/readyz", summary="Check readiness")
async def check_readiness(storage: StorageDep, live: LiveDep, queue: RunQueueDep) -> Readiness:
    """Check that an API process is ready for requests, or that a worker can claim runs. The process
    is ready if it is not stopping, its database accepts writes, the database schema is current or
    newer, and its secret key belongs to the database. Otherwise, Runward responds with 503."""
    if queue.has_failed():
        raise e.UnavailableError(_WORKER_FAILED)
    if live.is_stopping():
        raise e.UnavailableError("This process is shutting down. Retry the request.", retry_after=1)
    try:
        async with storage.connect() as tx, asyncio.timeout(READY_SECONDS):
            await readiness.check_database(tx, storage.vault)
    except e.OperatorError as error:
        raise e.UnavailableError(str(error), retry_after=1) from error
    except DATABASE_ERRORS as error:
        if not is_outage(error):
            raise
        raise e.UnavailableError(_describe_outage(error), retry_after=1) from error
    return Readiness(status="ready")


def _describe_outage(error: Exception) -> str:
    if isinstance(error, DBAPIError) and sqlstate(error) == READ_ONLY:
        return "The database does not accept writes, because it is a standby or read-only."
    return "The database cannot be reached."


@routes.get(
    "/metrics",
    response_class=PlainTextResponse,
    summary="Get metrics",
    response_description="Metrics in the Prometheus text format.",
)
async def get_metrics(storage: StorageDep) -> Response:
    """Get metrics in the Prometheus text format: those of this process, and gauges of the whole
    deployment, which all processes return. No API key is required, so allow only Prometheus to send
    this request. The metrics contain the names of agents, tools and models of all projects."""
    return Response(render_metrics(await storage.read_backlog()), media_type=CONTENT_TYPE_LATEST)
