"""Replacements for the parts of a process that the executor uses."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.domain.run.family import ChildRun
from runward.domain.run.outcomes import AgentRequest
from runward.domain.run.resolve import CallbackCompleted, CallbackInputRequired
from runward.domain.run.state import Call, RunState
from runward.domain.run.team import build_child_input, read_child_outcome
from runward.domain.run.tools import CompiledTool
from runward.loop.engine import Engine, Guards, ToolAccess, ToolRules
from runward.loop.inline_tools import InlineTools
from runward.loop.project_cache import NO_POLICY
from runward.loop.toolbox import SignedTool, ToolSet
from runward.store.runs.gate import Step
from runward.store.runs.queue import HeldLease
from runward.tools.base import AGENT_INVOKER, CLIENT_INVOKER
from tests.model.scopes import Scope
from tests.model.twin import LEASE
from tests.model.worker import (
    Pending,
    Webhook,
)

NO_PRICES: Final = SimpleNamespace(cost_usd=None)
"""No tool reports the usage of a model, so no price is read."""
NAMES: Final = "AB"
COMPLETED: Final = CallbackCompleted(status="completed", output=1)
ASKED: Final = CallbackInputRequired(status="input_required", requests={"what": "name"})


def engine_of(
    scope: Scope, vault: Mapping[tuple[str, int], CompiledTool], mint: Callable[[], UUID]
) -> Engine:
    """All that an execution needs. Whatever waits, waits for the scheduler."""
    stub: Any = _Stub
    return Engine(
        storage=cast("Any", _Storage()),
        models=cast("Any", SimpleNamespace(prices=NO_PRICES)),
        tools=ToolAccess(
            toolbox=cast("Any", _Toolbox(vault)),
            inline=InlineTools(stub, stub, stub),
            rules=ToolRules(cast("Any", scope.functions), cast("Any", _Rules(scope.slow_rules))),
            invokers={
                "webhook": Webhook(),
                "plugin": Webhook(),
                "client": CLIENT_INVOKER,
                "agent": AGENT_INVOKER,
            },
            callback=lambda state, call: ("", ""),
            timeout=timedelta(seconds=400),
        ),
        guards=Guards(stub, cast("Any", _Policies())),
        children=cast("Any", _Children(scope, mint)),
    )


class _Stub:
    def publish(self, _run_id: Any, _events: Any) -> None: ...

    def notify_changed(self, _: Any) -> None: ...

    def close_carried(self, _: Any) -> None: ...

    def enqueue(self, _: Any) -> None: ...


class _Storage:
    lease_length = LEASE

    def __init__(self) -> None:
        self.feed = self.notices = _Stub()

    def commit(self, step: Step) -> Pending:
        return Pending("commit", step)

    def load(self, lease: HeldLease) -> Pending:
        return Pending("load", (lease.run_id, lease.fence))

    def renew(self, _: HeldLease) -> Pending:
        return Pending("renew")

    async def reserve(self, *_: object) -> Any:
        raise AssertionError("the project has no budgets")


class _Policies:
    async def of(self, _: Any) -> Any:
        return NO_POLICY


class _Rules:
    def __init__(self, slow: bool) -> None:  # noqa: FBT001
        self._slow = slow

    async def decide(self, *_: Any) -> list[Any]:
        return await Pending("rules") if self._slow else []


class _Toolbox:
    def __init__(self, vault: Mapping[tuple[str, int], CompiledTool]) -> None:
        self._vault = vault

    async def fetch(self, _: Any, wanted: Any) -> ToolSet:
        found = {pair: self._vault[pair] for pair in wanted if pair in self._vault}
        return ToolSet({pair: SignedTool(one, ()) for pair, one in found.items()})


class _Children:
    def __init__(self, scope: Scope, mint: Callable[[], UUID]) -> None:
        self._scope = scope
        self._mint = mint

    async def opened(
        self,
        state: RunState,
        call: Call,
        tool: CompiledTool,
        left: float | None,
        request: AgentRequest | None,
    ) -> ChildRun:
        del left
        agent = tool.spec.agent if request is None else request.agent
        assert agent is not None
        asked: JsonObject = call.arguments if request is None else {"input": request.input}
        return ChildRun(
            id=RunId(self._mint()),
            call_id=call.id,
            agent=agent,
            member=self._scope.members[agent],
            team={},
            input=build_child_input(asked),
            context=state.context,
            deadline_seconds=None,
        )

    async def result_of(self, state: RunState, tool: CompiledTool, child: Any) -> Any:
        del state
        return read_child_outcome(tool, child)

    def cancel(self, _: RunState) -> Any:
        return Pending("cancel below")
