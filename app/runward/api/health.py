"""Is the process alive, can it serve, what can it do, and how is it doing."""

import asyncio
from typing import Final, get_args

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import DBAPIError

from runward.api.http.answers import json_response
from runward.api.http.auth import AnyKey
from runward.api.http.routes import make_router
from runward.api.http.services import ServicesDep
from runward.api.openapi.descriptions import VERSION
from runward.api.service_models import Alive, Capabilities, Ready
from runward.domain import errors as e
from runward.domain.registry.guards import Moment, RunStage, ToolStage
from runward.domain.run.builtins import BUILTINS
from runward.domain.run.config import AgentKind
from runward.store import readiness
from runward.store.postgres.db import DATABASE_ERRORS, READ_ONLY, is_outage, sqlstate

READY_SECONDS: Final = 5.0

probes: APIRouter = make_router("Service", prefix="")
routes: APIRouter = make_router("Service")


@probes.get("/healthz", response_model=Alive)
async def healthz() -> Response:
    """The process answers."""
    return json_response({"status": "ok"})


@probes.get("/readyz", response_model=Ready)
async def readyz(services: ServicesDep) -> Response:
    """The process can serve: it is not stopping, the database answers and takes writes, its schema
    is this version's or a newer one's, and the secret key is its own. Otherwise 503."""
    if services.stopping.is_set():
        raise e.UnavailableError("This process is stopping.", retry_after=1)
    try:
        async with services.autocommit.connect() as tx, asyncio.timeout(READY_SECONDS):
            await readiness.check_database(tx, services.vault)
    except e.OperatorError as error:
        raise e.UnavailableError(str(error), retry_after=1) from error
    except DATABASE_ERRORS as error:
        if not is_outage(error):
            raise
        raise e.UnavailableError(_describe_outage(error), retry_after=1) from error
    return json_response({"status": "ready"})


def _describe_outage(error: Exception) -> str:
    if isinstance(error, DBAPIError) and sqlstate(error) == READ_ONLY:
        return "The database does not accept writes: it is a standby, or set read-only."
    return "The database cannot be reached."


@probes.get("/metrics", response_class=PlainTextResponse)
async def metrics() -> Response:
    """Prometheus' text format."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


@routes.get("/capabilities", response_model=Capabilities)
async def capabilities(principal: AnyKey, services: ServicesDep) -> Response:
    """What this installation can do. `plugins` are those of the process that answers."""
    plugins = services.plugins
    abilities = (await services.engine.models.of(principal.project_id)).abilities()
    return json_response(
        {
            "object": "capabilities",
            "version": VERSION,
            "tool_types": sorted(services.engine.executors),
            "builtin_tools": sorted(BUILTINS),
            "agent_kinds": list(get_args(AgentKind)),
            "guardrail_stages": [*get_args(ToolStage), *get_args(RunStage)],
            "hooks": list(get_args(Moment)),
            "plugins": {
                "tools": sorted(spec.name for spec in plugins.specs),
                "guardrails": sorted(plugins.guardrail_names),
                "hooks": sorted(plugins.hook_names),
            },
            "mcp": {
                "installed": "mcp" in services.engine.executors,
                "commands": sorted(services.mcp.commands),
            },
            "model_vendors": [*abilities],
            "models": {
                provider: {"hosted": sorted(can.hosted), "executors": sorted(can.executors)}
                for provider, can in abilities.items()
            },
            "responses_api": True,
            "scopes": sorted(principal.scopes),
        }
    )
