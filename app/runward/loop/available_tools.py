"""A leased run with what it needs to go on: its tools, its guardrails, and its calls in flight."""

from collections.abc import Mapping
from typing import Any, Final

from runward.domain.events.kinds import ToolCallProgressEvent
from runward.domain.ids import CallId
from runward.domain.run import team
from runward.domain.run.bounds import bounded_progress
from runward.domain.run.builtins import BUILTINS, visible_tools
from runward.domain.run.calls import Call
from runward.domain.run.state import RunState
from runward.domain.run.tools import CompiledTool
from runward.domain.schema.validator import Validator, stored_validator
from runward.loop.builtins import Builtin
from runward.loop.calls_in_flight import CallsInFlight, seconds_for
from runward.loop.checks import Checks
from runward.loop.leased_run import Engine, LeasedRun
from runward.loop.policies import NO_POLICY
from runward.loop.toolbox import SignedTool, ToolSet, find_enabled_tools
from runward.store.postgres.db import retry_on_outage

MAX_PROGRESS: Final = 100
"""Progress reports of one call in one claim. Later ones are dropped."""


class EquippedRun(LeasedRun):
    def __init__(self, engine: Engine, state: RunState, claimed_at: float | None = None) -> None:
        super().__init__(engine, state, claimed_at)
        self._tools = ToolSet({})
        self._made: dict[str, CompiledTool] = {}
        self._enabled: dict[str, CompiledTool] = {}
        self._guarding = Checks(engine.guards, NO_POLICY)
        builtin = Builtin(lambda: self._state, self._searched)
        executors = {**engine.executors, "builtin": builtin}
        self._in_flight = CallsInFlight(
            executors, engine.callback, self._guarding, self._reported, self._has_lease
        )
        self._reports: dict[CallId, int] = {}
        self._schema: Validator | None = None

    async def _arm(self) -> None:
        """Have every tool at hand that the run may show, shows now, or has open calls of."""
        state = self._state
        wanted = {*state.pinned.items(), *((t.name, t.version) for t in self._enabled.values())}
        wanted |= {(c.tool, c.version) for c in state.open_calls if c.version}
        toolbox, policies = self._engine.toolbox, self._engine.policies
        policy = await retry_on_outage(lambda: policies.of(state.project_id))
        self._guarding = self._in_flight.guarding = Checks(self._engine.guards, policy)
        self._tools = await retry_on_outage(lambda: toolbox.fetch(state.project_id, wanted))
        self._made = team.build_unregistered_tools(state.config, state.team)
        if state.config.output_schema is not None and self._schema is None:
            self._schema = stored_validator(state.config.output_schema, at="output")

    async def _find_enabled(self, state: RunState) -> None:
        """`state`: the run as it is when its model is asked. In a turn, rules see the same turn
        when its calls start as when its tools were shown."""
        self._enabled = await find_enabled_tools(self._tools, state, self._engine)

    async def _shown_now(self) -> dict[str, CompiledTool]:
        """What the model is shown in this turn."""
        await self._find_enabled(self._state)
        return visible_tools(self._state, self._enabled, self._made)

    def _searched(self) -> dict[str, Any]:
        return {name: tool.spec for name, tool in self._enabled.items()}

    @property
    def _callable(self) -> Mapping[str, CompiledTool]:
        """The tools whose calls may start now."""
        return {**BUILTINS, **self._enabled, **self._made}

    def _armed(self, call: Call) -> SignedTool:
        armed = self._tools.find(call)
        if armed is not None:
            return armed
        return SignedTool({**BUILTINS, **self._made}[call.tool], ())

    def _armed_tool(self, tool: CompiledTool) -> SignedTool:
        """One of those that the model is shown."""
        if tool.version == team.UNREGISTERED:
            return SignedTool(tool, ())
        return self._tools.get(tool.name, tool.version)

    def _tool_of(self, call: Call) -> CompiledTool | None:
        armed = self._tools.find(call)
        return armed.tool if armed else {**BUILTINS, **self._made}.get(call.tool)

    def _seconds_for(self, call: Call) -> float | None:
        """A retry has the time that its first attempt left."""
        if self._in_flight.was_tried(call):
            return call.timeout_seconds
        spec, limits = self._armed(call).tool.spec, self._state.config.limits
        return seconds_for(spec, limits, self._engine.tool_timeout, self._left)

    def _reported(self, call: Call, progress: float | None, message: str | None) -> None:
        """Record a tool's progress report with the next step, or at once if there is none."""
        count = self._reports[call.id] = self._reports.get(call.id, 0) + 1
        if count > MAX_PROGRESS:
            return
        progress, message = bounded_progress(progress, message)
        self._changes.add(
            ToolCallProgressEvent(
                {
                    "call_id": call.id,
                    "status": "progress",
                    "progress": progress,
                    "message": message,
                }
            )
        )
        self._nudged.set()
