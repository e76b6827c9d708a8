"""The tools that one run can use: which of them are enabled, shown and about to ask for
approval."""

import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ByCallable, Concurrency, ToolSpec, When
from runward.domain.run import builtins, history, team
from runward.domain.run.builtins import BUILTINS, visible_tools
from runward.domain.run.calls import Call
from runward.domain.run.outcomes import Outcome
from runward.domain.run.plan import ParsedCall
from runward.domain.run.state import RunState
from runward.domain.run.tools import (
    CompiledTool,
    RequestKey,
    build_rule_values,
    is_enabled,
    make_request_key,
    needs_approval,
)
from runward.loop.engine import ToolPolicies
from runward.loop.toolbox import SignedTool, Toolbox, ToolSet
from runward.store.postgres.db import retry_on_outage
from runward.tools.base import Invocation
from runward.tools.plugin.context import PolicyContext
from runward.tools.rules import RuleQuestion


class AvailableTools:
    """Holds every tool that the run may show, shows now, or has open calls of."""

    def __init__(self, toolbox: Toolbox, policies: ToolPolicies) -> None:
        self._toolbox = toolbox
        self._policies = policies
        self._registered = ToolSet({})
        self._unregistered: dict[str, CompiledTool] = {}
        self.enabled: dict[str, CompiledTool] = {}
        """The registered tools that `evaluate` found enabled."""

    async def load(self, state: RunState) -> None:
        """Read the tools of a run that was read again."""
        wanted = {*state.pinned.items(), *((t.name, t.version) for t in self.enabled.values())}
        wanted |= {(call.tool, call.version) for call in state.open_calls if call.version}
        fetch = self._toolbox.fetch
        self._registered = await retry_on_outage(lambda: fetch(state.project_id, wanted))
        self._unregistered = team.build_unregistered_tools(state.config, state.team)

    async def evaluate(self, state: RunState) -> None:
        """Find the tools that are enabled. `state`: the run as it is when its model is asked. In a
        turn, rules see the same turn when its calls start as when its tools were shown."""
        self.enabled = await find_enabled_tools(self._registered, state, self._policies)

    async def add_approvals(self, calls: Sequence[ParsedCall], state: RunState) -> list[ParsedCall]:
        """Return the calls, each with whether it needs a person's approval."""
        return await add_approvals(calls, state, self._policies)

    def visible(self, state: RunState) -> dict[str, CompiledTool]:
        """Return the tools that the model is shown in this turn."""
        return visible_tools(state, self.enabled, self._unregistered)

    @property
    def of_workflow(self) -> dict[str, CompiledTool]:
        return {**self.enabled, **self._unregistered}

    @property
    def callable(self) -> dict[str, CompiledTool]:
        """The tools whose calls may start now."""
        return {**BUILTINS, **self.enabled, **self._unregistered}

    def concurrency(self, state: RunState) -> dict[str, Concurrency]:
        current = self._registered.current(state)
        return {name: tool.spec.concurrency for name, tool in current.items()}

    def find(self, call: Call) -> CompiledTool | None:
        """Return the version that the call was made for. None: there is no such tool."""
        signed = self._registered.find(call)
        return signed.tool if signed else {**BUILTINS, **self._unregistered}.get(call.tool)

    def sign(self, call: Call) -> SignedTool:
        """Return the version that the call was made for, and its secrets."""
        signed = self._registered.find(call)
        return signed or SignedTool({**BUILTINS, **self._unregistered}[call.tool], ())

    def sign_tool(self, tool: CompiledTool) -> SignedTool:
        """Return a tool that the model is shown, and its secrets."""
        if tool.version == team.UNREGISTERED:
            return SignedTool(tool, ())
        return self._registered.get(tool.name, tool.version)

    def specs(self) -> dict[str, ToolSpec]:
        """Return the tools that `search_tools` searches."""
        return {name: tool.spec for name, tool in self.enabled.items()}


class BuiltinTools:
    """Implements `ToolExecutor` for one run: built-in tools read only what it has in memory.
    `state` and `tools` are called for each call."""

    def __init__(
        self, state: Callable[[], RunState], tools: Callable[[], Mapping[str, ToolSpec]]
    ) -> None:
        self._state = state
        self._tools = tools

    async def invoke(self, call: Invocation) -> Outcome:
        state = self._state()
        return builtins.invoke(
            call.tool.name,
            call.arguments,
            state,
            tools=self._tools(),
            search_history=lambda query, limit: history.search(state.history, query, limit),
        )


async def find_enabled_tools(
    tools: ToolSet, state: RunState, policies: ToolPolicies
) -> dict[str, CompiledTool]:
    """Return the tools that are enabled in this turn. A tool of a plugin that this process has not
    loaded is not."""
    current = tools.current(state)
    by_callable = [t for t in current.values() if isinstance(t.spec.enabled, ByCallable)]
    by_rule = {t.name: t.spec.enabled for t in current.values() if isinstance(t.spec.enabled, When)}
    plugins, context = policies.plugins, _build_policy_context(state)
    answers = await asyncio.gather(*(plugins.is_enabled(t.spec, context) for t in by_callable))
    enabled = {tool.name: answer for tool, answer in zip(by_callable, answers, strict=True)}
    questions = [
        RuleQuestion(rule.when, build_rule_values(current[name], {}))
        for name, rule in by_rule.items()
    ]
    decided = await policies.rules.decide(state.project_id, questions, _build_shared_values(state))
    enabled |= {name: answer is True for name, answer in zip(by_rule, decided, strict=True)}
    return {
        name: tool
        for name, tool in current.items()
        if is_enabled(tool, enabled) and (tool.spec.type != "plugin" or tool.name in plugins)
    }


async def add_approvals(
    calls: Sequence[ParsedCall], state: RunState, policies: ToolPolicies
) -> list[ParsedCall]:
    """Return the calls, each with whether it needs a person's approval. Rules and callables are
    asked once about equal calls. They are not asked about a call that its schema refuses, which
    then needs one."""
    keys: dict[CallId, RequestKey] = {}
    rules: dict[RequestKey, RuleQuestion] = {}
    callables: dict[RequestKey, ParsedCall] = {}
    for call in calls:
        if call.tool is None or call.raw is not None or call.misfit is not None:
            continue
        match call.tool.spec.approval:
            case When(when=rule):
                key = keys[call.id] = make_request_key(call.name, call.arguments)
                rules[key] = RuleQuestion(rule, build_rule_values(call.tool, call.arguments))
            case ByCallable():
                key = keys[call.id] = make_request_key(call.name, call.arguments)
                callables[key] = call
            case _:
                pass
    plugins, context = policies.plugins, _build_policy_context(state)
    said = await asyncio.gather(
        *(
            plugins.needs_approval(call.tool.spec, call.arguments, context)
            for call in callables.values()
            if call.tool is not None
        )
    )
    questions = list(rules.values())
    decided = await policies.rules.decide(state.project_id, questions, _build_shared_values(state))
    answers = dict(zip(callables, said, strict=True))
    answers |= {key: answer is not False for key, answer in zip(rules, decided, strict=True)}
    by_call = {call_id: answers[key] for call_id, key in keys.items()}
    return [
        call
        if call.tool is None
        else replace(call, needs_approval=needs_approval(call.tool, answer=by_call.get(call.id)))
        for call in calls
    ]


def _build_shared_values(state: RunState) -> JsonObject:
    """Return the values of the variables that all rules of a turn see."""
    run: JsonObject = {
        "id": format_id(Prefix.RUN, state.id),
        "agent": state.agent,
        "turn": state.turn,
    }
    return {"context": state.context, "run": run}


def _build_policy_context(state: RunState) -> PolicyContext:
    return PolicyContext(
        run_id=format_id(Prefix.RUN, state.id),
        agent=state.agent,
        turn=state.turn,
        context=copy.deepcopy(state.context or {}),
        state=copy.deepcopy(state.shared),
    )
