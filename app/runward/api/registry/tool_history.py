"""GET /v1/tools/{name}/calls: what has been called of a tool, in all runs."""

from dataclasses import asdict

from fastapi import Response

from runward.api.http.answers import json_response
from runward.api.http.auth import RunsReader
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ToolPath
from runward.api.http.routes import make_router
from runward.api.http.services import ServicesDep
from runward.api.registry import render
from runward.api.registry.tool_history_models import CallFigures, RecentCall, RecentCallPage
from runward.domain import errors as e
from runward.domain.ids import Prefix
from runward.store.registry import tool_history, tool_registry

routes = make_router("Tools")


@routes.get("/tools/{name}/calls", response_model=RecentCallPage)
async def list_calls_of_tool(
    principal: RunsReader, services: ServicesDep, name: ToolPath, pagination: Pagination
) -> Response:
    """The calls of a tool in all runs of the project, newest first, and figures of the newest 100.
    Tries with POST …/test are not among them."""
    after = pagination.after_id(Prefix.CALL)
    async with services.autocommit.connect() as tx:
        if await tool_registry.get_tool(tx, principal.project_id, name) is None:
            raise e.ToolNotFoundError
        figures = await tool_history.read_figures(tx, principal.project_id, name)
        found = await tool_history.list_past_calls(
            tx,
            principal.project_id,
            name,
            after=after,
            limit=pagination.limit + 1,
            descending=pagination.descending,
        )
    page = Page[RecentCall].from_rows(
        found, pagination.limit, lambda one: render.recent_call(name, one), lambda call: call.id
    )
    return json_response(RecentCallPage(summary=CallFigures(**asdict(figures)), **dict(page)))
