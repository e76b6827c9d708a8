"""A plugin for the MCP conformance suite: a tool that says how far it is."""

from runward.tools import ToolContext, tool


@tool
async def test_tool_with_progress(ctx: ToolContext) -> str:
    """Reports progress three times."""
    for done in (0.0, 0.5, 1.0):
        ctx.progress(done)
    return "done"
