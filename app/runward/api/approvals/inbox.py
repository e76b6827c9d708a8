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
    """A tool call that waits for a person or a client. The arguments are not included."""

    type: Literal["approval", "resolve", "tool_result"]
    """Why the call waits. `approval`: a person must decide on the call. `resolve`: a person must
    record the unknown outcome of the call. `tool_result`: the client must submit the result of a
    client tool, or input that a tool requests."""
    run_id: str
    """ID of the run that made the call."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool."""
    approval_id: str | None = None
    """ID of the approval. Set only for the type `approval`."""
    requested_at: datetime
    """When the call started to wait. For a call without an approval, this is the start of its last
    attempt or, if there was none, the time of the model's request."""
    expires_at: datetime | None = None
    """When the wait ends automatically. Null for the type `resolve`, because these calls have no
    time limit."""

    @classmethod
    def from_row(cls, action: required_actions.PendingAction) -> Self:
        return cls.from_attributes(
            action,
            run_id=format_id(Prefix.RUN, action.run_id),
            approval_id=format_optional_id(Prefix.APPROVAL, action.approval_id),
        )


class PendingCounts(ResponseModel):
    """Number of waiting tool calls by type. Each number is at most 100, or `limit` if that is
    larger: this value means that at least so many calls wait."""

    approval: int
    """Number of calls that need a decision."""
    resolve: int
    """Number of calls whose outcome a person must record."""
    tool_result: int
    """Number of calls that need a result or input from the client."""


class RequiredActionList(ResponseModel):
    """The tool calls of a project that wait for a person or a client, most urgent first."""

    model_config = with_example(
        data=[_ACTION],
        counts={"approval": 1, "resolve": 0, "tool_result": 0},
        has_more=False,
    )

    object: Literal["list"] = "list"
    data: list[PendingAction]
    """Tool calls that wait, in this order: unknown outcomes, approvals that expire within an hour,
    other approvals, and client results. Approvals that expire within an hour are ordered by expiry.
    All others are ordered from oldest to newest."""
    counts: PendingCounts
    """Number of waiting calls by type, including those that the list does not contain."""
    has_more: bool
    """Whether there are more waiting calls than the response contains."""


MAX_LIMIT: Final = 1_000

routes = make_router("Approvals")


@routes.get("/required_actions")
async def list_required_actions(
    principal: ApprovalsReader,
    storage: StorageDep,
    limit: Annotated[
        int, Query(ge=1, le=MAX_LIMIT, description="Maximum number of calls to return.")
    ] = 100,
) -> RequiredActionList:
    """List the tool calls of all runs that wait for a person or a client, most urgent first. The
    response is small, so an inbox can poll it: send the `ETag` of the last response as
    `If-None-Match`. To load the details of a call, use `GET /v1/approvals/{approval_id}` or `GET
    /v1/runs/{run_id}/tool_calls/{call_id}`."""
    async with storage.connect() as tx:
        page = await required_actions.list_pending_actions(tx, principal.project_id, limit)
    return RequiredActionList(
        data=[PendingAction.from_row(one) for one in page.actions],
        counts=PendingCounts.from_attributes(page.counts),
        has_more=page.has_more,
    )
