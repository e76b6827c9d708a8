"""The events of one model response."""

from runward.domain.events.base import bounded_field
from runward.domain.events.call_data import CallCreatedData
from runward.domain.events.kinds import (
    MessageCompletedEvent,
    ReasoningCompletedEvent,
    ToolCallCompletedEvent,
    ToolCallCreatedEvent,
    ToolCallFailedEvent,
)
from runward.domain.run.items import HostedCall
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import Changes, RunState


def add_response_events(
    changes: Changes, state: RunState, response: ModelResponse, turn: int
) -> None:
    """Add what the model thought, what its provider ran, and its text."""
    for reasoning in response.reasoning:
        changes.add(
            ReasoningCompletedEvent(
                {"turn": turn, "agent": state.agent, "reasoning": reasoning.data}
            )
        )
    for one in response.output:
        if isinstance(one, HostedCall):
            _add_hosted_events(changes, state, one, turn)
    text = response.text if response.refusal is None else response.refusal
    if text or not response.calls:
        refusal = response.refusal is not None
        changes.add(
            MessageCompletedEvent(
                {"turn": turn, "agent": state.agent, "text": text, "refusal": refusal}
            )
        )


def _add_hosted_events(changes: Changes, state: RunState, one: HostedCall, turn: int) -> None:
    """Add both ends of a call that the provider ran. It is not in the ledger."""
    created: CallCreatedData = {
        "call_id": one.call_id,
        "tool": one.name,
        "hosted": one.kind,
        "turn": turn,
        "agent": state.agent,
        **bounded_field("arguments", one.arguments),
    }
    changes.add(ToolCallCreatedEvent(created))
    ending = ToolCallFailedEvent if one.is_error else ToolCallCompletedEvent
    output = bounded_field("output", one.output)
    changes.add(ending({"call_id": one.call_id, "tool": one.name, "hosted": one.kind, **output}))
