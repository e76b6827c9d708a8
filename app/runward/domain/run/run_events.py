"""The events of a run's beginning, of each model response, and of the ends of calls."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from runward.domain.events.base import NewEvent, bounded_field
from runward.domain.events.call_data import ToolCallCreatedData, ToolCallEndedData
from runward.domain.events.kinds import (
    MessageCompletedEvent,
    ModelCallsChangedEvent,
    ReasoningCompletedEvent,
    RunCreatedEvent,
    ToolCallCancelledEvent,
    ToolCallCompletedEvent,
    ToolCallCreatedEvent,
    ToolCallFailedEvent,
    ToolCallOutcomeUnknownEvent,
    ToolCallProgressEvent,
    ToolCallRejectedEvent,
    ToolCallTimedOutEvent,
    UsageUpdatedEvent,
)
from runward.domain.events.run_data import (
    BudgetExceededData,
    ModelCallsChangedData,
    RunOrigin,
    UsageOrigin,
    UsageUpdatedData,
)
from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.run.budgets import BudgetUnit, BudgetWait, format_period_end
from runward.domain.run.changed_calls import describe_requested_call
from runward.domain.run.config import AgentConfig, get_inline_tools
from runward.domain.run.items import HostedCall
from runward.domain.run.response import ModelResponse, ReplacedCalls, ReportedUsage, Usage
from runward.domain.run.state import Call, CallOutcome, Changes, RunState

CALL_ENDINGS: Final[Mapping[CallOutcome, type[NewEvent[ToolCallEndedData]]]] = {
    CallOutcome.COMPLETED: ToolCallCompletedEvent,
    CallOutcome.FAILED: ToolCallFailedEvent,
    CallOutcome.TIMED_OUT: ToolCallTimedOutEvent,
    CallOutcome.REJECTED: ToolCallRejectedEvent,
    CallOutcome.OUTCOME_UNKNOWN: ToolCallOutcomeUnknownEvent,
    CallOutcome.CANCELLED: ToolCallCancelledEvent,
}
"""The last event of a call, by its outcome."""


def add_run_created(
    changes: Changes, agent: str | None, config: AgentConfig, origin: RunOrigin
) -> None:
    """Add the first event of a run."""
    models = list(config.models)
    model = models[0] if len(models) == 1 else models or None
    tools = [*config.tools, *(one.name for one in get_inline_tools(config))]
    changes.add(RunCreatedEvent({"agent": agent, "model": model, "tools": tools, **origin}))


def add_response_events(
    changes: Changes, state: RunState, response: ModelResponse, turn: int
) -> None:
    """Add the events of the reasoning, of hosted calls, and of the text."""
    for reasoning in response.reasoning:
        changes.add(
            ReasoningCompletedEvent(
                {"turn": turn, "agent": state.agent, "reasoning": reasoning.data}
            )
        )
    for one in response.output:
        if isinstance(one, HostedCall):
            _add_hosted_events(changes, state, one, turn)
    if response.replaced is not None:
        _add_calls_changed(changes, state, response.replaced, turn)
    text = response.text if response.refusal is None else response.refusal
    if text or not response.calls:
        refusal = response.refusal is not None
        changes.add(
            MessageCompletedEvent(
                {"turn": turn, "agent": state.agent, "text": text, "refusal": refusal}
            )
        )


def _add_calls_changed(
    changes: Changes, state: RunState, replaced: ReplacedCalls, turn: int
) -> None:
    requested: list[JsonValue] = [describe_requested_call(call) for call in replaced.calls]
    data: ModelCallsChangedData = {
        "turn": turn,
        "agent": state.agent,
        "hook": replaced.hook,
        **bounded_field("requested_calls", requested),
    }
    changes.add(ModelCallsChangedEvent(data))


def _add_hosted_events(changes: Changes, state: RunState, call: HostedCall, turn: int) -> None:
    """Add the first and the last event of a hosted call, which is not in the tool-call log."""
    created: ToolCallCreatedData = {
        "call_id": call.call_id,
        "tool": call.name,
        "hosted": call.kind,
        "turn": turn,
        "agent": state.agent,
        **bounded_field("arguments", call.arguments),
    }
    changes.add(ToolCallCreatedEvent(created))
    ending = ToolCallFailedEvent if call.is_error else ToolCallCompletedEvent
    output = bounded_field("output", call.output)
    changes.add(ending({"call_id": call.call_id, "tool": call.name, "hosted": call.kind, **output}))


def add_usage(
    state: RunState,
    changes: Changes,
    usage: Usage,
    call_id: CallId | None = None,
    model: str | None = None,
) -> RunState:
    """Add the usage of a model request or, under `call_id`, of a child run. `model`: the model
    whose usage a tool reported under `call_id`."""
    total = state.usage + usage
    origin: UsageOrigin = {} if call_id is None else {"call_id": call_id}
    if model is not None:
        origin["model"] = model
    data: UsageUpdatedData = {
        "turn": state.turn,
        **origin,
        "input_tokens": total.input,
        "output_tokens": total.output,
        "cached_tokens": total.cached_input,
        "reasoning_tokens": total.reasoning,
        "total_tokens": total.total,
        "cost_usd": round(total.cost, 9),
    }
    changes.add(UsageUpdatedEvent(data))
    return replace(state, usage=total)


def add_reported_usage(
    state: RunState,
    changes: Changes,
    call_id: CallId,
    reported: Iterable[ReportedUsage],
    find_cost: Callable[[str, Usage], float | None],
) -> RunState:
    """Add the usage that a call's tool reported. `find_cost`: the cost of a model's usage, or None
    if its price is unknown."""
    for one in reported:
        usage = one.usage
        if not one.priced:
            usage = replace(usage, cost=find_cost(one.model, usage) or 0.0)
        state = add_usage(state, changes, usage, call_id, model=one.model)
    return state


def build_budget_data(wait: BudgetWait) -> BudgetExceededData:
    data: BudgetExceededData = {
        "budget_id": format_id(Prefix.BUDGET, wait.budget_id),
        "period_ends_at": format_period_end(wait),
    }
    if wait.unit is BudgetUnit.TOKENS:
        data["limit_tokens"], data["estimate_tokens"] = int(wait.limit), int(wait.estimate)
    else:
        data["limit_usd"], data["estimate_usd"] = wait.limit, round(wait.estimate, 9)
    return data


def add_progress(changes: Changes, call: Call, progress: float | None, message: str | None) -> None:
    """Add a tool's progress report, from 0 to 1."""
    changes.add(
        ToolCallProgressEvent(
            {"call_id": call.id, "status": "progress", "progress": progress, "message": message}
        )
    )
