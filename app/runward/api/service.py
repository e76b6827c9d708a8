"""The capabilities of the deployment."""

from typing import Literal, Self, get_args

from fastapi import APIRouter

from runward.api.http.auth import AnyKey
from runward.api.http.dependencies import RegistryDep
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.domain.registry.guards import HookPoint, Stage
from runward.domain.registry.scopes import Scope
from runward.domain.run.builtins import BUILTINS
from runward.domain.run.config import AgentKind
from runward.llm.base import Abilities
from runward.llm.capabilities import ADAPTER_SETTINGS
from runward.version import VERSION


class LoadedPlugins(ResponseModel):
    """Plugin functions that are loaded in the process that responds."""

    tools: list[str]
    """Names of the loaded tools."""
    guardrails: list[str]
    """Names of the loaded guardrails."""
    hooks: list[str]
    """Names of the loaded hooks."""


class McpCapabilities(ResponseModel):
    """Support for MCP servers."""

    installed: bool
    """Whether the MCP SDK is installed."""
    commands: list[str]
    """Commands that the operator allows for starting MCP servers."""


class ModelCapabilities(ResponseModel):
    """Features that Runward supports for the models of one provider. A single model can support
    fewer."""

    settings: list[str]
    """Supported fields of `model_settings`. `reasoning.summary` is the field `summary` of
    `reasoning`."""
    tool_choices: list[str]
    """Supported values of `tool_choice`. `named`: an object with the name of a tool."""
    single_tool_calls: bool
    """Whether `parallel_tool_calls` can be false."""
    strict_tools: bool
    """Whether the provider can enforce the schemas of tools that have `strict`."""
    output_schema: bool
    """Whether the provider can enforce an `output_schema`."""
    images: bool
    """Whether messages can contain images."""
    files: bool
    """Whether messages can contain files."""
    tool_media: Literal["in_result", "after_results"]
    """Where the model receives images and files of a tool. `in_result`: in the result of the tool
    call. `after_results`: in a user message after the results."""
    hosted: list[str]
    """Kinds of hosted tools that the provider can run."""
    executors: list[str]
    """Kinds of provider tools that a webhook or plugin tool can run in place of the provider. All
    other kinds are sent as functions."""

    @classmethod
    def from_abilities(cls, can: Abilities) -> Self:
        return cls(
            settings=sorted(can.settings | ADAPTER_SETTINGS),
            tool_choices=["auto", *sorted(can.tool_choices)],
            single_tool_calls=can.parallel_off,
            strict_tools=can.strict,
            output_schema=can.output_schema,
            images=can.images,
            files=can.files,
            tool_media="in_result" if can.result_media else "after_results",
            hosted=sorted(can.hosted),
            executors=sorted(can.executors),
        )


class Capabilities(ResponseModel):
    """Capabilities of this deployment."""

    model_config = with_example(
        version="0.1.0",
        tool_types=["agent", "builtin", "client", "handoff", "hosted", "plugin", "webhook"],
        builtin_tools=["search_tools"],
        agent_kinds=["llm", "sequential", "parallel", "loop"],
        guardrail_stages=["pre_approval", "input", "output", "run_input", "run_output"],
        hooks=["before_model", "after_model", "before_tool", "after_tool"],
        plugins={"tools": [], "guardrails": [], "hooks": []},
        mcp={"installed": False, "commands": []},
        model_providers=["openai"],
        models={
            "openai": {
                "settings": ["max_output_tokens", "reasoning", "temperature"],
                "tool_choices": ["auto", "named", "none", "required"],
                "single_tool_calls": True,
                "strict_tools": True,
                "output_schema": True,
                "images": True,
                "files": True,
                "tool_media": "after_results",
                "hosted": [],
                "executors": [],
            },
        },
        responses_api=True,
        scopes=["runs:read", "runs:write"],
    )

    object: Literal["capabilities"] = "capabilities"
    version: str
    """Version of Runward."""
    tool_types: list[str]
    """Types of tools that this deployment can run."""
    builtin_tools: list[str]
    """Names of the built-in tools."""
    agent_kinds: list[AgentKind]
    """Kinds of agents that can be registered."""
    guardrail_stages: list[Stage]
    """Stages at which guardrails can be called."""
    hooks: list[HookPoint]
    """Points at which hooks can be called."""
    plugins: LoadedPlugins
    """Plugin functions that are loaded in the process that responds."""
    mcp: McpCapabilities
    """Support for MCP servers."""
    model_providers: list[str]
    """Names of the available model providers. In a model name, the provider's name precedes the
    colon."""
    models: dict[str, ModelCapabilities]
    """Features of the models, by provider."""
    responses_api: bool
    """Whether the `/v1/responses` API is available."""
    scopes: list[Scope]
    """Scopes of the API key that sent the request."""


routes: APIRouter = make_router("Service")


@routes.get("/capabilities", summary="Get capabilities")
async def get_capabilities(principal: AnyKey, registry: RegistryDep) -> Capabilities:
    """Get the capabilities of this deployment. `plugins` lists only the plugin functions of the
    process that responds."""
    plugins, mcp = registry.plugins, registry.mcp
    abilities = (await registry.get_models(principal.project_id)).abilities()
    return Capabilities(
        version=VERSION,
        tool_types=sorted(registry.executors),
        builtin_tools=sorted(BUILTINS),
        agent_kinds=list(get_args(AgentKind)),
        guardrail_stages=list(get_args(Stage)),
        hooks=list(get_args(HookPoint)),
        plugins=LoadedPlugins(
            tools=sorted(spec.name for spec in plugins.specs),
            guardrails=sorted(plugins.guardrail_names),
            hooks=sorted(plugins.hook_names),
        ),
        mcp=McpCapabilities(installed="mcp" in registry.executors, commands=sorted(mcp.commands)),
        model_providers=[*abilities],
        models={
            provider: ModelCapabilities.from_abilities(can) for provider, can in abilities.items()
        },
        responses_api=True,
        scopes=sorted(principal.scopes),
    )
