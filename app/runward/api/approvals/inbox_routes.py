"""/v1/required_actions: the inbox of a project."""

from dataclasses import asdict
from typing import Annotated, Final

from fastapi import Query, Response

from runward.api.approvals.inbox_models import PendingAction, PendingCounts, RequiredActionList
from runward.api.http.answers import json_response
from runward.api.http.auth import ApprovalsReader
from runward.api.http.routes import make_router
from runward.api.http.services import ServicesDep
from runward.domain.ids import Prefix, format_id
from runward.store.runs import required_actions

MAX_LIMIT: Final = 1_000

routes = make_router("Approvals")


@routes.get("/required_actions", response_model=RequiredActionList)
async def list_required_actions(
    principal: ApprovalsReader,
    services: ServicesDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of calls to list.")
    ] = 100,
) -> Response:
    """List the calls of all runs that wait for a person or a client, the most urgent first. The
    list is small, so that an inbox can poll it: send the `ETag` of the last answer as
    `If-None-Match`, and load the details of a call with GET /v1/approvals/{approval_id} or
    GET /v1/runs/{run_id}/tool_calls/{call_id}."""
    async with services.autocommit.connect() as tx:
        found, counts = await required_actions.list_pending_actions(tx, principal.project_id, limit)
    return json_response(
        RequiredActionList(
            data=[_render_action(one) for one in found],
            counts=PendingCounts(**asdict(counts)),
            has_more=counts.approval + counts.resolve + counts.tool_result > len(found),
        )
    )


def _render_action(action: required_actions.PendingAction) -> PendingAction:
    return PendingAction(
        type=action.type,
        run_id=format_id(Prefix.RUN, action.run_id),
        call_id=action.call_id,
        tool=action.tool,
        approval_id=None
        if action.approval_id is None
        else format_id(Prefix.APPROVAL, action.approval_id),
        requested_at=action.requested_at,
        expires_at=action.expires_at,
    )
