"""Runs that the test's own process executes, with one tool that answers as the test says."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from runward.domain.ids import ProjectId
from runward.domain.run.config import AgentConfig
from runward.domain.run.items import Message
from runward.domain.run.outcomes import Outcome
from runward.domain.run.state import CallPhase, RunState, Segment, SegmentKind
from runward.llm.base import ModelRequest, ModelResponse, OnDelta
from runward.llm.catalog import Models
from runward.llm.offline.model import OfflineModel
from runward.loop.execution import Execution
from runward.loop.project_cache import ProjectModels
from runward.services import Services
from runward.settings import Settings
from runward.store.registry import tool_registry
from runward.store.runs.gate import Step, StepOutcome
from runward.tools.base import Invocation
from runward.tools.guards import GuardClient, RunGuardrail
from runward.tools.signing import SignedPostClient
from runward.wiring import open_services
from tests.db.store import PROJECT, Store, new_run

Answer: TypeAlias = Callable[[Invocation], Awaitable[Outcome]]


class Scripted:
    """Implements Tool: the answers in their order, an outcome or a function that returns one."""

    def __init__(self) -> None:
        self.answers: list[Outcome | Answer] = []
        self.calls: list[Invocation] = []

    async def invoke(self, call: Invocation) -> Outcome:
        self.calls.append(call)
        answer = self.answers.pop(0)
        return await answer(call) if callable(answer) else answer


class Watched(OfflineModel):
    """The offline model. `answers`, in their order, take the place of its own."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.answers: list[Callable[[], Awaitable[ModelResponse]]] = []

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        self.requests.append(request)
        return await (self.answers.pop(0)() if self.answers else super().respond(request, on_delta))


class OneModel(Models):
    def __init__(self, model: OfflineModel) -> None:
        super().__init__({})
        self._offline = model


class OneModelForAll(ProjectModels):
    def __init__(self, model: OfflineModel) -> None:
        self._models = OneModel(model)

    async def of(self, project_id: ProjectId) -> Models:
        return self._models


class Loop:
    """`before_commit` runs before each step is sent to the gate."""

    def __init__(self, store: Store, services: Services, patch: pytest.MonkeyPatch) -> None:
        self.store = store
        self._patch = patch
        self.services = services
        self.tool = Scripted()
        self.model = Watched()
        self.before_commit: Callable[[Step], Awaitable[None]] | None = None
        self.execution: Execution | None = None
        self.steps: list[Step] = []
        parts, tools = services.engine, services.engine.tools
        self.engine = replace(
            parts,
            storage=replace(parts.storage, commit=self._commit),
            models=replace(parts.models, models=OneModelForAll(self.model)),
            tools=replace(tools, invokers={**tools.invokers, "webhook": self.tool}),
        )

    async def _commit(self, step: Step) -> StepOutcome:
        self.steps.append(step)
        if self.before_commit is not None:
            await self.before_commit(step)
        return await self.services.engine.storage.commit(step)

    async def leased(self, message: str, *answers: Outcome | Answer, **config: Any) -> RunState:
        """A claimed run of `offline:rules` with the tools of `config`."""
        self.tool.answers += answers
        agent = AgentConfig.model_validate({"model": "offline:rules", **config}, strict=False)
        new = new_run(agent)
        new.changes.segments[0] = Segment(SegmentKind.INPUT, 0, None, (Message("user", message),))
        [result] = await self.store.acceptor.write([new])
        assert not isinstance(result, BaseException)
        [state] = [one for one in await self.store.claim(1) if one.id == new.id]
        return state

    async def execute(self, state: RunState) -> str:
        """Execute one claim. Returns the status of the run afterward."""
        self.execution = Execution(self.engine, state)
        await self.execution.run()
        return (await self.store.head(state.id)).status

    def let_pass(self, seconds: float) -> None:
        """Have the event loop's clock go forward."""
        loop = asyncio.get_running_loop()
        time = loop.time
        self._patch.setattr(loop, "time", lambda: time() + seconds)

    @property
    def current(self) -> Execution:
        assert self.execution is not None
        return self.execution

    async def change(self, state: RunState) -> None:
        """Change the run from outside, as the API does."""
        async with self.store.pool.begin() as tx:
            await self.store.bump(tx, state.id)

    def judge_with(self, guardrail: RunGuardrail) -> None:
        """Have that function judge in the place of every plugin's guardrail."""
        services = self.services
        guards = GuardClient(
            SignedPostClient(services.registry.egress),
            run_guardrail=guardrail,
            run_hook=services.registry.plugins.run_hook,
        )
        self.engine = replace(self.engine, guards=replace(self.engine.guards, client=guards))

    async def delete(self, tool: str) -> None:
        async with self.store.pool.begin() as tx:
            await tool_registry.delete_tool(tx, PROJECT, tool)
        self.engine.tools.toolbox.forget(PROJECT)

    async def steal(self, state: RunState) -> None:
        """Have another worker claim the run, long after this process was frozen."""
        await self.store.sql("UPDATE runs SET fence = fence + 1 WHERE id = :id", id=state.id)
        self.let_pass(2 * self.engine.storage.lease_length.total_seconds())

    def before_start(self, attempt: int, act: Callable[[], Awaitable[object]]) -> None:
        """Run `act` once, before the start of that attempt of a call is committed."""

        async def watch(step: Step) -> None:
            rows = {**step.changes.inserted, **step.changes.updated}.values()
            if any((row.phase, row.attempt) == (CallPhase.STARTED, attempt) for row in rows):
                self.before_commit = None
                await act()

        self.before_commit = watch


@asynccontextmanager
async def loop_on(store: Store) -> AsyncGenerator[Loop]:
    settings = Settings.model_validate({"secret_key": "k" * 32})
    async with open_services(settings, store.url) as services:
        with pytest.MonkeyPatch.context() as patch:
            yield Loop(store, services, patch)
