"""The `data` of events about runs and models."""

from typing import Annotated, Literal, NotRequired

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.domain.events.values import (
    CalledTool,
    EventTurn,
    Owner,
    RunCallId,
    RunErrorCode,
    TurnsSoFar,
)
from runward.domain.json import JsonObject, documented


class RunOrigin(TypedDict, total=False):
    """The origin of a run that was not started by a request alone."""

    parent_call_id: str
    continued_from: str


@documented
class RunCreatedData(TypedDict):
    """Data of a `run.created` event."""

    agent: str | None
    """Name of the agent that the run was started with. Null if the run uses no registered agent."""
    model: str | list[str] | None
    """Model of the run, or a list of models in order of preference. Null for a workflow, because
    workflows have no model."""
    tools: list[str]
    """Names of the tools that the run may call."""
    parent_call_id: NotRequired[str]
    """ID of the parent's tool call that started this run. Set only for child runs."""
    continued_from: NotRequired[str]
    """ID of the run that this run continues. Set only for continued runs."""


@documented
class EmptyData(TypedDict):
    """Empty data. The event's type contains all the information."""


@documented
class RunWaitingCall(TypedDict):
    """A tool call that the run waits for."""

    type: Literal["approval", "callback", "tool_result", "resolve", "child_run"]
    """What the call waits for. `approval`: a decision. `callback`: a callback from the tool.
    `tool_result`: a result or input from the client. `resolve`: a person who records the outcome.
    `child_run`: a child run."""
    call_id: RunCallId
    tool: CalledTool
    approval_id: NotRequired[str]
    """ID of the approval. Set only for the type `approval`."""
    run_id: NotRequired[str]
    """ID of the child run. Set only for the type `child_run`."""


@documented
class RunWaitingData(TypedDict):
    """Data of a `run.waiting` event."""

    waiting_for: list[RunWaitingCall]
    """Tool calls that the run waits for."""


@documented
class BudgetExceededData(TypedDict):
    """Data of a `budget.exceeded` event. It contains the amounts in US dollars or in tokens."""

    budget_id: str
    """ID of the budget."""
    limit_usd: NotRequired[float]
    """Limit of the budget in US dollars."""
    estimate_usd: NotRequired[float]
    """Estimated cost of the model request in US dollars."""
    limit_tokens: NotRequired[int]
    """Limit of the budget in tokens."""
    estimate_tokens: NotRequired[int]
    """Estimated input and output tokens of the model request."""
    period_ends_at: str
    """End of the budget's current period."""


@documented
class RunError(TypedDict):
    """The error that a run failed with."""

    code: RunErrorCode
    """Stable error code, for programs."""
    message: str | None
    """Description of the error, for people."""


@documented
class IncompleteDetails(TypedDict):
    """The limit that ended a run."""

    reason: str
    """Code of the limit, such as `max_turns` or `deadline`."""
    message: str | None
    """Description of the limit, for people."""


@documented
class RunEndedData(TypedDict):
    """Data of the last event of a run, such as `run.completed`."""

    output: NotRequired[JsonValue]
    """Final output of the run. A longer output is truncated to 32 KiB."""
    truncated: NotRequired[Literal[True]]
    """True if the output in this event is truncated. `GET /v1/runs/{run_id}` returns the complete
    output."""
    error: NotRequired[RunError]
    """The error that the run failed with. Set only for failed runs."""
    incomplete_details: NotRequired[IncompleteDetails]
    """The limit that ended the run. Set only if a limit ended it."""


@documented
class MessageCompletedData(TypedDict):
    """Data of a `message.completed` event."""

    turn: EventTurn
    agent: Owner
    text: str
    """Complete text that the model generated in this turn."""
    refusal: bool
    """Whether the text is a refusal by the model."""


@documented
class ReasoningCompletedData(TypedDict):
    """Data of a `reasoning.completed` event."""

    turn: EventTurn
    agent: Owner
    reasoning: JsonObject
    """Reasoning in the format of the model's provider."""


@documented
class HandoffCompletedData(
    TypedDict(
        "_From",
        {
            "from": Annotated[
                str | None,
                Field(
                    description="Name of the agent that executed the run before the handoff. Null "
                    "if the run was started without a registered agent."
                ),
            ]
        },
    )
):
    """Data of a `handoff.completed` event."""

    to: str
    """Name of the agent that continues the run after the handoff."""
    turn: TurnsSoFar


@documented
class StateUpdatedData(TypedDict):
    """Data of a `state.updated` event."""

    call_id: str
    """ID of the tool call that changed the shared state."""
    changes: JsonObject | None
    """Changed keys of the shared state with their new values. A value of null means that the key
    was removed. Null if the changes are larger than 32 KiB."""
    changes_bytes: NotRequired[int]
    """Size of `changes` in bytes. Set only if the changes are too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if the changes are too large for the event. `GET /v1/sessions/{session_id}` returns the
    state of a session in full."""


@documented
class InputReceivedData(TypedDict):
    """Data of an `input.received` event."""

    turn: TurnsSoFar
    messages: int
    """Number of messages that were received."""


class UsageOrigin(TypedDict, total=False):
    call_id: str
    model: str


@documented
class UsageUpdatedData(TypedDict):
    """Data of a `usage.updated` event."""

    turn: TurnsSoFar
    call_id: NotRequired[str]
    """ID of the tool call that started the child run, or of the call whose plugin function reported
    the usage. Not set for the usage of the run's own model requests."""
    model: NotRequired[str]
    """Model that a plugin function used. Set only if the function reported the usage."""
    input_tokens: int
    """Total number of input tokens of the run so far."""
    output_tokens: int
    """Total number of output tokens of the run so far."""
    cached_tokens: int
    """Number of input tokens that the provider read from its cache."""
    reasoning_tokens: int
    """Number of output tokens that the model used for reasoning."""
    total_tokens: int
    """Total number of input and output tokens of the run so far."""
    cost_usd: float
    """Total cost of the run so far in US dollars."""


@documented
class ModelRetriedData(TypedDict):
    """Data of a `model.retried` event."""

    code: str
    """Stable code of the reason, for programs."""
    message: str
    """Description of the reason, for people."""
    model: NotRequired[str]
    """Model of the next request. Set only if a request failed."""
    after_seconds: NotRequired[float]
    """Delay before the next request, in seconds. Set only if a request failed."""


@documented
class ModelSettingDroppedData(TypedDict):
    """Data of a `model.setting_dropped` event."""

    model: str
    """Model that does not support the omitted part of the request."""
    setting: str
    """Name of the omitted setting, or of another omitted part of the request."""
    reason: str
    """Why Runward omitted this part of the request, for people."""


@documented
class RequestedCallData(TypedDict):
    """A tool call that the model requested and that Runward has not validated yet."""

    call_id: str
    """ID of the call, as the model's provider generated it."""
    name: str
    """Name of the tool, as the model wrote it."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""


@documented
class ModelCallsChangedData(TypedDict):
    """Data of a `model.calls_changed` event."""

    turn: EventTurn
    agent: Owner
    hook: str
    """The hook that changed the calls, such as `hook (after_model) of plugin shop.limit`."""
    requested_calls: list[RequestedCallData] | None
    """Tool calls that the model requested. Null if they are larger than 32 KiB."""
    requested_calls_bytes: NotRequired[int]
    """Size of `requested_calls` in bytes. Set only if they are too large for the event."""
    truncated: NotRequired[Literal[True]]
    """True if `requested_calls` is too large for the event."""


@documented
class TextDeltaData(TypedDict):
    """Data of an event that contains a piece of streamed text."""

    turn: EventTurn
    agent: Owner
    text: Annotated[str, Field(description="Text of this piece.")]
    offset: Annotated[
        int, Field(description="Number of characters of the same text that came before this piece.")
    ]


@documented
class ToolCallArgumentsDeltaData(TextDeltaData):
    """Data of a `tool_call.arguments.delta` event."""

    call_id: str | None
    """ID of the tool call. Null until the model has generated the ID."""
    tool: str | None
    """Name of the tool. Null until the model has generated the name."""


@documented
class MessageRestartedData(TypedDict):
    """Data of a `message.restarted` event."""

    turn: EventTurn
    agent: Owner
