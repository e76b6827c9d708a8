"""Tools and their executors. The names exported here are the API for authors of plugins. See
docs/reference/plugin-api.md."""

from runward.domain.registry.guards import Fail, Instead, Reject
from runward.domain.registry.tools import CelRule, Concurrency, Retry
from runward.tools.plugin.agents import AgentRunError
from runward.tools.plugin.context import GuardContext, RuleContext, ToolContext
from runward.tools.plugin.declarations import (
    BaseTool,
    FunctionTool,
    Options,
    guardrail,
    hook,
    tool,
)
from runward.tools.plugin.errors import PluginError, ToolContextError, ToolError
from runward.tools.plugin.parts import Content, File, Image, Text

__all__ = [
    "AgentRunError",
    "BaseTool",
    "CelRule",
    "Concurrency",
    "Content",
    "Fail",
    "File",
    "FunctionTool",
    "GuardContext",
    "Image",
    "Instead",
    "Options",
    "PluginError",
    "Reject",
    "Retry",
    "RuleContext",
    "Text",
    "ToolContext",
    "ToolContextError",
    "ToolError",
    "guardrail",
    "hook",
    "tool",
]
