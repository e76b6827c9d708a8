"""Tool results that end a run without another model response."""

from typing import assert_never

from runward.domain.registry.tools import RESERVED_NAMES
from runward.domain.run.config import StopAtTools
from runward.domain.run.state import Call, Result, RunState


def find_escalation(calls: tuple[Call, ...]) -> Result | None:
    """Return the first result whose tool set `escalate`, or None. Such a result ends this agent."""
    results = (call.result for call in calls if call.result is not None)
    return next((result for result in results if result.escalate), None)


def find_stopping_result(state: RunState, calls: tuple[Call, ...]) -> Result | None:
    """Return the result that ends the run because of `tool_use_behavior`: the first successful
    result, in the order of the calls. Returns None if no result ends the run. Results of built-in
    tools end the run only if `stop_at` names the tool."""
    match state.config.tool_use_behavior:
        case "run_llm_again":
            return None
        case "stop_on_first_tool":
            names = None
        case StopAtTools(stop_at=stop_at):
            names = stop_at
        case _:
            assert_never(state.config.tool_use_behavior)
    for call in calls:
        stops = call.tool not in RESERVED_NAMES if names is None else call.tool in names
        if stops and call.result is not None and not call.result.is_error:
            return call.result
    return None
