"""Agents that work together: handoffs, and child runs of other agents."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, assert_never

from pydantic import JsonValue

from runward.domain.events.base import bounded_field
from runward.domain.events.kinds import (
    HandoffCompletedEvent,
    StateUpdatedEvent,
)
from runward.domain.json import JsonObject, compact, compute_digest, parse
from runward.domain.registry.tools import (
    TRANSFER_PREFIX,
    ChildToolOutput,
    ToolSpec,
    closed_object,
)
from runward.domain.run import texts
from runward.domain.run.child_runs import describe_failed_child
from runward.domain.run.config import AgentConfig, get_inline_tools
from runward.domain.run.family import Child, Member
from runward.domain.run.items import Message
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.run_events import add_usage
from runward.domain.run.sessions import MAX_STATE_BYTES, merge_delta
from runward.domain.run.settle import Disposition, classify_outcome, conclude
from runward.domain.run.state import Call, CallOutcome, CallPhase, Changes, Result, RunState
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import (
    UNREGISTERED,
    CompiledTool,
    compile_inline_tool,
    compile_tool,
)

MAX_DEPTH: Final = 6
"""Maximum depth of nested child runs."""
MAX_NAME: Final = 64
DIGEST_CHARACTERS: Final = 8
"""Number of characters of a digest that distinguishes two long names."""
DEFAULT_PARAMETERS: Final = closed_object(
    "input", input={"type": "string", "description": "The task or question for the agent."}
)
"""The parameters of an agent as a tool, if the tool defines none."""
_NO_PARAMETERS: Final = closed_object()


def format_transfer_name(agent: str) -> str:
    """Return the name of the tool that hands the run over to `agent`. A long name ends with a
    digest of the agent's name, so that each agent has its own tool."""
    name = f"{TRANSFER_PREFIX}{agent}"
    if len(name) <= MAX_NAME:
        return name
    mark = compute_digest({"agent": agent})[-DIGEST_CHARACTERS:]
    return f"{name[: MAX_NAME - DIGEST_CHARACTERS - 1]}_{mark}"


def build_handoff_tools(config: AgentConfig, team: Mapping[str, Member]) -> dict[str, CompiledTool]:
    """Return one tool for each agent that `config` may hand over to."""
    made = [
        _build_handoff_tool(name, team[name].description)
        for name in config.handoffs
        if name in team
    ]
    return {tool.name: tool for tool in made}


def build_step_tools(config: AgentConfig) -> dict[str, CompiledTool]:
    """Return one tool for each agent of a workflow."""
    return {name: _build_step_tool(name) for name in config.agents}


def build_unregistered_tools(
    config: AgentConfig, team: Mapping[str, Member]
) -> dict[str, CompiledTool]:
    """Return all tools of the run that are not registered."""
    if config.kind != "llm":
        return build_step_tools(config)
    return build_handoff_tools(config, team)


def build_inline_tools(config: AgentConfig) -> dict[str, CompiledTool]:
    """Return one tool for each function that the request of the run defines."""
    return {spec.name: compile_inline_tool(spec) for spec in get_inline_tools(config)}


@lru_cache(maxsize=1024)
def _build_handoff_tool(agent: str, description: str | None) -> CompiledTool:
    text = texts.handoff(agent, description)
    spec = ToolSpec(
        name=format_transfer_name(agent),
        description=text,
        parameters=_NO_PARAMETERS,
        type="handoff",
        agent=agent,
    )
    return compile_tool(spec, UNREGISTERED)


@lru_cache(maxsize=1024)
def _build_step_tool(agent: str) -> CompiledTool:
    return compile_tool(
        ToolSpec(name=agent, parameters=DEFAULT_PARAMETERS, type="agent", agent=agent), UNREGISTERED
    )


def accept_handoff(state: RunState, agent: str) -> Result:
    """Return the result of a handoff. Only the first handoff of a response is accepted. It takes
    effect when all calls of the response have results."""
    taken = any(call.result and call.result.transfer_to for call in state.turn_calls)
    if taken:
        return Result(CallOutcome.COMPLETED, texts.OTHER_HANDOFF)
    return Result(CallOutcome.COMPLETED, texts.handed_over(agent), transfer_to=agent)


def find_next_agent(state: RunState) -> str | None:
    """Return the agent to which the last turn's calls handed over the run. Returns None if there
    was no handoff or if it has already taken effect. A handoff by the model takes precedence over
    one by a tool."""
    for call in sorted(
        state.turn_calls, key=lambda call: not call.tool.startswith(TRANSFER_PREFIX)
    ):
        target = call.result.transfer_to if call.result else None
        if target is not None:
            return target if target in state.team and target != state.agent else None
    return None


def hand_over(state: RunState, changes: Changes, agent: str) -> RunState:
    changes.add(HandoffCompletedEvent({"from": state.agent, "to": agent, "turn": state.turn}))
    changes.progress = True
    return continue_as(state, agent)


# Child runs.


def build_child_input(arguments: JsonObject) -> tuple[Message, ...]:
    """Return the child run's input: only the text of `input`, or all arguments as JSON."""
    match arguments:
        case {"input": str(text)} if len(arguments) == 1:
            return (Message("user", text),)
        case _:
            return (Message("user", compact(arguments)),)


def read_child_outcome(tool: CompiledTool, child: Child, tool_output: JsonValue = None) -> Outcome:
    """Return the outcome of the parent's call after a child run has ended. `tool_output`: the
    output of the tool that the call's tool names in `output`."""
    if child.status is not RunStatus.COMPLETED:
        told = describe_failed_child(tool.spec.agent, child)
        return Failed(FailureKind.ERROR, told, message=told)
    # In a workflow, an escalation ends the workflow.
    escalate = child.escalated and tool.version == UNREGISTERED and tool.definition is None
    match tool.spec.output:
        case "final":
            output = child.output if child.parsed is None else child.parsed
        case "json":
            try:
                output = parse(child.output) if isinstance(child.output, str) else child.output
            except ValueError as error:
                return Failed(
                    FailureKind.INVALID_RESPONSE,
                    f"The output of the agent is not valid JSON: {error}",
                )
        case ChildToolOutput(tool=name):
            if tool_output is None:
                told = f"The agent's run has no output of the tool '{name}'."
                return Failed(FailureKind.INVALID_RESPONSE, told)
            output = tool_output
        case _:
            assert_never(tool.spec.output)
    return Done(output, escalate=escalate)


def add_child_usage(state: RunState, changes: Changes, call: Call, child: Child) -> RunState:
    """Add a child run's usage to the usage of its parent."""
    return add_usage(state, changes, child.usage, call.id)


# Shared state.


def check_state_size(state: RunState, delta: JsonObject) -> Failed | None:
    """Return the failure of a call whose change to the shared state exceeds the size limit, or None
    if the change fits."""
    size = len(compact(merge_delta(state.shared_state, delta)).encode())
    if size <= MAX_STATE_BYTES:
        return None
    told = texts.too_much_state(size, MAX_STATE_BYTES)
    return Failed(FailureKind.ERROR, told, message=told, permanent=True)


def is_success(disposition: Disposition) -> bool:
    """Return whether the result is successful. Only successful results change the shared state."""
    return isinstance(disposition, Result) and not disposition.is_error


def conclude_call(
    state: RunState,
    changes: Changes,
    call: Call,
    tool: CompiledTool,
    disposition: Disposition,
    state_delta: JsonObject | None,
) -> RunState:
    """Record a call's result, its child run's usage, and its changes to the shared state. If these
    changes are too large, the call fails."""
    if call.phase is CallPhase.AWAITING_CHILD:
        assert call.child_run_id is not None
        state = add_child_usage(state, changes, call, state.children[call.child_run_id])
    if state_delta and is_success(disposition):
        refused = check_state_size(state, state_delta)
        if refused is None:
            state = merge_state(state, changes, call, state_delta)
        else:
            disposition = classify_outcome(tool, call, refused, seconds_left=0, jitter=0)
    return conclude(state, changes, call, disposition)


def merge_state(state: RunState, changes: Changes, call: Call, delta: JsonObject) -> RunState:
    """Apply a call's changes to the shared state, in the same commit as its result."""
    changes.shared_state |= delta
    changes.add(StateUpdatedEvent({"call_id": call.id, **bounded_field("changes", delta)}))
    return replace(state, shared_state=merge_delta(state.shared_state, delta))


def continue_as(state: RunState, agent: str) -> RunState:
    """Return the run as it continues with another agent, within its original limits."""
    config = state.team[agent].config
    limits = {"limits": state.config.limits}
    return replace(state, agent=agent, config=config.model_copy(update=limits))
