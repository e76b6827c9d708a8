"""The groups of commands that `runward` offers for a running service, in the order of its help."""

import inspect
from typing import Final

import typer

from runward.cli import (
    agents,
    approvals,
    budgets,
    mcp,
    runs,
    schedules,
    secrets,
    sessions,
    tools,
    webhooks,
)

GROUPS: Final[dict[str, typer.Typer]] = {
    "runs": runs.app,
    "approvals": approvals.app,
    "agents": agents.app,
    "sessions": sessions.app,
    "schedules": schedules.app,
    "budgets": budgets.app,
    "webhooks": webhooks.app,
    "tools": tools.app,
    "mcp": mcp.app,
    "secrets": secrets.app,
}


def join_lines(group: typer.Typer) -> None:
    """Join the lines of each paragraph in the help of all commands, because Typer keeps them."""
    for command in (*group.registered_commands, group.registered_callback):
        if command is not None:
            text = inspect.cleandoc(
                command.help or getattr(command.callback, "__doc__", None) or ""
            )
            command.help = "\n\n".join(" ".join(one.split()) for one in text.split("\n\n"))
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            join_lines(inner.typer_instance)
