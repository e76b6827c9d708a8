"""The inbox of a project, as answers show it."""

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict

from runward.api.http.models import APPROVAL_ID, EXAMPLE_TIME, RUN_ID, ResponseModel, with_example

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

    model_config = ConfigDict(
        json_schema_extra=with_example(
            data=[_ACTION],
            counts={"approval": 1, "resolve": 0, "tool_result": 0},
            has_more=False,
        )
    )

    object: Literal["list"] = "list"
    """`list`."""
    data: list[PendingAction]
    """Unknown outcomes, then approvals that expire within the hour, then other approvals, then
    results. Approvals that expire soon are ordered by expiry, everything else from the oldest."""
    counts: PendingCounts
    """All that wait, also those beyond `limit`."""
    has_more: bool
    """Whether more calls wait than `limit`."""
