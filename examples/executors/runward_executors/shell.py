"""A shell for models, with the interface of OpenAI's `shell` tool."""

import asyncio
from typing import Any

from runward_commands.shell import run_commands

from runward.tools import ToolContext, tool
from runward_executors.workspace import workspace

DEFAULT_SECONDS = 60.0
"""For each command of a model that names no time."""
SPARE_SECONDS = 2.0
"""Of the call's own time, for ending what runs and answering."""
DEFAULT_BYTES = 8192
ALL_BYTES = 48_000
"""Of everything that the commands of one call print: more would not fit into a result."""


@tool(
    implements="shell",
    timeout_seconds=600,
    max_output_bytes=262_144,
    concurrency={"limit": 1, "group": "workspace"},
)
async def shell(
    ctx: ToolContext,
    commands: list[str],
    timeout_ms: int | None = None,
    max_output_length: int | None = None,
) -> dict[str, Any]:
    """Run shell commands in this conversation's own folder, one after the other.

    Each has a shell of its own, so a `cd` lasts for one command. What is started in the background
    ends with its command.
    """
    folder = await asyncio.to_thread(workspace, ctx)
    answers = await run_commands(
        commands,
        folder,
        seconds_each=timeout_ms / 1000 if timeout_ms else DEFAULT_SECONDS,
        seconds=ctx.deadline() - SPARE_SECONDS,
        max_bytes=min(max_output_length or DEFAULT_BYTES, ALL_BYTES // (2 * len(commands))),
        starts=lambda command: ctx.progress(None, f"runs: {command}"[:200]),
    )
    asked = {} if max_output_length is None else {"max_output_length": max_output_length}
    return {"output": answers, **asked}
