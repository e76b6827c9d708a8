"""What the installation says of itself, and of what it took in."""

from typing import Literal

from pydantic import ConfigDict

from runward.api.http.models import ResponseModel, with_example
from runward.domain.registry.guards import Moment, RunStage, ToolStage
from runward.domain.registry.scopes import Scope
from runward.domain.run.config import AgentKind


class Alive(ResponseModel):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra=with_example(status="ok"))

    status: Literal["ok"]
    """`ok`."""


class Ready(ResponseModel):
    """The process can serve."""

    model_config = ConfigDict(json_schema_extra=with_example(status="ready"))

    status: Literal["ready"]
    """`ready`."""


class Accepted(ResponseModel):
    """What a tool said has been taken in."""

    model_config = ConfigDict(json_schema_extra=with_example(accepted=True))

    accepted: Literal[True]
    """true."""


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

    model_config = ConfigDict(
        json_schema_extra=with_example(
            object="capabilities",
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
    )

    object: Literal["capabilities"] = "capabilities"
    """`capabilities`."""
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
