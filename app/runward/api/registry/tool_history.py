"""GET /v1/tools/{name}/calls: what has been called of a tool, in all runs."""

from datetime import datetime
from typing import Literal, Self

from pydantic import ConfigDict

from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import EXAMPLE_TIME, RUN_ID, ResponseModel, with_example
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ToolPath
from runward.api.http.routes import make_router
from runward.domain import errors as e
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
    """Why a call did not succeed."""

    code: str
    """The call's `reason` where it has one, else its `outcome`."""
    message: str
    """For operators: up to 500 characters of the call's `detail`, else of what the model reads."""


class RecentCall(ResponseModel):
    """A call of a tool, without what was sent and what came of it: its run's ledger has those."""

    model_config = with_example(**_CALL)

    id: str
    """Unique everywhere."""
    object: Literal["tool_call"] = "tool_call"
    call_id: str
    """The model's own id, unique in its run."""
    run_id: str
    """Whose call it is."""
    agent: str | None
    """The agent that asked for it; null for an inline run."""
    tool: str
    """The tool's name."""
    tool_version: int | None
    """The version that was called; null where there was none."""
    phase: CallPhase
    """Where the call is."""
    outcome: CallOutcome | None
    """How it ended; null until `phase` is `settled`."""
    attempt: int
    """How often it was sent, or was about to be; 0 if never."""
    created_at: datetime
    """When the model asked for it."""
    started_at: datetime | None
    """When it was sent last."""
    ended_at: datetime | None
    """When it was settled."""
    duration_ms: float | None
    """Milliseconds from its last start to its end, waiting for callbacks and people included; null
    for a call that was never sent or has not ended."""
    error: CallError | None
    """Null for a call that succeeded or is open."""

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


class CallFigures(ResponseModel):
    """Of the newest 100 calls of the tool."""

    calls: int
    """How many there are: 0 to 100."""
    failed: int
    """How many of them failed, timed out, or have an outcome that nobody knows."""
    timed: int
    """Number of these calls that were sent and have ended; the percentiles cover them."""
    p50_ms: float | None
    """Half of them took no longer, by `duration_ms`; null if none has one."""
    p95_ms: float | None
    """95 of 100 took no longer."""


class RecentCallPage(Page[RecentCall]):
    """A page of the calls of a tool. Pass `last_id` as `after` to get the next one."""

    model_config = ConfigDict(use_attribute_docstrings=True) | with_example(
        data=[_CALL],
        first_id=_CALL["id"],
        last_id=_CALL["id"],
        has_more=False,
        summary={"calls": 1, "failed": 1, "timed": 1, "p50_ms": 84.312, "p95_ms": 84.312},
    )

    summary: CallFigures
    """Whatever the page, of the newest calls."""


routes = make_router("Tools")


@routes.get("/tools/{name}/calls")
async def list_calls_of_tool(
    principal: RunsReader, storage: StorageDep, name: ToolPath, pagination: Pagination
) -> RecentCallPage:
    """The calls of a tool in all runs of the project, newest first, and figures of the newest 100.
    Tries with POST …/test are not among them."""
    window = pagination.by_id(Prefix.CALL)
    async with storage.read() as tx:
        if await tool_registry.get_tool(tx, principal.project_id, name) is None:
            raise e.ToolNotFoundError
        figures = await tool_history.read_figures(tx, principal.project_id, name)
        found = await tool_history.list_past_calls(tx, principal.project_id, name, **window)
    page = pagination.page(found, lambda one: RecentCall.from_row(name, one), lambda call: call.id)
    return RecentCallPage(summary=CallFigures.from_attributes(figures), **dict(page))
