"""Workflows: agents of kind `sequential`, `parallel` and `loop`, which have no model.

Each step is a tool call. So it is in the tool-call log, can wait for a person for days, and is
never repeated. A run of kind `call` has one step, the call of a tool.
"""

from dataclasses import replace

from pydantic import JsonValue

from runward.domain.immutable import immutable
from runward.domain.json import as_text, compact
from runward.domain.run import texts
from runward.domain.run.items import Message, join_text
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.domain.run.state import Call, RunState, SegmentKind


@immutable
class NextSteps:
    """The agents that run next, as the calls of a model's response."""

    response: ModelResponse


@immutable
class WorkflowEnd:
    """The end of a workflow. `error`: why it failed. `reason`: why it ended early."""

    output: JsonValue
    error: str | None = None
    reason: str | None = None


def next_step(state: RunState) -> NextSteps | WorkflowEnd:
    """Return the next step. Every earlier call has its result."""
    agents = state.config.agents
    match state.config.kind:
        case "parallel":
            return _next_parallel(state, agents)
        case "loop":
            return _next_sequential(state, agents, rounds=state.config.max_iterations)
        case "call":
            return _next_single_call(state)
        case _:
            return _next_sequential(state, agents, rounds=1)


def _next_sequential(
    state: RunState, agents: tuple[str, ...], *, rounds: int
) -> NextSteps | WorkflowEnd:
    """Return the next agent. The first agent gets the run's input, and each later agent gets the
    output of the previous agent."""
    calls = _list_step_calls(state)
    done = len(calls)
    result = calls[-1].result if calls else None
    if calls and (failed := _find_failure(calls[-1])) is not None:
        return WorkflowEnd(None, error=failed)
    text = join_input_text(state) if result is None else as_text(result.whole)
    if result is not None and result.escalate:
        return WorkflowEnd(text)
    if done >= len(agents) * rounds:
        over_the_limit = state.config.kind == "loop"
        return WorkflowEnd(text, reason="max_iterations" if over_the_limit else None)
    return NextSteps(_request_agents(done, (agents[done % len(agents)],), text))


def _next_parallel(state: RunState, agents: tuple[str, ...]) -> NextSteps | WorkflowEnd:
    """Return all agents, each with the run's input. After they have ended, return an object with
    each agent's output under its name. If an agent is listed twice, its later runs are named
    `name_2` and so on."""
    calls = _list_step_calls(state)
    if not calls:
        return NextSteps(_request_agents(0, agents, join_input_text(state)))
    failures = [failed for call in calls if (failed := _find_failure(call)) is not None]
    if len(failures) == len(calls):
        return WorkflowEnd(None, error=failures[0])
    outputs: dict[str, JsonValue] = {}
    for call in calls:
        before = sum(other.tool == call.tool for other in calls[: calls.index(call)])
        name = f"{call.tool}_{before + 1}" if before else call.tool
        assert call.result is not None
        error: JsonValue = {"error": call.result.output}
        outputs[name] = error if call.result.is_error else call.result.whole
    return WorkflowEnd(outputs)


def _next_single_call(state: RunState) -> NextSteps | WorkflowEnd:
    """Return the workflow's only call, with the run's input as arguments. Later messages have no
    effect."""
    calls = _list_step_calls(state)
    if not calls:
        arguments = join_input_text(replace(state, segments=state.segments[:1]))
        requested = RequestedCall("call_1", state.config.tools[0], arguments)
        return NextSteps(ModelResponse((requested,)))
    [call] = calls
    assert call.result is not None
    return WorkflowEnd(call.result.whole, error=_find_failure(call))


def _list_step_calls(state: RunState) -> list[Call]:
    """Return the workflow's own calls. If the run was handed over to it, earlier agents made other
    calls."""
    turns = {
        one.turn
        for one in state.segments
        if one.kind is SegmentKind.RESPONSE and one.agent == state.agent
    }
    return [call for call in state.calls.values() if call.turn in turns]


def _request_agents(first: int, agents: tuple[str, ...], text: str) -> ModelResponse:
    arguments = compact({"input": text})
    return ModelResponse.of(
        "",
        tuple(
            RequestedCall(f"step_{first + n}_{agent}", agent, arguments)
            for n, agent in enumerate(agents, start=1)
        ),
    )


def _find_failure(call: Call) -> str | None:
    if call.result is None or not call.result.is_error:
        return None
    return texts.step_failed(call.tool, as_text(call.result.output))


def join_input_text(state: RunState) -> str:
    """Return the texts of the user messages in the run's input, joined by line breaks."""
    said = [
        join_text(item.content)
        for segment in state.segments
        if segment.kind is SegmentKind.INPUT
        for item in segment.items
        if isinstance(item, Message) and item.role == "user"
    ]
    return "\n".join(said)
