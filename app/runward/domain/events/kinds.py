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
    """The run was accepted: its agent, model and tools."""


class RunStartedEvent(NewEvent[NothingData], type="run.started"):
    """A worker took it for the first time."""


class RunWaitingEvent(NewEvent[RunWaitingData], type="run.waiting"):
    """Nothing can run until someone acts: `waiting_for` names what. A run that waits only for
    callbacks has no such event."""


class RunResumedEvent(NewEvent[NothingData], type="run.resumed"):
    """A worker took it again, after a wait or after its former worker was lost."""


class RunCompletedEvent(NewEvent[RunEndedData], type="run.completed"):
    """Last event: the run has its `output`."""


class RunFailedEvent(NewEvent[RunEndedData], type="run.failed"):
    """Last event: `error` has a code and a message."""


class RunCancelledEvent(NewEvent[RunEndedData], type="run.cancelled"):
    """Last event: someone cancelled it."""


class RunIncompleteEvent(NewEvent[RunEndedData], type="run.incomplete"):
    """Last event: a limit was reached; `incomplete_details` names it."""


class RunExpiredEvent(NewEvent[RunEndedData], type="run.expired"):
    """Last event: its deadline passed while it waited."""


class MessageCompletedEvent(NewEvent[MessageCompletedData], type="message.completed"):
    """The model's whole text of one turn."""


class ReasoningCompletedEvent(NewEvent[ReasoningCompletedData], type="reasoning.completed"):
    """The model's reasoning of one turn, as far as the vendor shows it."""


class ToolCallCreatedEvent(NewEvent[CallCreatedData], type="tool_call.created"):
    """The model asked for a call; its exact arguments."""


class ToolCallApprovalRequestedEvent(
    NewEvent[ApprovalRequestedData], type="tool_call.approval_requested"
):
    """A person is asked: approval id and digest."""


class ToolCallApprovalDecidedEvent(
    NewEvent[ApprovalDecidedData], type="tool_call.approval_decided"
):
    """Who decided what, or that a remembered decision covered it."""


class ToolCallStartedEvent(NewEvent[CallStartedData], type="tool_call.started"):
    """Committed before the first byte is sent: attempt and digest."""


class ToolCallProgressEvent(NewEvent[CallProgressData], type="tool_call.progress"):
    """The tool accepted the call for later, or reported progress."""


class ToolCallCompletedEvent(NewEvent[CallEndedData], type="tool_call.completed"):
    """The call's output."""


class ToolCallFailedEvent(NewEvent[CallEndedData], type="tool_call.failed"):
    """The call has an error result, with its `reason`."""


class ToolCallTimedOutEvent(NewEvent[CallEndedData], type="tool_call.timed_out"):
    """No complete answer within the call's time."""


class ToolCallRejectedEvent(NewEvent[CallEndedData], type="tool_call.rejected"):
    """A person or a guardrail refused it, or nobody answered in time."""


class ToolCallOutcomeUnknownEvent(NewEvent[CallEndedData], type="tool_call.outcome_unknown"):
    """It was sent and may or may not have taken effect."""


class ToolCallCancelledEvent(NewEvent[CallEndedData], type="tool_call.cancelled"):
    """The run ended before the call had a result."""


class AgentChangedEvent(NewEvent[AgentChangedData], type="agent.changed"):
    """The run was handed over: `from` one agent `to` another."""


class StateUpdatedEvent(NewEvent[StateUpdatedData], type="state.updated"):
    """What a call changed of the shared state, null for what it removed."""


class InputReceivedEvent(NewEvent[InputReceivedData], type="input.received"):
    """Somebody sent another message while the run was open."""


class UsageUpdatedEvent(NewEvent[UsageUpdatedData], type="usage.updated"):
    """Tokens used by the run so far."""


class ModelRetriedEvent(NewEvent[ModelRetriedData], type="model.retried"):
    """A model request failed and is tried again, or with the next model."""


class ModelDowngradedEvent(NewEvent[ModelDowngradedData], type="model.downgraded"):
    """The model cannot be told a part of what was asked, which is left out."""


class MessageDeltaEvent(TransientEvent[PieceData], type="message.delta"):
    """A piece of the model's text, as it comes."""


class ReasoningDeltaEvent(TransientEvent[PieceData], type="reasoning.delta"):
    """A piece of the model's reasoning, as it comes."""


class ToolCallArgumentsDeltaEvent(
    TransientEvent[ArgumentsPieceData], type="tool_call.arguments.delta"
):
    """A piece of a call's arguments, as it comes."""


class MessageRestartedEvent(TransientEvent[RestartedData], type="message.restarted"):
    """The model's stream broke and starts again: what was shown is void."""


STORED: Final = {
    kind.type: kind for kind in cast("list[type[AnyEvent]]", NewEvent.__subclasses__())
}
TRANSIENT: Final = {
    kind.type: kind
    for kind in cast("list[type[TransientEvent[Any]]]", TransientEvent.__subclasses__())
}
"""Streamed while they happen, without an SSE `id`; never stored."""
