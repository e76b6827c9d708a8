"""Tools and what executes them. These names are for authors of plugins: docs/plugins.md."""

from app.domain.guards import Fail, Instead, Reject
from app.domain.tools import Concurrency, Retry, When
from app.tools.context import (
    GuardContext,
    PluginError,
    PolicyContext,
    ToolContext,
    ToolContextError,
    ToolError,
)
from app.tools.declare import BaseTool, FunctionTool, Options, guardrail, hook, tool
from app.tools.parts import Content, File, Image, Text

__all__ = [
    "BaseTool",
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
    "PolicyContext",
    "Reject",
    "Retry",
    "Text",
    "ToolContext",
    "ToolContextError",
    "ToolError",
    "When",
    "guardrail",
    "hook",
    "tool",
]
