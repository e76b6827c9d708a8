"""The choice of a run's next step. This module contains the complete control flow of the agent
loop, without I/O.

Starting a run, resuming it after an approval, and recovering it after a crash use the same path.
The loop loads the state, calls `next_action`, executes the action, commits the result, and repeats.
"""

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.errors import FieldError
from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import CallId
from runward.domain.immutable import immutable
from runward.domain.json import as_text
from runward.domain.registry.guards import Stage
from runward.domain.registry.tools import EXCEED_BUDGET, Concurrency
from runward.domain.run.concurrency import select_startable
from runward.domain.run.config import MaxTurnsOutput
from runward.domain.run.final_results import find_escalation, find_stopping_result
from runward.domain.run.items import Message
from runward.domain.run.output import count_repairs, parse_output
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import (
    WAITING,
    Call,
    CallOutcome,
    CallPhase,
    Result,
    RunState,
    SegmentKind,
    list_requested_calls,
)
from runward.domain.run.status import RunStatus
from runward.domain.run.team import find_next_agent
from runward.domain.run.workflow import NextSteps, WorkflowEnd, next_step
from runward.domain.schema.validator import Validator


@immutable
class AskModel:
    """The action that sends a model request. `repair`: the problems of an output that the model
    must correct. `tools_off`: request a closing summary without tools."""

    repair: tuple[FieldError, ...] = ()
    tools_off: bool = False


@immutable
class Delegate:
    """The action that starts the next steps of a workflow. `response` replaces a model's
    response."""

    response: ModelResponse


@immutable
class HandOver:
    """The action that continues the run with another agent."""

    agent: str


@immutable
class RunTools:
    """The action that starts at least one call."""

    start: tuple[CallId, ...]


@immutable
class Wait:
    """The action that waits for the calls in flight. `stopping`: the run will end, so no call is
    retried."""

    stopping: bool = False


@immutable
class Park:
    """The action that parks the run until one of these calls gets a result from outside."""

    waiting: tuple[CallId, ...]


@immutable
class Finish:
    """The action that ends the run. `output` is None only if the run ends without an output."""

    status: RunStatus
    output: JsonValue = None
    parsed: JsonValue = None
    code: str | None = None
    """For `failed`, the code of the error. For `incomplete`, the reason."""
    message: str | None = None
    refused: Stage | None = None
    """The stage of a guardrail that rejected the run's input or output."""


Action: TypeAlias = AskModel | Delegate | HandOver | RunTools | Wait | Park | Finish


def next_action(
    state: RunState,
    *,
    overdue: bool = False,
    busy: bool = False,
    caps: Mapping[str, Concurrency] | None = None,
    schema: Validator | None = None,
) -> Action:
    """Return the next action. `overdue`: the run's deadline has passed. `busy`: a result that
    arrived from outside is being checked. `caps`: the maximum number of calls in flight for each
    tool. `schema`: the schema of the final output, if the agent has one."""
    calls = state.turn_calls
    stop = _find_stop(state, calls, overdue=overdue)
    phases = {call.phase for call in calls}
    if stop is None and CallPhase.READY in phases:
        ready = select_startable(calls, state, caps or {})
        if ready:
            return RunTools(ready)
    if busy or CallPhase.STARTED in phases:
        return Wait(stopping=stop is not None)
    if stop is not None:
        finishing = stop.status is RunStatus.CANCELLED and state.open_children
        return Park(tuple(call.id for call in state.open_children)) if finishing else stop
    if waiting := tuple(call.id for call in calls if call.phase in WAITING):
        return Park(waiting)
    return _after_results(state, calls, schema)


def _find_stop(state: RunState, calls: tuple[Call, ...], *, overdue: bool) -> Finish | None:
    """Return how the run must end after the calls in flight have returned, or None if it can
    continue."""
    results = [(call.tool, call.result) for call in calls if call.result is not None]
    failures = [(tool, result) for tool, result in results if result.fails_run]
    if failures:
        return _fail(*failures[0])
    if overdue:
        return Finish(
            RunStatus.INCOMPLETE, code="deadline", message="The deadline of the run has passed."
        )
    if state.cancel_after_turn:
        return Finish(RunStatus.CANCELLED)
    return None


def _fail(tool: str, result: Result) -> Finish:
    """Return the failure of the run that a tool's result causes."""
    timed_out = result.outcome is CallOutcome.TIMED_OUT
    code = RunErrorCode.TOOL_TIMEOUT if timed_out else RunErrorCode.TOOL_ERROR
    if result.reason in (CallReason.INVALID_ARGUMENTS, CallReason.GUARDRAIL):
        code = RunErrorCode(result.reason)
    detail = result.detail or as_text(result.output)
    return Finish(RunStatus.FAILED, code=code, message=f"Tool '{tool}': {detail}")


def _after_results(state: RunState, calls: tuple[Call, ...], schema: Validator | None) -> Action:
    """Return the action after all calls have results: stop, finish, or ask the model again."""
    if (over := _find_rejected_budget(calls)) is not None:
        return over
    if _was_refused(state, calls, CallReason.REPEATED):
        return _incomplete("repeated_calls", "The model repeated the same tool call five times.")
    if state.config.kind != "llm":
        return _decide_for_workflow(state, schema)
    return _decide_for_agent(state, calls, schema)


def _decide_for_agent(state: RunState, calls: tuple[Call, ...], schema: Validator | None) -> Action:
    """Return the next action of an agent with a model."""
    own = calls if _has_last_word(state) else ()
    if (escalated := find_escalation(own)) is not None:
        return _finish_or_repair(state, state.last_text or escalated.whole, schema)
    if (agent := find_next_agent(state)) is not None:
        return HandOver(agent)
    if (stopped := find_stopping_result(state, own)) is not None:
        return _finish_or_repair(state, stopped.whole, schema)
    if _has_answered(state):
        return _finish_with_answer(state, schema)
    if _was_refused(state, calls, CallReason.LIMIT):
        return _incomplete("max_tool_calls", "The run reached its maximum number of tool calls.")
    return _ask_within_limits(state)


def _decide_for_workflow(state: RunState, schema: Validator | None) -> Action:
    """Return the next action of a workflow."""
    if any(_has_reason(call, CallReason.LIMIT) for call in state.turn_calls):
        return _incomplete("max_tool_calls", "The run reached its maximum number of tool calls.")
    step = next_step(state)
    match step:
        case NextSteps(response=response):
            return _check_budget(state) or Delegate(response)
        case WorkflowEnd(error=str(failed)):
            return Finish(RunStatus.FAILED, code=RunErrorCode.STEP_FAILED, message=failed)
        case WorkflowEnd():
            return _finish_workflow(step, schema)
        case _:
            assert_never(step)


def _finish_workflow(over: WorkflowEnd, schema: Validator | None) -> Finish:
    """Return the end of a workflow. No model can correct its output."""
    parsed, problems = parse_output(over.output, schema)
    if problems:
        return _fail_schema(over.output, problems)
    return Finish(RunStatus.COMPLETED, over.output, parsed=parsed, code=over.reason)


def _finish_with_answer(state: RunState, schema: Validator | None) -> Action:
    """Return the action after a response that requested no calls."""
    text = state.last_text
    if any(isinstance(item, Message) and item.refusal for item in state.segments[-1].items):
        return Finish(
            RunStatus.INCOMPLETE, text, code="refusal", message="The model refused to answer."
        )
    if state.turn > state.config.limits.max_turns:  # The response is the closing summary.
        return Finish(RunStatus.COMPLETED, text, code="max_turns")
    return _finish_or_repair(state, text, schema)


def _finish_or_repair(state: RunState, output: JsonValue, schema: Validator | None) -> Action:
    """Return the end of the run with `output`. If the output does not match the schema, return a
    request for a correction, or the end of the run if no correction is allowed."""
    if schema is None:
        return Finish(RunStatus.COMPLETED, output)
    parsed, problems = parse_output(output, schema)
    if not problems:
        return Finish(RunStatus.COMPLETED, as_text(output), parsed=parsed)
    if count_repairs(state) >= state.config.output_retries:
        return _fail_schema(output, problems)
    limited = _ask_within_limits(state)
    return AskModel(repair=problems) if limited == AskModel() else limited


def _fail_schema(output: JsonValue, problems: tuple[FieldError, ...]) -> Finish:
    wrong = f"The output does not match the schema: {problems[0].path} {problems[0].message}"
    return _incomplete("output_schema", wrong, output)


def _ask_within_limits(state: RunState) -> Action:
    config = state.config
    limits = config.limits
    if (spent := _check_budget(state)) is not None:
        return spent
    if state.turn < limits.max_turns:
        return AskModel()
    message = f"The run reached its maximum number of turns ({limits.max_turns})."
    match config.on_max_turns:
        case "summarise" if state.turn == limits.max_turns:
            return AskModel(tools_off=True)
        case "fail":
            return Finish(RunStatus.FAILED, code=RunErrorCode.MAX_TURNS, message=message)
        # The model requested calls instead of writing the summary.
        case "incomplete" | "summarise":
            return _incomplete("max_turns", message)
        case MaxTurnsOutput(output=output):
            return Finish(RunStatus.COMPLETED, output=output, code="max_turns")
        case _:
            assert_never(config.on_max_turns)


def _check_budget(state: RunState) -> Finish | None:
    """Return how the run must end because it reached its token limit or its cost limit. Returns
    None if it reached neither limit."""
    limits, usage = state.config.limits, state.usage
    if limits.max_tokens is not None and usage.total >= limits.max_tokens:
        return _incomplete(
            "max_tokens",
            f"The run reached its token limit: the model responses used {usage.total} tokens.",
        )
    if limits.max_cost_usd is not None and usage.cost >= limits.max_cost_usd:
        return _incomplete(
            "max_cost_usd", f"The run reached its cost limit: it cost {usage.cost:.6f} US dollars."
        )
    return None


def _find_rejected_budget(calls: tuple[Call, ...]) -> Finish | None:
    """Return the end of the run if nobody approved to exceed its budget."""
    for call in calls:
        result = call.result
        if call.tool == EXCEED_BUDGET and result and result.outcome is CallOutcome.REJECTED:
            text = as_text(result.output)
            return _incomplete("budget", f"The run may not exceed its budget. {text}")
    return None


def _has_last_word(state: RunState) -> bool:
    """Return whether the last response is by the run's current agent, and no input arrived after
    it."""
    last = state.segments[-1] if state.segments else None
    if last is None or last.kind is not SegmentKind.RESPONSE:
        return False
    return last.agent == state.agent


def _has_answered(state: RunState) -> bool:
    """Return whether the last item is a response of the model without calls."""
    return _has_last_word(state) and not list_requested_calls(state.segments[-1])


def _was_refused(state: RunState, calls: tuple[Call, ...], reason: CallReason) -> bool:
    """Return whether a call of the last response was refused for this reason. Returns False if
    input arrived after the response. In that case, Runward sends one more model request, which
    contains the refusal and the new input."""
    heard = bool(state.segments) and state.segments[-1].kind is SegmentKind.INPUT
    return not heard and any(_has_reason(call, reason) for call in calls)


def _has_reason(call: Call, reason: CallReason) -> bool:
    return call.result is not None and call.result.reason is reason


def _incomplete(reason: str, message: str, output: JsonValue = None) -> Finish:
    return Finish(RunStatus.INCOMPLETE, output, code=reason, message=message)
