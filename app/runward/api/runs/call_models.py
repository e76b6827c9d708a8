"""Tool calls, and what a run waits for: the entries of `required_actions` and of `waiting_for`."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import Field, JsonValue

from runward.api.http.models import (
    APPROVAL_ID,
    DIGEST,
    EXAMPLE_TIME,
    RUN_ID,
    ResponseModel,
    with_example,
)
from runward.domain.events.values import DecisionKind, Reason
from runward.domain.ids import Prefix, RunId, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.run.large_arguments import omit_large
from runward.domain.run.state import CallOutcome, CallPhase
from runward.store.runs import approvals
from runward.store.runs.views import CallView, WaitingCall


class ApprovalAction(ResponseModel):
    """A person must decide about a call: POST /v1/approvals/{approval_id}/decision."""

    type: Literal["approval"] = "approval"
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


class OmittedArgument(ResponseModel):
    """An argument that was left out of an answer because of its size."""

    name: str | None
    """Name of the argument. Null for all further arguments together."""
    bytes: int
    """Size of its JSON in bytes."""


class ToolCall(ResponseModel):
    """One row of a run's ledger: a call from the model's request to its result."""

    model_config = with_example(
        id="call_019a5f1e8c537e648f3a7d9cbc5f4e82",
        call_id="call_1",
        run_id=RUN_ID,
        turn=1,
        tool="pay",
        tool_version=1,
        arguments={"amount": 500},
        digest=DIGEST,
        phase="settled",
        attempt=1,
        approval_id=APPROVAL_ID,
        outcome="completed",
        output={"paid": True},
        timeout_seconds=30,
        created_at=EXAMPLE_TIME,
        started_at=EXAMPLE_TIME,
        ended_at=EXAMPLE_TIME,
    )

    id: str
    """Unique everywhere: the `webhook-id` and `Idempotency-Key` that the tool got."""
    object: Literal["tool_call"] = "tool_call"
    call_id: str
    """The model's own id, unique in its run."""
    run_id: str
    """Whose call it is."""
    turn: int
    """The turn whose response asked for it."""
    tool: str
    """The tool's name, as the model wrote it."""
    tool_version: int | None
    """Null for a tool that does not exist."""
    arguments: JsonObject
    """What is sent, or was."""
    omitted_arguments: list[OmittedArgument] = Field(default_factory=list[OmittedArgument])
    """Arguments that were left out because of `max_arguments_bytes`."""
    original_arguments: JsonObject | None = None
    """The model's own, where a person changed them."""
    digest: str
    """Of tool, version, target and arguments."""
    requests: JsonValue = None
    """What a webhook tool asks while `phase` is `awaiting_input`, in its own words."""
    phase: CallPhase
    """Where the call is."""
    attempt: int
    """How often it was sent, or was about to be."""
    approval_id: str | None = None
    """The approval that it needed."""
    child_run_id: str | None = None
    """The run that was started for it, where its tool is an agent."""
    outcome: CallOutcome | None = None
    """How it ended; null until `phase` is `settled`."""
    reason: Reason | None = None
    """Why it failed, was rejected or was not run."""
    output: JsonValue = None
    """What the model reads, whole."""
    is_error: bool = False
    """Whether the model is told that it failed."""
    detail: str | None = None
    """For operators."""
    metadata: JsonObject | None = None
    """What the tool said beside its output; the model never sees it."""
    timeout_seconds: float | None = None
    """Of the last attempt."""
    created_at: datetime
    """When the model asked for it."""
    started_at: datetime | None = None
    """When it was sent last."""
    deadline_at: datetime | None = None
    """Until when its callback, or the client's result, may come."""
    ended_at: datetime | None = None
    """When it was settled."""

    @classmethod
    def from_row(
        cls, run_id: RunId, view: CallView, max_arguments_bytes: int | None = None
    ) -> Self:
        call, result = view.call, view.call.result
        arguments, omitted = omit_large(call.arguments, max_arguments_bytes)
        fields: dict[str, Any] = {}
        if result is not None:
            names = ("outcome", "reason", "is_error", "detail", "metadata")
            fields = {name: getattr(result, name) for name in names}
            fields["output"] = result.output if result.full is None else result.full
        if call.phase is CallPhase.AWAITING_INPUT and call.exchange is not None:
            fields["requests"] = call.exchange.requests
        return cls.from_attributes(
            call,
            id=format_id(Prefix.CALL, call.uuid),
            call_id=call.id,
            run_id=format_id(Prefix.RUN, run_id),
            tool_version=call.version,
            arguments=arguments,
            omitted_arguments=[OmittedArgument(name=one.name, bytes=one.size) for one in omitted],
            original_arguments=call.original,
            approval_id=format_optional_id(Prefix.APPROVAL, call.approval_id),
            child_run_id=format_optional_id(Prefix.RUN, call.child),
            created_at=view.created_at,
            started_at=view.started_at,
            deadline_at=view.deadline_at,
            ended_at=view.ended_at,
            **fields,
        )


def render_wait(waiting: WaitingCall) -> RequiredAction | CallbackWait:
    subject = waiting.subject
    fields: dict[str, Any] = {
        "run_id": format_id(Prefix.RUN, waiting.run_id),
        "path": waiting.path,
    }
    if isinstance(subject, approvals.Approval):
        approval_id = format_id(Prefix.APPROVAL, subject.id)
        return ApprovalAction.from_attributes(subject, approval_id=approval_id, **fields)
    call = subject.call
    fields["call_id"] = call.id
    match call.phase:
        case CallPhase.AWAITING_RESULT:
            return ResultAction.from_attributes(call, **fields)
        case CallPhase.AWAITING_INPUT:
            requests = call.exchange and call.exchange.requests
            return ResultAction.from_attributes(call, requests=requests, **fields)
        case CallPhase.AWAITING_CALLBACK:
            return CallbackWait.from_attributes(call, deadline_at=subject.deadline_at, **fields)
        case _:
            return ResolveAction.from_attributes(call, **fields)
