"""Is the process alive, can it serve, what can it do, and how is it doing."""

import asyncio
from typing import Final, Literal, get_args

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy.exc import DBAPIError

from runward.api.http.auth import AnyKey
from runward.api.http.dependencies import LiveDep, RegistryDep, StorageDep
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.api.openapi.descriptions import VERSION
from runward.domain import errors as e
from runward.domain.registry.guards import Moment, RunStage, ToolStage
from runward.domain.registry.scopes import Scope
from runward.domain.run.builtins import BUILTINS
from runward.domain.run.config import AgentKind
from runward.store import readiness
from runward.store.postgres.db import DATABASE_ERRORS, READ_ONLY, is_outage, sqlstate


class Alive(ResponseModel):
    """The process answers."""

    model_config = with_example(status="ok")

    status: Literal["ok"]


class Ready(ResponseModel):
    """The process can serve."""

    model_config = with_example(status="ready")

    status: Literal["ready"]


class LoadedPlugins(ResponseModel):
    """The functions of plugins that the process that answers has loaded."""

    tools: list[str]
    """Their tools, by name."""
    guardrails: list[str]
    """Their guardrails, by name."""
    hooks: list[str]
    """Their hooks, by name."""


class McpAbilities(ResponseModel):
    """What can be done with MCP servers."""

    installed: bool
    """Whether the SDK is there."""
    commands: list[str]
    """Which commands the operator allows."""


class ModelAbilities(ResponseModel):
    """What the models of a vendor know."""

    hosted: list[str]
    """Kinds of tools that the vendor runs."""
    executors: list[str]
    """Kinds of the vendor's own tools that a webhook or plugin can carry out."""


class Capabilities(ResponseModel):
    """What this installation can do."""

    model_config = with_example(
        version="0.1.0",
        tool_types=["agent", "builtin", "client", "handoff", "hosted", "plugin", "webhook"],
        builtin_tools=["search_tools"],
        agent_kinds=["llm", "sequential", "parallel", "loop"],
        guardrail_stages=["pre_approval", "input", "output", "run_input", "run_output"],
        hooks=["before_model", "after_model", "before_tool", "after_tool"],
        plugins={"tools": [], "guardrails": [], "hooks": []},
        mcp={"installed": False, "commands": []},
        model_vendors=["offline", "openai"],
        models={
            "offline": {"hosted": [], "executors": []},
            "openai": {"hosted": [], "executors": []},
        },
        responses_api=True,
        scopes=["runs:read", "runs:write"],
    )

    object: Literal["capabilities"] = "capabilities"
    version: str
    """Runward's."""
    tool_types: list[str]
    """How tools can be executed."""
    builtin_tools: list[str]
    """Tools that are always there, by name."""
    agent_kinds: list[AgentKind]
    """What agents can do."""
    guardrail_stages: list[ToolStage | RunStage]
    """When guardrails can be asked."""
    hooks: list[Moment]
    """What hooks can stand before or after."""
    plugins: LoadedPlugins
    """Of the process that answers."""
    mcp: McpAbilities
    """What can be done with MCP servers."""
    model_vendors: list[str]
    """What stands before the colon in the names of models."""
    models: dict[str, ModelAbilities]
    """What the models of each vendor know."""
    responses_api: bool
    """Whether /v1/responses is there."""
    scopes: list[Scope]
    """What the key that asks may do."""


READY_SECONDS: Final = 5.0

probes: APIRouter = make_router("Service", prefix="")
routes: APIRouter = make_router("Service")


@probes.get("/healthz", summary="Is the process alive?")
async def healthz() -> Alive:
    """The process answers."""
    return Alive(status="ok")


@probes.get("/readyz", summary="Can the process serve?")
async def readyz(storage: StorageDep, live: LiveDep) -> Ready:
    """The process can serve: it is not stopping, the database answers and takes writes, its schema
    is this version's or a newer one's, and the secret key is its own. Otherwise 503."""
    if live.is_stopping():
        raise e.UnavailableError("This process is stopping.", retry_after=1)
    try:
        async with storage.read() as tx, asyncio.timeout(READY_SECONDS):
            await readiness.check_database(tx, storage.vault)
    except e.OperatorError as error:
        raise e.UnavailableError(str(error), retry_after=1) from error
    except DATABASE_ERRORS as error:
        if not is_outage(error):
            raise
        raise e.UnavailableError(_describe_outage(error), retry_after=1) from error
    return Ready(status="ready")


def _describe_outage(error: Exception) -> str:
    if isinstance(error, DBAPIError) and sqlstate(error) == READ_ONLY:
        return "The database does not accept writes: it is a standby, or set read-only."
    return "The database cannot be reached."


@probes.get("/metrics", response_class=PlainTextResponse, summary="Show Prometheus' metrics")
async def metrics() -> Response:
    """Prometheus' text format."""
    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


@routes.get("/capabilities", summary="Show what this installation can do")
async def capabilities(principal: AnyKey, registry: RegistryDep) -> Capabilities:
    """What this installation can do. `plugins` are those of the process that answers."""
    plugins, mcp = registry.plugins, registry.mcp
    abilities = (await registry.get_models(principal.project_id)).abilities()
    return Capabilities(
        version=VERSION,
        tool_types=sorted(registry.executors),
        builtin_tools=sorted(BUILTINS),
        agent_kinds=list(get_args(AgentKind)),
        guardrail_stages=[*get_args(ToolStage), *get_args(RunStage)],
        hooks=list(get_args(Moment)),
        plugins=LoadedPlugins(
            tools=sorted(spec.name for spec in plugins.specs),
            guardrails=sorted(plugins.guardrail_names),
            hooks=sorted(plugins.hook_names),
        ),
        mcp=McpAbilities(installed="mcp" in registry.executors, commands=sorted(mcp.commands)),
        model_vendors=[*abilities],
        models={
            provider: ModelAbilities(hosted=sorted(can.hosted), executors=sorted(can.executors))
            for provider, can in abilities.items()
        },
        responses_api=True,
        scopes=sorted(principal.scopes),
    )
