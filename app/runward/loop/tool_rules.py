"""Evaluate rules and plugin functions: which tools are enabled, and which calls require
approval."""

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace

from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.tools import CallableRule, CelRule
from runward.domain.run.config import NamedToolChoice
from runward.domain.run.parsed_calls import ParsedCall
from runward.domain.run.state import RunState, list_requested_calls
from runward.domain.run.tools import (
    CompiledTool,
    RequestKey,
    build_rule_values,
    is_enabled,
    make_request_key,
    needs_approval,
)
from runward.llm.base import RequestedToolChoice
from runward.loop.engine import ToolRules
from runward.loop.toolbox import ToolSet
from runward.tools.plugin.context import RuleContext
from runward.tools.rules import RuleQuestion


async def find_enabled_tools(
    tools: ToolSet, state: RunState, rules: ToolRules
) -> dict[str, CompiledTool]:
    """Return the tools that are enabled in this turn. A plugin tool whose plugin is not loaded in
    this process is not enabled."""
    current = tools.current(state)
    enabled = await _evaluate_enabled(current, state, rules)
    return {
        name: tool
        for name, tool in current.items()
        if is_enabled(tool, enabled) and (tool.spec.type != "plugin" or tool.name in rules.plugins)
    }


async def _evaluate_enabled(
    current: Mapping[str, CompiledTool], state: RunState, rules: ToolRules
) -> dict[str, bool]:
    """Return whether each tool with a rule or a callable is enabled."""
    by_callable = [t for t in current.values() if isinstance(t.spec.enabled, CallableRule)]
    by_rule = {
        t.name: t.spec.enabled for t in current.values() if isinstance(t.spec.enabled, CelRule)
    }
    enabled: dict[str, bool] = {}
    if by_callable:
        context = _build_rule_context(state)
        answers = await asyncio.gather(
            *(rules.plugins.is_enabled(t.spec, context) for t in by_callable)
        )
        enabled |= {tool.name: answer for tool, answer in zip(by_callable, answers, strict=True)}
    if by_rule:
        questions = [
            RuleQuestion(rule.when, build_rule_values(current[name], {}))
            for name, rule in by_rule.items()
        ]
        shared = _build_shared_values(state)
        decided = await rules.evaluator.decide(state.project_id, questions, shared)
        enabled |= {name: answer is True for name, answer in zip(by_rule, decided, strict=True)}
    return enabled


async def add_approvals(
    calls: Sequence[ParsedCall], state: RunState, rules: ToolRules
) -> list[ParsedCall]:
    """Return the calls, each with whether it requires approval. Rules and callables are evaluated
    once for equal calls. A call whose arguments do not match the schema requires approval without
    an evaluation."""
    keys: dict[CallId, RequestKey] = {}
    by_rule: dict[RequestKey, RuleQuestion] = {}
    callables: dict[RequestKey, ParsedCall] = {}
    for call in calls:
        if call.tool is None or call.raw is not None or call.misfit is not None:
            continue
        match call.tool.spec.approval:
            case CelRule(when=rule):
                key = keys[call.id] = make_request_key(call.name, call.arguments)
                by_rule[key] = RuleQuestion(rule, build_rule_values(call.tool, call.arguments))
            case CallableRule():
                key = keys[call.id] = make_request_key(call.name, call.arguments)
                callables[key] = call
            case _:
                pass
    answers: dict[RequestKey, bool] = {}
    if callables:
        plugins, context = rules.plugins, _build_rule_context(state)
        said = await asyncio.gather(
            *(
                plugins.needs_approval(call.tool.spec, call.arguments, context)
                for call in callables.values()
                if call.tool is not None
            )
        )
        answers |= zip(callables, said, strict=True)
    if by_rule:
        decided = await rules.evaluator.decide(
            state.project_id, list(by_rule.values()), _build_shared_values(state)
        )
        answers |= {key: answer is not False for key, answer in zip(by_rule, decided, strict=True)}
    by_call = {call_id: answers[key] for call_id, key in keys.items()}
    return [
        call
        if call.tool is None
        else replace(call, needs_approval=needs_approval(call.tool, answer=by_call.get(call.id)))
        for call in calls
    ]


def choose_tool_choice(state: RunState, tools: Mapping[str, CompiledTool]) -> RequestedToolChoice:
    """Return the tool choice of a turn. After the first tool call, a forced choice becomes `auto`,
    because the run would never end otherwise."""
    config = state.config
    if config.reset_tool_choice and _has_called(state):
        return "auto"
    if isinstance(config.tool_choice, NamedToolChoice):
        name = config.tool_choice.name
        return {"name": name} if name in tools else "auto"
    return config.tool_choice if tools else "auto"


def _has_called(state: RunState) -> bool:
    """Return whether the current agent has requested a tool call."""
    return any(one.agent == state.agent and list_requested_calls(one) for one in state.segments)


def _build_shared_values(state: RunState) -> JsonObject:
    """Return the values of the variables that are the same for all rules of a turn."""
    run: JsonObject = {
        "id": format_id(Prefix.RUN, state.id),
        "agent": state.agent,
        "turn": state.turn,
    }
    return {"context": state.context, "run": run}


def _build_rule_context(state: RunState) -> RuleContext:
    return RuleContext(
        run_id=format_id(Prefix.RUN, state.id),
        agent=state.agent,
        turn=state.turn,
        context=copy.deepcopy(state.context or {}),
        state=copy.deepcopy(state.shared_state),
    )
