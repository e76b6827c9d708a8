"""Is the process alive, can it serve, what can it do, and how is it doing."""

from typing import get_args

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import text

from app.api.answers import answer
from app.api.auth import AnyKey
from app.api.descriptions import VERSION
from app.api.models.service import Alive, Capabilities, Ready
from app.api.routes import router
from app.api.services import Using
from app.domain import errors as e
from app.domain.agents import AgentKind
from app.domain.builtins import BUILTINS
from app.domain.guards import Moment, RunStage, ToolStage
from app.store.db import DATABASE_ERRORS, is_outage

probes: APIRouter = router("Service", prefix="")
routes: APIRouter = router("Service")


@probes.get("/healthz", response_model=Alive)
async def healthz() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@probes.get("/readyz", response_model=Ready)
async def readyz(services: Using) -> Response:
    """The process can serve: its database answers, and it is not stopping. Else 503."""
    if services.stopping.is_set():
        raise e.UnavailableError("This process is stopping.", retry_after=1)
    try:
        async with services.autocommit.connect() as tx:
            await tx.execute(text("SELECT 1"))
    except DATABASE_ERRORS as error:
        if not is_outage(error):
            raise
        raise e.UnavailableError("The database cannot be reached.", retry_after=1) from error
    return answer({"status": "ready"})


@probes.get("/metrics", response_class=PlainTextResponse)
async def metrics() -> Response:
    """Prometheus' text format."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


@routes.get("/capabilities", response_model=Capabilities)
async def capabilities(who: AnyKey, services: Using) -> Response:
    """What this installation can do. `plugins` are those of the process that answers."""
    plugins = services.plugins
    abilities = (await services.engine.models.of(who.project_id)).abilities()
    return answer(
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
                vendor: {"hosted": sorted(can.hosted), "executors": sorted(can.executors)}
                for vendor, can in abilities.items()
            },
            "responses_api": True,
            "scopes": sorted(who.scopes),
        }
    )
