"""A plugin for tests. It raises an error with the operator's secret in its message, and reports its
environment.
"""

import os

from runward.tools import Content, File, Text, ToolContext, tool

FOUL = "\0\ud800"


@tool
def blunder(ctx: ToolContext) -> str:
    """Fail with a secret."""
    raise ValueError(f"cannot log in with {ctx.secret('PLUGIN')}")


@tool(isolation="process")
def surroundings() -> list[str]:
    """Return the values of the environment of a process of its own."""
    return sorted(os.environ.values())


@tool(idempotent=True)
def scribble(ctx: ToolContext) -> Content:
    """Return parts that are no text."""
    ctx.progress(0.5, FOUL)
    return Content(Text(FOUL), File(data=b"x", media_type="text/plain", filename=FOUL))
