"""The `data` of events about tool calls."""

from typing import Literal, NotRequired

from pydantic import JsonValue
from typing_extensions import TypedDict

from runward.domain.events.values import (
    ApprovalStatus,
    ArgumentsBytes,
    CalledTool,
    CallProgress,
    DecisionKind,
    Reason,
    RunCallId,
)
from runward.domain.json import JsonObject, documented
from runward.domain.registry.tools import ToolType


@documented
class CallCreatedData(TypedDict):
    call_id: RunCallId
    tool: str
    """Its tool, as the model wrote it."""
    tool_version: NotRequired[int | None]
    """Null for a tool that does not exist."""
    tool_type: NotRequired[ToolType | None]
    """How it is executed; null for a tool that does not exist."""
    hosted: NotRequired[str]
    """Of a call that the vendor ran by itself: its kind, or what the vendor calls it."""
    turn: int
    """The turn whose response asked for it."""
    agent: str | None
    """Whose call it is; null for an inline run."""
    arguments: JsonObject | None
    """The exact arguments; null where they are larger than 32 KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    arguments_text: NotRequired[str | None]
    """What the model wrote, where it was no JSON object."""
    arguments_text_bytes: NotRequired[int]
    """How large a text is that is left out."""
    truncated: NotRequired[Literal[True]]
    """The ledger has the arguments whole."""


@documented
class ApprovalRequestedData(TypedDict):
    approval_id: str
    """What decisions name."""
    call_id: RunCallId
    tool: str
    """The tool that would be called."""
    tool_version: int
    """Its version."""
    arguments: JsonObject | None
    """The exact arguments; null where they are larger than 32 KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    truncated: NotRequired[Literal[True]]
    """The approval has the arguments whole."""
    digest: str
    """Of exactly this call."""
    expires_in_seconds: float
    """After which it counts as unanswered."""


@documented
class ApprovalDecidedData(TypedDict):
    approval_id: NotRequired[str]
    """Which approval; left out where a remembered decision covered the call."""
    call_id: RunCallId
    tool: NotRequired[CalledTool]
    decision: DecisionKind
    """What was decided."""
    status: NotRequired[ApprovalStatus]
    """The approval's, since then."""
    decided_by: NotRequired[str | None]
    """The id of the key that decided."""
    message: NotRequired[str]
    """The decider's words."""
    arguments: NotRequired[JsonObject | None]
    """After an edit: the new arguments; null where they are larger than 32 KiB."""
    arguments_bytes: NotRequired[ArgumentsBytes]
    truncated: NotRequired[Literal[True]]
    """The ledger has the arguments whole."""
    digest: NotRequired[str]
    """After an edit: of the call as it is now."""
    remembered: NotRequired[Literal[True]]
    """A decision that was remembered covered it."""


@documented
class CallStartedData(TypedDict):
    call_id: RunCallId
    tool: CalledTool
    attempt: int
    """1, 2, 3 … of this call."""
    digest: str
    """Of exactly this call."""
    webhook_id: str
    """The `webhook-id` and `Idempotency-Key` that the tool gets."""
    timeout_seconds: float | None
    """How long it has; null: as long as its run."""


@documented
class CallProgressData(TypedDict):
    call_id: RunCallId
    status: CallProgress
    """What happened."""
    progress: NotRequired[float | None]
    """From 0 to 1."""
    message: NotRequired[str | None]
    """For whoever watches."""
    requests: NotRequired[JsonValue]
    """What a tool asks; null where it is larger than 32 KiB."""
    requests_bytes: NotRequired[int]
    """How large requests are that are left out."""
    truncated: NotRequired[Literal[True]]
    """The run's `required_actions` have them whole."""
    run_id: NotRequired[str]
    """Of a child run."""
    agent: NotRequired[str | None]
    """Of a child run."""


@documented
class CallEndedData(TypedDict):
    call_id: RunCallId
    tool: CalledTool
    hosted: NotRequired[str]
    """Of a call that the vendor ran by itself: its kind, or what the vendor calls it."""
    attempt: NotRequired[int]
    """How often it was sent."""
    output: NotRequired[JsonValue]
    """What the model reads, cut where it is longer than 32 KiB."""
    output_bytes: NotRequired[int]
    """How large an output is that is left out."""
    truncated: NotRequired[Literal[True]]
    """It was cut; the ledger has it whole."""
    is_error: NotRequired[bool]
    """Whether the model is told that it failed."""
    reason: NotRequired[Reason]
    """Why it failed, was rejected or was not run."""
    detail: NotRequired[str | None]
    """For operators."""
    metadata: NotRequired[JsonObject]
    """What the tool said beside its output."""
    awaiting_resolution: NotRequired[Literal[True]]
    """A person is asked what became of it."""
