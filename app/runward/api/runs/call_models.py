"""Models of tool calls, and of the entries in a run's `required_actions` and `waiting_for`."""

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
from runward.domain.events.values import CallReason, DecisionKind
from runward.domain.ids import Prefix, RunId, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.run.large_arguments import omit_large
from runward.domain.run.state import CallOutcome, CallPhase
from runward.store.runs import approvals
from runward.store.runs.views import CallView, WaitingCall


class ApprovalAction(ResponseModel):
    """A tool call that needs a decision. Submit it with `POST
    /v1/approvals/{approval_id}/decision`."""

    type: Literal["approval"] = "approval"
    approval_id: str
    """ID of the approval. Use it to submit the decision."""
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that the call is for."""
    agent: str | None = None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject
    """Exact arguments of the call."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments. If a decision includes a
    different digest, Runward refuses the decision."""
    expires_at: datetime
    """When the approval expires if nobody decides."""
    allowed_decisions: list[DecisionKind]
    """Decisions that this approval allows."""
    path: list[str] = Field(default_factory=list[str])
    """Names of the agents of the child runs that lead from this run to the run that made the call.
    Empty if this run made the call."""


class ResolveAction(ResponseModel):
    """A tool call whose outcome is unknown. A person must find out the outcome and record it with
    `POST /v1/runs/{run_id}/tool_calls/{call_id}/resolve`."""

    type: Literal["resolve"] = "resolve"
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that was called."""
    arguments: JsonObject
    """Arguments of the call."""
    path: list[str] = Field(default_factory=list[str])
    """Names of the agents of the child runs that lead from this run to the run that made the call.
    Empty if this run made the call."""


class ToolResultAction(ResponseModel):
    """A tool call that needs a result or input from the client. Submit it with `POST
    /v1/runs/{run_id}/tool_calls/{call_id}/result`."""

    type: Literal["tool_result"] = "tool_result"
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the client tool to run, or of the tool that requests input."""
    arguments: JsonObject
    """Arguments of the call."""
    requests: JsonValue = None
    """Input that a webhook tool requests, in the tool's own format. Null for a tool that the client
    runs."""
    path: list[str] = Field(default_factory=list[str])
    """Names of the agents of the child runs that lead from this run to the run that made the call.
    Empty if this run made the call."""


RequiredAction: TypeAlias = Annotated[
    ApprovalAction | ResolveAction | ToolResultAction, Field(discriminator="type")
]


class CallbackWait(ResponseModel):
    """A tool call whose tool will send the result to the callback URL. No person or client has to
    act."""

    type: Literal["callback"] = "callback"
    run_id: str
    """ID of the run that made the call: this run or one of its child runs at any depth."""
    call_id: str
    """ID of the tool call. Unique within its run."""
    tool: str
    """Name of the tool that was called."""
    arguments: JsonObject
    """Arguments of the call."""
    deadline_at: datetime | None = None
    """When the call times out if no callback arrives. Null: the call has no timeout, and Runward
    waits until the run ends."""
    path: list[str] = Field(default_factory=list[str])
    """Names of the agents of the child runs that lead from this run to the run that made the call.
    Empty if this run made the call."""


class OmittedArgument(ResponseModel):
    """An argument that Runward omitted from a response because of its size."""

    name: str | None
    """Name of the omitted argument. Null for an entry that represents several arguments."""
    bytes: int
    """Size of the omitted arguments that the entry represents, in bytes of JSON."""


class ToolCall(ResponseModel):
    """A tool call of a run, from the model's request to its result."""

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
    """Globally unique ID of the call. Runward sends it to the tool as `webhook-id` and
    `Idempotency-Key`."""
    object: Literal["tool_call"] = "tool_call"
    call_id: str
    """ID of the call, as the model's provider generated it. Unique within its run."""
    run_id: str
    """ID of the run that made the call."""
    turn: int
    """Number of the turn whose response requested the call."""
    tool: str
    """Name of the tool, as the model wrote it."""
    tool_version: int | None
    """Version of the tool. Null if the tool does not exist."""
    arguments: JsonObject
    """Arguments that Runward sends or has sent to the tool."""
    omitted_arguments: list[OmittedArgument] = Field(default_factory=list[OmittedArgument])
    """Arguments that Runward omitted from `arguments` because of `max_arguments_bytes`."""
    original_arguments: JsonObject | None = None
    """Arguments that the model requested. Null if no approver edited the arguments."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    requests: JsonValue = None
    """Input that a webhook tool requests from the client. Set only while `phase` is
    `awaiting_input`."""
    phase: CallPhase
    """Current phase of the call."""
    attempt: int
    """Number of attempts of the call, including an attempt that is about to start. 0 if the call
    was never sent."""
    approval_id: str | None = None
    """ID of the call's approval. Null if the call needed no approval."""
    child_run_id: str | None = None
    """ID of the child run that executes the call. If a plugin function runs agents, this is the ID
    of the last child run. If the function last requested several child runs at once, it is the ID
    of the first of these. Null if the call has no child run."""
    outcome: CallOutcome | None = None
    """Outcome of the call. Null until `phase` is `settled`."""
    reason: CallReason | None = None
    """Why the call failed, was rejected, or was not run. Null for other calls."""
    output: JsonValue = None
    """Full output of the call. The model may read a truncated version."""
    is_error: bool = False
    """Whether the model reads the output as an error."""
    detail: str | None = None
    """Technical details of the outcome, for operators. The model does not see them."""
    metadata: JsonObject | None = None
    """Metadata that the tool returned together with its output. The model never sees it."""
    timeout_seconds: float | None = None
    """Time limit of the last attempt in seconds. Null if no attempt has started or the attempt has
    no limit."""
    created_at: datetime
    """When the model requested the call."""
    started_at: datetime | None = None
    """When the last attempt started. Null if there was no attempt."""
    deadline_at: datetime | None = None
    """When Runward stops accepting a callback or a client's result for the call. Null if there is
    no deadline."""
    ended_at: datetime | None = None
    """When the call got its result. Null while the call is open."""

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
            child_run_id=format_optional_id(Prefix.RUN, call.child_run_id),
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
            return ToolResultAction.from_attributes(call, **fields)
        case CallPhase.AWAITING_INPUT:
            requests = call.exchange and call.exchange.requests
            return ToolResultAction.from_attributes(call, requests=requests, **fields)
        case CallPhase.AWAITING_CALLBACK:
            return CallbackWait.from_attributes(call, deadline_at=subject.deadline_at, **fields)
        case _:
            return ResolveAction.from_attributes(call, **fields)
