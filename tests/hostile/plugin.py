"""A plugin for tests: it fails with the operator's secret in its words, and tells its
environment."""

import os

from app.tools import ToolContext, tool


@tool
def blunder(ctx: ToolContext) -> str:
    """Fail with a secret."""
    raise ValueError(f"cannot log in with {ctx.secret('PLUGIN')}")


@tool(isolation="process")
def surroundings() -> list[str]:
    """Return the values of the environment of a process of its own."""
    return sorted(os.environ.values())
