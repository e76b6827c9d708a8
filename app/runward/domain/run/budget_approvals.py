"""Approvals to exceed a budget.

Runward requests such an approval with a tool call of its own, so that decisions, expiries and child
runs work as for other calls. No model sees the call, because no response requested it.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, cast
from uuid import UUID

from runward.domain.events.kinds import BudgetExceededEvent, ToolCallCreatedEvent
from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.tools import EXCEED_BUDGET, ToolSpec
from runward.domain.run.approvals import require_approval
from runward.domain.run.budgets import BudgetWait, format_period_end
from runward.domain.run.run_events import build_budget_data
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    RunState,
    compute_call_digest,
)
from runward.domain.run.tools import UNREGISTERED, compile_tool

TOOL: Final = compile_tool(
    ToolSpec(
        name=EXCEED_BUDGET,
        parameters={"type": "object"},
        type="builtin",
        reject_message="The request to exceed it was rejected.",
    ),
    UNREGISTERED,
)

ApprovedBudgets: TypeAlias = frozenset[tuple[str, str]]
"""IDs of budgets, and the ends of the periods for which a person approved to exceed them."""


def ask_to_exceed(
    state: RunState, changes: Changes, wait: BudgetWait, mint: Callable[[], UUID]
) -> RunState:
    """Request an approval to exceed the budget in its current period."""
    data = build_budget_data(wait)
    arguments = cast(JsonObject, data)
    uuid = mint()
    call = Call(
        id=CallId(format_id(Prefix.CALL, uuid)),
        uuid=uuid,
        turn=state.turn,
        position=len(state.turn_calls),
        tool=TOOL.name,
        version=TOOL.version,
        arguments=arguments,
        digest=compute_call_digest(TOOL.name, TOOL.version, None, arguments),
        phase=CallPhase.READY,
    )
    changes.inserted[call.id] = call
    changes.add(BudgetExceededEvent(data))
    changes.add(
        ToolCallCreatedEvent(
            {
                "call_id": call.id,
                "tool": call.tool,
                "tool_version": call.version,
                "tool_type": TOOL.spec.type,
                "turn": call.turn,
                "agent": state.agent,
                "arguments": arguments,
            }
        )
    )
    return require_approval(state, changes, call, TOOL, mint)


def list_approved_budgets(state: RunState) -> ApprovedBudgets:
    """Return the budgets that this run may exceed."""
    return frozenset(
        (str(call.arguments["budget_id"]), str(call.arguments["period_ends_at"]))
        for call in state.calls.values()
        if call.tool == TOOL.name
        and call.result is not None
        and call.result.outcome is CallOutcome.COMPLETED
    )


def is_approved(wait: BudgetWait, approved: ApprovedBudgets) -> bool:
    return (format_id(Prefix.BUDGET, wait.budget_id), format_period_end(wait)) in approved
