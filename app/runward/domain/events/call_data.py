"""The `data` of events about tool calls."""

from typing import Literal, NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from runward.domain.events.values import (
    ApprovalStatus,
    ArgumentsBytes,
    CalledTool,
    CallProgress,
    CallReason,
    DecisionKind,
    RunCallId,
)
from runward.domain.json import JsonObject, documented
from runward.domain.registry.tools import ToolType


@documented
class ToolCallCreatedData(TypedDict):
    """Data of a `tool_call.created` event."""

    call_id: RunCallId
    tool: str
    """Name of the tool, as the model wrote it."""
    tool_version: NotRequired[int | None]
    """Version of the tool. Null if the tool does not exist."""
    tool_type: NotRequired[ToolType | None]
    """Type of the tool. Null if the tool does not exist."""
    hosted: NotRequired[str]
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name for
    it. Set only for calls that the provider ran."""
    turn: int
    """Number of the turn whose response requested the call."""
    agent: str | None
    """Name of the agent that requested the call. Null if the run uses no registered agent."""
    arguments: JsonObject | None
    """Exact arguments of the call. Null if they are larger than 32 KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    arguments_text: NotRequired[str | None]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object. Null if it
    is larger than 32 KiB."""
    arguments_text_bytes: NotRequired[int]
    """Size of `arguments_text` in bytes. Set only if the text is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the arguments are too large for the event. `GET /v1/runs/{run_id}/tool_calls` returns
    the complete arguments."""


@documented
class ApprovalRequestedData(TypedDict):
    """Data of a `tool_call.approval_requested` event."""

    approval_id: str
    """ID of the approval. Use it to submit the decision."""
    call_id: RunCallId
    tool: str
    """Name of the tool that the call is for."""
    tool_version: int
    """Version of the tool."""
    arguments: JsonObject | None
    """Exact arguments of the call. Null if they are larger than 32 KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    truncated: NotRequired[Literal[True]]
    """True if the arguments are too large for the event. `GET /v1/approvals/{approval_id}` returns
    the complete arguments."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    expires_in_seconds: float
    """Number of seconds until the approval expires."""


@documented
class ApprovalDecidedData(TypedDict):
    """Data of a `tool_call.approval_decided` event."""

    approval_id: NotRequired[str]
    """ID of the approval. Missing if Runward applied a remembered decision."""
    call_id: RunCallId
    tool: NotRequired[CalledTool]
    decision: DecisionKind
    """Decision on the tool call."""
    status: NotRequired[ApprovalStatus]
    """Status of the approval after the decision."""
    decided_by: NotRequired[str | None]
    """ID of the API key that decided the approval. Null if nobody has decided."""
    message: NotRequired[str]
    """Message that the approver sent with the decision."""
    arguments: NotRequired[JsonObject | None]
    """New arguments of the call. Set only for the decision `edit`. Null if they are larger than 32
    KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    truncated: NotRequired[Literal[True]]
    """True if the new arguments are too large for the event. `GET /v1/runs/{run_id}/tool_calls`
    returns the complete arguments."""
    digest: NotRequired[str]
    """Digest of the edited call. Set only for the decision `edit`."""
    remembered: NotRequired[Literal[True]]
    """True if Runward applied a remembered decision and created no approval."""


@documented
class ToolCallStartedData(TypedDict):
    """Data of a `tool_call.started` event."""

    call_id: RunCallId
    tool: CalledTool
    attempt: int
    """Number of the attempt, counted from 1 for each call."""
    digest: str
    """Digest of the tool, its version, its target URL, and the arguments."""
    webhook_id: str
    """Value of the `webhook-id` and `Idempotency-Key` headers that Runward sends to the tool. All
    attempts of a call use the same value."""
    timeout_seconds: float | None
    """Time limit of the call in seconds. Null: the call has no timeout, and Runward waits until the
    run ends."""


@documented
class ToolCallProgressData(TypedDict):
    """Data of a `tool_call.progress` event."""

    call_id: RunCallId
    status: CallProgress
    """What happened to the call."""
    progress: NotRequired[float | None]
    """Progress from 0 to 1, as the tool reported it."""
    message: NotRequired[str | None]
    """Progress message from the tool. The model does not see it."""
    requests: NotRequired[JsonValue]
    """Input that the tool requests from the client. Null if it is larger than 32 KiB."""
    requests_bytes: NotRequired[int]
    """Size of `requests` in bytes. Set only if `requests` is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if `requests` is too large for the event. The run's `required_actions` contain the
    complete value."""
    run_id: NotRequired[str]
    """ID of the child run. Set only for the status `child_started`."""
    agent: NotRequired[str | None]
    """Name of the child run's agent. Set only for the status `child_started`."""


@documented
class ToolCallEndedData(TypedDict):
    """Data of the events of a tool call that has ended, such as `tool_call.completed`."""

    call_id: RunCallId
    tool: CalledTool
    hosted: NotRequired[str]
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name for
    it. Set only for calls that the provider ran."""
    attempt: NotRequired[int]
    """Number of attempts of the call."""
    output: NotRequired[JsonValue]
    """Output of the call as the model reads it. A longer output is truncated to 32 KiB."""
    output_bytes: NotRequired[int]
    """Size of the full output in bytes. Set only if the output is too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the output in this event is truncated. `GET /v1/runs/{run_id}/tool_calls` returns the
    complete output."""
    is_error: NotRequired[bool]
    """Whether the model reads the output as an error."""
    reason: NotRequired[CallReason]
    """Why the call failed, was rejected, or was not run."""
    detail: NotRequired[str | None]
    """Technical details of the outcome, for operators. The model does not see them."""
    metadata: NotRequired[JsonObject]
    """Metadata that the tool returned together with its output. The model does not see it."""
    awaiting_resolution: NotRequired[Literal[True]]
    """True if the outcome is unknown and a person must record the outcome."""
