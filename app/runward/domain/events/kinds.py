"""All kinds of events of a run, in the order of `docs/reference/events.md`. The docstring of a
kind is its description in openapi.json, and its type argument is the schema of its `data`."""

from typing import Any, Final, cast

from runward.domain.events.base import AnyEvent, NewEvent, TransientEvent
from runward.domain.events.call_data import (
    ApprovalDecidedData,
    ApprovalRequestedData,
    ToolCallCreatedData,
    ToolCallEndedData,
    ToolCallProgressData,
    ToolCallStartedData,
)
from runward.domain.events.run_data import (
    BudgetExceededData,
    EmptyData,
    HandoffCompletedData,
    InputReceivedData,
    MessageCompletedData,
    MessageRestartedData,
    ModelCallsChangedData,
    ModelRetriedData,
    ModelSettingDroppedData,
    ReasoningCompletedData,
    RunCreatedData,
    RunEndedData,
    RunWaitingData,
    StateUpdatedData,
    TextDeltaData,
    ToolCallArgumentsDeltaData,
    UsageUpdatedData,
)


class RunCreatedEvent(NewEvent[RunCreatedData], type="run.created"):
    """The run was accepted. The data names its agent, model, and tools."""


class RunStartedEvent(NewEvent[EmptyData], type="run.started"):
    """A worker claimed the run for the first time."""


class RunWaitingEvent(NewEvent[RunWaitingData], type="run.waiting"):
    """The run cannot continue until a person or a client acts. `waiting_for` lists the tool calls
    that wait. If a run waits only for callbacks, Runward records no such event."""


class BudgetExceededEvent(NewEvent[BudgetExceededData], type="budget.exceeded"):
    """A budget has no room for the next model request. The run is queued until the budget's period
    ends, or until the budget has room for the request, is raised, or is deleted. If the budget asks
    a person, the run waits for an approval instead."""


class RunResumedEvent(NewEvent[EmptyData], type="run.resumed"):
    """A worker claimed the run again, after the run had waited or its previous worker was lost."""


class RunCompletedEvent(NewEvent[RunEndedData], type="run.completed"):
    """The run completed. This is its last event, and it contains the output."""


class RunFailedEvent(NewEvent[RunEndedData], type="run.failed"):
    """The run failed. This is its last event, and `error` contains a code and a message."""


class RunCancelledEvent(NewEvent[RunEndedData], type="run.cancelled"):
    """The run was cancelled. This is its last event."""


class RunIncompleteEvent(NewEvent[RunEndedData], type="run.incomplete"):
    """The run reached a limit. This is its last event, and `incomplete_details` names the limit."""


class RunExpiredEvent(NewEvent[RunEndedData], type="run.expired"):
    """The run's deadline passed while the run was waiting. This is its last event."""


class MessageCompletedEvent(NewEvent[MessageCompletedData], type="message.completed"):
    """The model's complete text of one turn."""


class ReasoningCompletedEvent(NewEvent[ReasoningCompletedData], type="reasoning.completed"):
    """The model's reasoning in one turn. Only some providers return reasoning."""


class ToolCallCreatedEvent(NewEvent[ToolCallCreatedData], type="tool_call.created"):
    """The model requested a tool call. The data contains the exact arguments."""


class ToolCallApprovalRequestedEvent(
    NewEvent[ApprovalRequestedData], type="tool_call.approval_requested"
):
    """Runward created an approval for the call. The data contains the approval's ID and the digest
    of the call."""


class ToolCallApprovalDecidedEvent(
    NewEvent[ApprovalDecidedData], type="tool_call.approval_decided"
):
    """A person decided on the call, or Runward applied a remembered decision."""


class ToolCallStartedEvent(NewEvent[ToolCallStartedData], type="tool_call.started"):
    """An attempt at the call is about to start. Runward commits this event before it sends the
    first byte."""


class ToolCallProgressEvent(NewEvent[ToolCallProgressData], type="tool_call.progress"):
    """The status of a call changed: for example, the tool accepted it, requested input, or reported
    progress."""


class ToolCallCompletedEvent(NewEvent[ToolCallEndedData], type="tool_call.completed"):
    """The call completed. The data contains its output."""


class ToolCallFailedEvent(NewEvent[ToolCallEndedData], type="tool_call.failed"):
    """The call failed, and the model reads an error. `reason` contains the cause."""


class ToolCallTimedOutEvent(NewEvent[ToolCallEndedData], type="tool_call.timed_out"):
    """The tool did not return a complete response before the call timed out."""


class ToolCallRejectedEvent(NewEvent[ToolCallEndedData], type="tool_call.rejected"):
    """A person or a guardrail rejected the call, or its approval expired."""


class ToolCallOutcomeUnknownEvent(NewEvent[ToolCallEndedData], type="tool_call.outcome_unknown"):
    """The call was sent, but it is unknown whether it took effect."""


class ToolCallCancelledEvent(NewEvent[ToolCallEndedData], type="tool_call.cancelled"):
    """The run ended before the call had a result."""


class HandoffCompletedEvent(NewEvent[HandoffCompletedData], type="handoff.completed"):
    """An agent handed the run over to another agent. The data contains the names of both agents."""


class StateUpdatedEvent(NewEvent[StateUpdatedData], type="state.updated"):
    """A call changed the shared state. A value of null means that the call removed the key."""


class InputReceivedEvent(NewEvent[InputReceivedData], type="input.received"):
    """A client sent another message while the run was open."""


class UsageUpdatedEvent(NewEvent[UsageUpdatedData], type="usage.updated"):
    """The total number of tokens that the run has used so far."""


class ModelRetriedEvent(NewEvent[ModelRetriedData], type="model.retried"):
    """A model request failed, or the model returned an invalid output or a malformed call. Runward
    sends another request to the same model or to the next one."""


class ModelSettingDroppedEvent(NewEvent[ModelSettingDroppedData], type="model.setting_dropped"):
    """Runward omitted a part of the request, because the model does not support it, because
    `tools_in_prompt` is set, or because it exceeds the model's context window."""


class ModelCallsChangedEvent(NewEvent[ModelCallsChangedData], type="model.calls_changed"):
    """An `after_model` hook changed the tool calls of the model's response. The data contains the
    calls that the model requested. The hook's calls follow as `tool_call.created` events."""


class MessageDeltaEvent(TransientEvent[TextDeltaData], type="message.delta"):
    """A piece of the model's text, streamed while the model generates it."""


class ReasoningDeltaEvent(TransientEvent[TextDeltaData], type="reasoning.delta"):
    """A piece of the model's reasoning, streamed while the model generates it."""


class ToolCallArgumentsDeltaEvent(
    TransientEvent[ToolCallArgumentsDeltaData], type="tool_call.arguments.delta"
):
    """A piece of a call's arguments, streamed while the model generates it."""


class MessageRestartedEvent(TransientEvent[MessageRestartedData], type="message.restarted"):
    """The model's stream was interrupted and starts again. Discard the pieces of this turn."""


STORED: Final = {
    kind.type: kind for kind in cast("list[type[AnyEvent]]", NewEvent.__subclasses__())
}
TRANSIENT: Final = {
    kind.type: kind
    for kind in cast("list[type[TransientEvent[Any]]]", TransientEvent.__subclasses__())
}
"""Kinds that are streamed when they happen, without an SSE `id`, and never stored."""
