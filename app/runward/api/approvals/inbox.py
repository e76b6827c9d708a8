"""/v1/required_actions: the inbox of a project, and its models."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from fastapi import Query

from runward.api.http.auth import ApprovalsReader
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import APPROVAL_ID, EXAMPLE_TIME, RUN_ID, ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.store.runs import required_actions

_ACTION = {
    "type": "approval",
    "run_id": RUN_ID,
    "call_id": "call_1",
    "tool": "pay",
    "approval_id": APPROVAL_ID,
    "requested_at": EXAMPLE_TIME,
    "expires_at": EXAMPLE_TIME,
}


class PendingAction(ResponseModel):
    """A call that waits for a person or a client, without its arguments."""

    type: Literal["approval", "resolve", "tool_result"]
    """`approval`: decide about the call. `resolve`: record the outcome of a call whose outcome is
    unknown. `tool_result`: give the result of a client tool, or answer a tool that asks."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the call in its run."""
    tool: str
    """Name of the tool."""
    approval_id: str | None = None
    """ID of the approval. Set only for `approval`."""
    requested_at: datetime
    """When the call began to wait, or was last sent."""
    expires_at: datetime | None = None
    """When the wait ends by itself. Null for `resolve`, which waits without a limit."""

    @classmethod
    def from_row(cls, action: required_actions.PendingAction) -> Self:
        return cls.from_attributes(
            action,
            run_id=format_id(Prefix.RUN, action.run_id),
            approval_id=format_optional_id(Prefix.APPROVAL, action.approval_id),
        )


class PendingCounts(ResponseModel):
    """Number of calls that wait, by type."""

    approval: int
    """Calls that need a decision."""
    resolve: int
    """Calls whose outcome is unknown."""
    tool_result: int
    """Calls that need a result or an answer from the client."""


class RequiredActionList(ResponseModel):
    """The calls of a project that wait for a person or a client, the most urgent first."""

    model_config = with_example(
        data=[_ACTION],
        counts={"approval": 1, "resolve": 0, "tool_result": 0},
        has_more=False,
    )

    object: Literal["list"] = "list"
    data: list[PendingAction]
    """Unknown outcomes, then approvals that expire within the hour, then other approvals, then
    results. Approvals that expire soon are ordered by expiry, everything else from the oldest."""
    counts: PendingCounts
    """All that wait, also those beyond `limit`."""
    has_more: bool
    """Whether more calls wait than `limit`."""


MAX_LIMIT: Final = 1_000

routes = make_router("Approvals")


@routes.get("/required_actions")
async def list_required_actions(
    principal: ApprovalsReader,
    storage: StorageDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of calls to list.")
    ] = 100,
) -> RequiredActionList:
    """List the calls of all runs that wait for a person or a client, the most urgent first. The
    list is small, so that an inbox can poll it: send the `ETag` of the last answer as
    `If-None-Match`, and load the details of a call with GET /v1/approvals/{approval_id} or
    GET /v1/runs/{run_id}/tool_calls/{call_id}."""
    async with storage.read() as tx:
        found, counts = await required_actions.list_pending_actions(tx, principal.project_id, limit)
    return RequiredActionList(
        data=[PendingAction.from_row(one) for one in found],
        counts=PendingCounts.from_attributes(counts),
        has_more=counts.approval + counts.resolve + counts.tool_result > len(found),
    )
