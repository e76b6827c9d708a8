"""A plugin for tests: tools that write into the session's state."""

from runward.tools import ToolContext, tool


@tool
def note(ctx: ToolContext, key: str) -> str:
    """Write down which run was here.

    Args:
        key: Under which key.
    """
    ctx.state[key] = ctx.run_id
    return f"noted {key}"


@tool
def count(ctx: ToolContext) -> int:
    """Count one more: right only if nobody else counts between reading and writing."""
    ctx.state["count"] = ctx.state.get("count", 0) + 1
    return int(ctx.state["count"])
