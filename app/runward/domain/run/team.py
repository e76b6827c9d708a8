"""Agents that work together: handing the run over, and child runs of another agent."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final, assert_never

from pydantic import JsonValue

from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, compact, digest, parse
from runward.domain.registry.builtin_names import TRANSFER
from runward.domain.registry.tools import OutputOfTool, ToolSpec
from runward.domain.run import texts
from runward.domain.run.calls import Call, CallOutcome, CallPhase, Result
from runward.domain.run.config import AgentConfig, functions_of
from runward.domain.run.items import Message
from runward.domain.run.outcomes import Done, Failed, Outcome, Why
from runward.domain.run.sessions import MAX_STATE_BYTES, merged
from runward.domain.run.settle import Disposition
from runward.domain.run.state import Changes, Child, ChildRun, Member, RunState, use
from runward.domain.run.status import RunStatus
from runward.domain.run.tools import CompiledTool, compile_tool

UNREGISTERED: Final = 0
"""The version of tools that no registry has: those that Runward makes itself, and those that a
run brought along."""
MAX_DEPTH: Final = 6
"""Child runs inside each other."""
MAX_NAME: Final = 64
MARK: Final = 8
"""Characters of a digest that tell two long names apart."""
INPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "What the agent is asked."}},
    "required": ["input"],
    "additionalProperties": False,
}
"""The parameters of an agent as a tool, where it has none of its own."""
_NOTHING: Final[JsonObject] = {
    "type": "object",
    "properties": {},
    "required": [],
    "additionalProperties": False,
}


def transfer_name(agent: str) -> str:
    """The name of the tool that hands over to `agent`. A long one ends with a digest of the agent's
    name, so that no two agents share a tool."""
    name = f"{TRANSFER}{agent}"
    if len(name) <= MAX_NAME:
        return name
    mark = digest({"agent": agent})[-MARK:]
    return f"{name[: MAX_NAME - MARK - 1]}_{mark}"


def handoff_tools(config: AgentConfig, team: Mapping[str, Member]) -> dict[str, CompiledTool]:
    """One for each agent that `config` may hand over to."""
    made = [_handoff(name, team[name].description) for name in config.handoffs if name in team]
    return {tool.name: tool for tool in made}


def step_tools(config: AgentConfig) -> dict[str, CompiledTool]:
    """Of a workflow: one for each of its agents."""
    return {name: _step(name) for name in config.agents}


def made_tools(config: AgentConfig, team: Mapping[str, Member]) -> dict[str, CompiledTool]:
    """Those of no registry."""
    if config.kind != "llm":
        return step_tools(config)
    return {**handoff_tools(config, team), **function_tools(config)}


def function_tools(config: AgentConfig) -> dict[str, CompiledTool]:
    """One for each that whoever started the run brought along."""
    return {spec.name: compile_tool(spec, UNREGISTERED) for spec in functions_of(config)}


@lru_cache(maxsize=1024)
def _handoff(agent: str, description: str | None) -> CompiledTool:
    text = texts.handoff(agent, description)
    spec = ToolSpec(
        name=transfer_name(agent),
        description=text,
        parameters=_NOTHING,
        type="handoff",
        agent=agent,
    )
    return compile_tool(spec, UNREGISTERED)


@lru_cache(maxsize=1024)
def _step(agent: str) -> CompiledTool:
    return compile_tool(
        ToolSpec(name=agent, parameters=INPUT, type="agent", agent=agent), UNREGISTERED
    )


def take_handoff(state: RunState, agent: str) -> Result:
    """The first of a response wins; it takes effect when all its calls have their results."""
    taken = any(call.result and call.result.transfer_to for call in state.turn_calls)
    if taken:
        return Result(CallOutcome.COMPLETED, texts.OTHER_HANDOFF)
    return Result(CallOutcome.COMPLETED, texts.handed_over(agent), transfer_to=agent)


def next_agent(state: RunState) -> str | None:
    """Whom the last turn's calls handed the run over to, if it has not changed hands yet. A tool
    that hands it over comes after a handoff of the model's own, which was told so already."""
    for call in sorted(state.turn_calls, key=lambda call: call.version != UNREGISTERED):
        target = call.result.transfer_to if call.result else None
        if target is not None:
            return target if target in state.team and target != state.agent else None
    return None


def hand_over(state: RunState, changes: Changes, agent: str) -> RunState:
    changes.add("agent.changed", **{"from": state.agent, "to": agent, "turn": state.turn})
    changes.progress = True
    return state.handed_to(agent)


# Child runs.


def start_child(state: RunState, changes: Changes, call: Call, child: ChildRun) -> RunState:
    waiting = replace(call, phase=CallPhase.AWAITING_CHILD, child=child.id)
    changes.put(waiting)
    changes.children.append(child)
    changes.progress = True
    changes.add(
        "tool_call.progress",
        call_id=call.id,
        status="child_started",
        run_id=format_id(Prefix.RUN, child.id),
        agent=child.agent,
    )
    return state.with_call(waiting)


def opening(arguments: JsonObject) -> tuple[Message, ...]:
    """What the child is asked: the text of `input` alone, or all arguments as JSON."""
    match arguments:
        case {"input": str(text)} if len(arguments) == 1:
            return (Message("user", text),)
        case _:
            return (Message("user", compact(arguments)),)


def outcome_of(tool: CompiledTool, child: Child, extracted: JsonValue = None) -> Outcome:
    """What an ended child run means for its parent's call. `extracted`: the output of the tool
    that the call's tool names, where it does."""
    if child.status is not RunStatus.COMPLETED:
        detail = f"The run of agent '{tool.spec.agent}' ended as {child.status}"
        reason = (child.error or {}).get("message")
        told = f"{detail}: {reason}" if isinstance(reason, str) else f"{detail}."
        return Failed(Why.ERROR, told, message=told)
    escalate = child.escalated and tool.version == UNREGISTERED  # of a step it ends the workflow
    match tool.spec.output:
        case "final":
            output = child.output if child.parsed is None else child.parsed
        case "json":
            try:
                output = parse(child.output) if isinstance(child.output, str) else child.output
            except ValueError as error:
                return Failed(Why.INVALID_RESPONSE, f"The agent's answer is not JSON: {error}")
        case OutputOfTool(tool=name):
            if extracted is None:
                told = f"The agent has no output of '{name}'."
                return Failed(Why.INVALID_RESPONSE, told)
            output = extracted
        case _:
            assert_never(tool.spec.output)
    return Done(output, escalate=escalate)


def with_usage_of(state: RunState, changes: Changes, call: Call, child: Child) -> RunState:
    """What a child run has used counts for its parent too."""
    return use(state, changes, child.usage, call_id=call.id)


# The shared state.


def too_much_state(state: RunState, delta: JsonObject) -> Failed | None:
    """Why a change of the shared state is refused; then the call has failed."""
    size = len(compact(merged(state.shared, delta)).encode())
    if size <= MAX_STATE_BYTES:
        return None
    told = texts.too_much_state(size, MAX_STATE_BYTES)
    return Failed(Why.ERROR, told, message=told, permanent=True)


def is_good(verdict: Disposition) -> bool:
    """Only with a good result does a call change anything that is shared."""
    return isinstance(verdict, Result) and not verdict.is_error
