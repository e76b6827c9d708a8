"""All kinds of events of a run, in the order of `docs/reference/events.md`. The docstring of a
kind is its description in openapi.json, and its type argument is the schema of its `data`."""

from typing import Any, Final, cast

from runward.domain.events.base import AnyEvent, NewEvent, TransientEvent
from runward.domain.events.call_data import (
    ApprovalDecidedData,
    ApprovalRequestedData,
    CallCreatedData,
    CallEndedData,
    CallProgressData,
    CallStartedData,
)
from runward.domain.events.run_data import (
    AgentChangedData,
    ArgumentsPieceData,
    InputReceivedData,
    MessageCompletedData,
    ModelDowngradedData,
    ModelRetriedData,
    NothingData,
    PieceData,
    ReasoningCompletedData,
    RestartedData,
    RunCreatedData,
    RunEndedData,
    RunWaitingData,
    StateUpdatedData,
    UsageUpdatedData,
)


class RunCreatedEvent(NewEvent[RunCreatedData], type="run.created"):
    """Runward accepted the run with this agent, model and tools."""


class RunStartedEvent(NewEvent[NothingData], type="run.started"):
    """A worker claimed the run for the first time."""


class RunWaitingEvent(NewEvent[RunWaitingData], type="run.waiting"):
    """The run cannot proceed until a person, client or child run acts. `waiting_for` lists the
    calls. A run that waits only for callbacks has no such event."""


class RunResumedEvent(NewEvent[NothingData], type="run.resumed"):
    """A worker claimed the run again, after a wait or after the previous worker was lost."""


class RunCompletedEvent(NewEvent[RunEndedData], type="run.completed"):
    """Final event: the run completed with an `output`."""


class RunFailedEvent(NewEvent[RunEndedData], type="run.failed"):
    """Final event: the run failed. `error` has a code and a message."""


class RunCancelledEvent(NewEvent[RunEndedData], type="run.cancelled"):
    """Final event: the run was cancelled."""


class RunIncompleteEvent(NewEvent[RunEndedData], type="run.incomplete"):
    """Final event: the run reached a limit, which `incomplete_details` names."""


class RunExpiredEvent(NewEvent[RunEndedData], type="run.expired"):
    """Final event: the deadline passed while the run waited."""


class MessageCompletedEvent(NewEvent[MessageCompletedData], type="message.completed"):
    """The complete text of the model in one turn."""


class ReasoningCompletedEvent(NewEvent[ReasoningCompletedData], type="reasoning.completed"):
    """The model's reasoning in one turn, as far as the provider returns it."""


class ToolCallCreatedEvent(NewEvent[CallCreatedData], type="tool_call.created"):
    """The model requested a tool call with these arguments."""


class ToolCallApprovalRequestedEvent(
    NewEvent[ApprovalRequestedData], type="tool_call.approval_requested"
):
    """Runward created an approval for the call."""


class ToolCallApprovalDecidedEvent(
    NewEvent[ApprovalDecidedData], type="tool_call.approval_decided"
):
    """An approver decided the approval, or a remembered decision applied."""


class ToolCallStartedEvent(NewEvent[CallStartedData], type="tool_call.started"):
    """An attempt of the call started. Runward commits this event before it sends the request."""


class ToolCallProgressEvent(NewEvent[CallProgressData], type="tool_call.progress"):
    """The tool accepted the call for later, or the call made progress."""


class ToolCallCompletedEvent(NewEvent[CallEndedData], type="tool_call.completed"):
    """The call has an output."""


class ToolCallFailedEvent(NewEvent[CallEndedData], type="tool_call.failed"):
    """The call has an error result with a `reason`."""


class ToolCallTimedOutEvent(NewEvent[CallEndedData], type="tool_call.timed_out"):
    """The call had no complete response within its timeout."""


class ToolCallRejectedEvent(NewEvent[CallEndedData], type="tool_call.rejected"):
    """An approver, a guardrail or a hook rejected the call, or its approval expired."""


class ToolCallOutcomeUnknownEvent(NewEvent[CallEndedData], type="tool_call.outcome_unknown"):
    """Runward sent the call, and it may or may not have taken effect."""


class ToolCallCancelledEvent(NewEvent[CallEndedData], type="tool_call.cancelled"):
    """The run ended before the call had a result."""


class AgentChangedEvent(NewEvent[AgentChangedData], type="agent.changed"):
    """The run was handed from one agent (`from`) to another (`to`)."""


class StateUpdatedEvent(NewEvent[StateUpdatedData], type="state.updated"):
    """A call changed the shared state. Removed keys are null."""


class InputReceivedEvent(NewEvent[InputReceivedData], type="input.received"):
    """A client sent a message to the open run."""


class UsageUpdatedEvent(NewEvent[UsageUpdatedData], type="usage.updated"):
    """The tokens that the run has used so far."""


class ModelRetriedEvent(NewEvent[ModelRetriedData], type="model.retried"):
    """A model request failed, and Runward retries it or uses the next model."""


class ModelDowngradedEvent(NewEvent[ModelDowngradedData], type="model.downgraded"):
    """The model does not support a setting, so Runward dropped it."""


class MessageDeltaEvent(TransientEvent[PieceData], type="message.delta"):
    """A part of the model's text."""


class ReasoningDeltaEvent(TransientEvent[PieceData], type="reasoning.delta"):
    """A part of the model's reasoning."""


class ToolCallArgumentsDeltaEvent(
    TransientEvent[ArgumentsPieceData], type="tool_call.arguments.delta"
):
    """A part of the arguments of a call."""


class MessageRestartedEvent(TransientEvent[RestartedData], type="message.restarted"):
    """The model's stream broke and starts again. Discard the parts of this turn."""


STORED: Final = {
    kind.type: kind for kind in cast("list[type[AnyEvent]]", NewEvent.__subclasses__())
}
TRANSIENT: Final = {
    kind.type: kind
    for kind in cast("list[type[TransientEvent[Any]]]", TransientEvent.__subclasses__())
}
"""Streamed while they happen, without an SSE `id`; never stored."""
