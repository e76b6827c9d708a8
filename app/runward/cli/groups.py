"""The groups of commands that `runward` offers for a running service, in the order of its help."""

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
