"""GET /v1/tools/{name}/calls: the calls of a tool in all runs."""

from datetime import datetime
from typing import Literal, Self

from pydantic import ConfigDict

from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import EXAMPLE_TIME, RUN_ID, ResponseModel, with_example
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ToolPath
from runward.api.http.routes import make_router
from runward.domain import not_found
from runward.domain.ids import Prefix, format_id
from runward.domain.run.state import CallOutcome, CallPhase
from runward.store.registry import tool_history, tool_registry
from runward.store.registry.tool_history import PastCall

_CALL = {
    "id": "call_019a5f1e8c537e648f3a7d9cbc5f4e82",
    "object": "tool_call",
    "call_id": "call_1",
    "run_id": RUN_ID,
    "agent": "clerk",
    "tool": "pay",
    "tool_version": 1,
    "phase": "settled",
    "outcome": "failed",
    "attempt": 3,
    "created_at": EXAMPLE_TIME,
    "started_at": EXAMPLE_TIME,
    "ended_at": EXAMPLE_TIME,
    "duration_ms": 84.312,
    "error": {"code": "tool_error", "message": "HTTP 503"},
}


class CallError(ResponseModel):
    """The error of a tool call that did not succeed."""

    code: str
    """Stable code of the error. It is the call's `reason` or, if `reason` is null, the call's
    `outcome`."""
    message: str
    """Description of the error, for operators. It contains up to 500 characters of the call's
    `detail` or, if `detail` is null, of the call's output."""


class RecentCall(ResponseModel):
    """A tool call without its arguments and output. Use `GET /v1/runs/{run_id}/tool_calls` to read
    these fields."""

    model_config = with_example(**_CALL)

    id: str
    """Globally unique ID of the call. Runward sends it to the tool as `webhook-id` and
    `Idempotency-Key`."""
    object: Literal["tool_call"] = "tool_call"
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    run_id: str
    """ID of the run that made the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    tool: str
    """Name of the tool."""
    tool_version: int | None
    """Version of the tool. Null if the tool did not exist at the time of the call."""
    phase: CallPhase
    """Current phase of the call."""
    outcome: CallOutcome | None
    """Outcome of the call. Null until `phase` is `settled`."""
    attempt: int
    """Number of attempts of the call, including an attempt that is about to start. 0 if the call
    was never sent."""
    created_at: datetime
    """When the model requested the call."""
    started_at: datetime | None
    """When the last attempt started. Null if there was no attempt."""
    ended_at: datetime | None
    """When the call got its result. Null while the call is open."""
    duration_ms: float | None
    """Milliseconds from the start of the last attempt to the end of the call. This includes the
    time that the call waited for callbacks and people. Null if the call was never sent or has not
    ended."""
    error: CallError | None
    """Error of the call. Null if the call succeeded or is open."""

    @classmethod
    def from_row(cls, tool: str, call: PastCall) -> Self:
        failed = call.outcome not in (None, CallOutcome.COMPLETED)
        code = str(call.reason or call.outcome)
        return cls.from_attributes(
            call,
            id=format_id(Prefix.CALL, call.id),
            run_id=format_id(Prefix.RUN, call.run_id),
            tool=tool,
            error=CallError(code=code, message=call.message or "") if failed else None,
        )


class CallStatistics(ResponseModel):
    """Statistics of the tool's newest 100 calls."""

    calls: int
    """Number of calls in the statistics, from 0 to 100."""
    failed: int
    """Number of calls in the statistics that failed, timed out, or have an unknown outcome."""
    timed: int
    """Number of calls in the statistics that were sent and have ended. The percentiles cover only
    these calls."""
    p50_ms: float | None
    """Median duration of the calls in milliseconds. Null if no call has a duration."""
    p95_ms: float | None
    """95th percentile of the calls' durations in milliseconds. Null if no call has a duration."""


class RecentCallList(Page[RecentCall]):
    """A page of a tool's calls. To get the next page, pass `last_id` as `after`."""

    model_config = ConfigDict(use_attribute_docstrings=True) | with_example(
        data=[_CALL],
        first_id=_CALL["id"],
        last_id=_CALL["id"],
        has_more=False,
        summary={"calls": 1, "failed": 1, "timed": 1, "p50_ms": 84.312, "p95_ms": 84.312},
    )

    summary: CallStatistics
    """Statistics of the tool's newest 100 calls. They do not depend on the page."""


routes = make_router("Tools")


@routes.get("/tools/{name}/calls", summary="List a tool's calls")
async def list_recent_calls(
    principal: RunsReader, storage: StorageDep, name: ToolPath, pagination: Pagination
) -> RecentCallList:
    """List the calls of a tool in all runs of the project, newest first. The response also contains
    statistics of the tool's newest 100 calls. Test calls are not included, and neither are calls of
    inline tools with the same name."""
    window = pagination.by_id(Prefix.CALL)
    async with storage.connect() as tx:
        if await tool_registry.get_tool(tx, principal.project_id, name) is None:
            raise not_found.ToolNotFoundError
        figures = await tool_history.read_figures(tx, principal.project_id, name)
        found = await tool_history.list_past_calls(tx, principal.project_id, name, **window)
    page = pagination.page(found, lambda one: RecentCall.from_row(name, one), lambda call: call.id)
    return RecentCallList(summary=CallStatistics.from_attributes(figures), **dict(page))
