"""All resources of the API, in the order in which openapi.json shows them."""

from typing import Any, Final

from runward.api import (
    agents,
    approvals,
    events,
    health,
    keys,
    mcp_endpoint,
    mcp_servers,
    openapi,
    policy,
    required_actions,
    runs,
    secrets,
    sessions,
    tool_calls,
    tool_history,
    tools,
)
from runward.api.app import create_app
from runward.api.responses import routes as responses

ROUTERS: Final = (
    runs.routes,
    responses.routes,
    sessions.routes,
    events.routes,
    approvals.routes,
    required_actions.routes,
    tool_calls.routes,
    tool_calls.callbacks,
    tools.routes,
    tool_history.routes,
    mcp_servers.routes,
    secrets.routes,
    agents.routes,
    policy.routes,
    keys.routes,
    keys.projects,
    health.routes,
    health.probes,
    mcp_endpoint.routes,
)


def contract() -> dict[str, Any]:
    """openapi.json: what the code says, without a database."""
    return openapi.build(create_app(None, ROUTERS))
