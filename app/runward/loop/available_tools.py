"""The tools that one run can use: which of them are enabled and shown, and their secrets."""

from collections.abc import Callable, Mapping, Sequence

from runward.domain.registry.tools import Concurrency, ToolSpec
from runward.domain.run import builtins, history, team
from runward.domain.run.builtins import BUILTINS, visible_tools
from runward.domain.run.outcomes import Outcome
from runward.domain.run.plan import ParsedCall
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import CompiledTool
from runward.loop.engine import ToolPolicies
from runward.loop.tool_policies import add_approvals, find_enabled_tools
from runward.loop.toolbox import SignedTool, Toolbox, ToolSet
from runward.store.postgres.db import retry_on_outage
from runward.tools.base import Invocation


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
