"""What a run waits for: the entries of `required_actions` and of `waiting_for`."""

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from runward.api.http.models import ResponseModel
from runward.domain.events.values import DecisionKind
from runward.domain.json import JsonObject


class ApprovalAction(ResponseModel):
    """A person must decide about a call: POST /v1/approvals/{approval_id}/decision."""

    type: Literal["approval"] = "approval"
    """`approval`."""
    approval_id: str
    """What to decide."""
    run_id: str
    """Whose call it is: this run, or one below it."""
    call_id: str
    """The call's id in its run."""
    tool: str
    """The tool that would be called."""
    agent: str | None = None
    """Whose call it is; null for an inline run."""
    arguments: JsonObject
    """The exact arguments that would be sent."""
    digest: str
    """Of exactly this call; a decision may carry it, and is refused if it is another."""
    expires_at: datetime
    """When it counts as unanswered."""
    allowed_decisions: list[DecisionKind]
    """`approve`, `reject`, `edit`, `respond`."""
    path: list[str] = Field(default_factory=list[str])
    """The agents from the run that is looked at down to the one that asks; empty for its own."""


class ResolveAction(ResponseModel):
    """Nobody knows the outcome of a call. A person must look and record it:
    POST /v1/runs/{run_id}/tool_calls/{call_id}/resolve."""

    type: Literal["resolve"] = "resolve"
    """`resolve`."""
    run_id: str
    """Whose call it is: this run, or one below it."""
    call_id: str
    """The call's id in its run."""
    tool: str
    """The tool that was called."""
    arguments: JsonObject
    """Its arguments."""
    path: list[str] = Field(default_factory=list[str])
    """The agents from the run that is looked at down to the one that asks; empty for its own."""


class ResultAction(ResponseModel):
    """The client has something to say: POST /v1/runs/{run_id}/tool_calls/{call_id}/result."""

    type: Literal["tool_result"] = "tool_result"
    """`tool_result`."""
    run_id: str
    """Whose call it is: this run, or one below it."""
    call_id: str
    """The call's id in its run."""
    tool: str
    """The tool that the client is to run, or that asks something."""
    arguments: JsonObject
    """Its arguments."""
    requests: JsonValue = None
    """What a webhook tool asks, as it put it; null for a tool that the client runs."""
    path: list[str] = Field(default_factory=list[str])
    """The agents from the run that is looked at down to the one that asks; empty for its own."""


RequiredAction: TypeAlias = Annotated[
    ApprovalAction | ResolveAction | ResultAction, Field(discriminator="type")
]


class CallbackWait(ResponseModel):
    """A tool accepted the call and will send the result to its callback URL. Nobody has to act."""

    type: Literal["callback"] = "callback"
    """`callback`."""
    run_id: str
    """ID of the run that made the call: this run, or one below it."""
    call_id: str
    """ID of the call in its run."""
    tool: str
    """The tool that was called."""
    arguments: JsonObject
    """The arguments of the call."""
    deadline_at: datetime | None = None
    """If no callback arrives by then, the call times out."""
    path: list[str] = Field(default_factory=list[str])
    """The agents from the run that is looked at down to the one that called; empty for its own."""
