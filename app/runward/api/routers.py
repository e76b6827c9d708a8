"""All resources of the API, in their order in openapi.json."""

from typing import Any, Final

from runward.api import budgets, probes, service, workers
from runward.api.approvals import decision, inbox
from runward.api.approvals import routes as approvals
from runward.api.audit import routes as audit_log
from runward.api.completions import routes as completions
from runward.api.events import project_events
from runward.api.events import routes as events
from runward.api.mcp import endpoint
from runward.api.openapi import document
from runward.api.registry import (
    agents,
    keys,
    limits,
    mcp_login,
    mcp_servers,
    policy,
    secrets,
    tool_history,
    tools,
)
from runward.api.responses import conversations, model_list, token_count
from runward.api.responses import routes as responses
from runward.api.retention import routes as retention
from runward.api.runs import call_routes, start
from runward.api.runs import routes as runs
from runward.api.schedules import routes as schedules
from runward.api.sessions import routes as sessions
from runward.api.webhooks import routes as webhooks

ROUTERS: Final = (
    start.routes,
    runs.routes,
    responses.routes,
    token_count.routes,
    model_list.routes,
    conversations.routes,
    completions.routes,
    sessions.routes,
    events.routes,
    project_events.routes,
    approvals.routes,
    decision.routes,
    inbox.routes,
    call_routes.routes,
    call_routes.callbacks,
    tools.routes,
    tool_history.routes,
    mcp_servers.routes,
    mcp_login.routes,
    secrets.routes,
    agents.routes,
    policy.routes,
    schedules.routes,
    webhooks.routes,
    limits.routes,
    retention.routes,
    audit_log.routes,
    budgets.routes,
    keys.routes,
    keys.projects,
    service.routes,
    workers.routes,
    probes.routes,
    mcp_login.pages,
    endpoint.routes,
)


def build_openapi() -> dict[str, Any]:
    """Return openapi.json. It needs no database."""
    return document.build_document(route for router in ROUTERS for route in router.routes)
