"""Carry one leased run as far as it goes: load, decide, do, commit, decide again.

The run's state stays in memory while the lease is held; every step is one commit. Nothing here
decides: that is `app.domain.decide`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, assert_never

import structlog

from app.domain import texts
from app.domain.calls import Call, CallPhase
from app.domain.decide import Action, AskModel, Finish, Park, RunTools, next_action
from app.domain.ids import CallId, Prefix, ProjectId, RunId, show
from app.domain.items import Message
from app.domain.plan import Turn, UnusableResponseError, take_response
from app.domain.recheck import recheck
from app.domain.response import ModelResponse
from app.domain.run import Move, RunStatus
from app.domain.schema import Validator
from app.domain.settle import conclude, judge, recover, start
from app.domain.state import Changes, RunState, Segment, SegmentKind
from app.domain.toolbox import Tool
from app.llm.base import ModelError
from app.llm.catalog import ModelCatalog
from app.loop import endings
from app.loop.ask_model import Retried, ask_model, request_for
from app.loop.guarding import Guarding
from app.loop.policies import NO_POLICY, Policies
from app.loop.run_tools import CallsInFlight
from app.loop.toolbox import Armed, Toolbox, ToolSet, surroundings
from app.store.commit import Committed, Ending, Moved, Step, Written
from app.store.db import patiently
from app.store.events import shown_now
from app.store.ids import mint
from app.store.notify import Feed
from app.tools.base import Tool as Executor
from app.tools.guards import Guards

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Engine:
    """What executing a run needs. `load` reads a run as it is now; None: it is not leased under
    that fence any more. `callback` makes the URL and token with which a tool answers later."""

    commit: Callable[[Step], Awaitable[Written]]
    load: Callable[[ProjectId, RunId, int], Awaitable[RunState | None]]
    toolbox: Toolbox
    models: ModelCatalog
    executors: Mapping[str, Executor]
    """By type of tool."""
    guards: Guards
    policies: Policies
    feed: Feed
    callback: Callable[[RunState, Call], tuple[str, str]]
    tool_timeout: timedelta


class LeaseLostError(Exception):
    """Somebody else owns the run, or it was cancelled: drop it, write nothing."""


class Execution:
    """One claim of one run, from its load to its end, park or hand-back."""

    def __init__(self, engine: Engine, state: RunState) -> None:
        self._engine = engine
        self._state = state
        self._changes = Changes()
        self._tools = ToolSet({})
        self._guarding = Guarding(engine.guards, NO_POLICY)
        self._in_flight = CallsInFlight(
            engine.executors, engine.callback, self._guarding, self._reported
        )
        self._nudged = asyncio.Event()
        self._draining = False
        self._lost = False
        self._schema: Validator | None = None
        self._overdue_at: float | None = None

    @property
    def project_id(self) -> ProjectId:
        return self._state.project_id

    @property
    def lease(self) -> tuple[RunId, int]:
        return self._state.id, self._state.fence

    def nudge(self) -> None:
        """Somebody changed the run, or its tools: look."""
        self._nudged.set()

    def lose(self) -> None:
        """The lease is known to be lost."""
        self._lost = True
        self._nudged.set()

    def drain(self) -> None:
        """Stop as soon as nothing is in flight that cannot be asked again, and hand back."""
        self._draining = True
        self._nudged.set()

    async def run(self) -> None:
        """Returns when the run has ended, waits for someone, was handed back, or is lost."""
        try:
            await self._arm()
            self._state = recover(self._state, self._changes, self._tool_of)
            while not await self._step():
                pass
        except LeaseLostError:
            log.info("lease_lost", run=show(Prefix.RUN, self._state.id), fence=self._state.fence)
        finally:
            await self._in_flight.close()

    async def _step(self) -> bool:
        """Decide and do one thing. True: this claim is over."""
        if self._lost:
            raise LeaseLostError
        if self._draining and not self._in_flight:
            return await self._end(Ending(Move.RELEASE, keep_claim=True), self._changes)
        action = self._decide()
        match action:
            case AskModel():
                return await self._ask(action)
            case RunTools(start=calls):
                return await self._run_tools(calls)
            case Park():
                return await self._park(action)
            case Finish():
                return await self._finish(action)
            case _:
                assert_never(action)

    def _decide(self) -> Action:
        overdue = self._overdue_at is not None and _now() >= self._overdue_at
        caps = {
            name: tool.spec.concurrency for name, tool in self._tools.current(self._state).items()
        }
        return next_action(self._state, overdue=overdue, caps=caps, schema=self._schema)

    # Asking the model.

    async def _ask(self, action: AskModel) -> bool:
        if action.repair:
            self._add_repair(action)
        if not await self._record():
            return False
        tools = self._tools.enabled(self._state)
        request = request_for(self._state, tools, action)
        asking = asyncio.create_task(
            ask_model(self._engine.models, self._state, request, self._engine.feed, self._retried)
        )
        try:
            response = await self._unless_stopped(asking)
        except ModelError as error:
            failed = Finish(RunStatus.FAILED, code=error.code, message=error.message)
            return await self._finish(failed)
        if response is None:
            return False
        turn = Turn({} if action.tools_off else tools, surroundings(self._state), mint)
        try:
            state, changes = take_response(self._state, response, turn)
        except UnusableResponseError as error:
            self._state = replace(
                self._state, turn=self._state.turn + 1, usage=self._state.usage + response.usage
            )
            return await self._finish(
                Finish(RunStatus.FAILED, code=error.code, message=error.message)
            )
        changes.events[:0] = self._changes.events
        self._state, self._changes = state, changes
        return False

    async def _unless_stopped(self, asking: asyncio.Task[ModelResponse]) -> ModelResponse | None:
        """None: draining; the model is asked again by whoever takes the run next."""
        try:
            while not asking.done():
                left = None if self._overdue_at is None else self._overdue_at - _now()
                if left is not None and left <= 0:
                    return None
                await self._wait({asking}, left)
                if not asking.done() and self._nudged.is_set():
                    await self._look()
                    if self._draining:
                        return None
            return asking.result()
        finally:
            asking.cancel()

    def _retried(self, retried: Retried) -> None:
        self._changes.add(
            "model.retried",
            model=retried.model,
            code=retried.code,
            message=retried.message,
            after_seconds=round(retried.after, 3),
        )

    def _add_repair(self, action: AskModel) -> None:
        problems = [(problem.path, problem.message) for problem in action.repair]
        segment = Segment(
            SegmentKind.REPAIR,
            self._state.turn,
            self._state.agent,
            (Message("user", texts.repair(problems)),),
        )
        self._changes.add(
            "model.retried",
            code="output_schema",
            message="; ".join(f"{path} {message}" for path, message in problems),
        )
        self._changes.segments.append(segment)
        self._state = replace(self._state, segments=(*self._state.segments, segment))

    # Running tools.

    async def _run_tools(self, calls: tuple[CallId, ...]) -> bool:
        now = self._tools.enabled(self._state)
        for call_id in calls:
            call = self._state.calls[call_id]
            self._state = recheck(self._state, self._changes, call, now, mint)
        ready = [
            self._state.calls[call_id]
            for call_id in calls
            if self._state.calls[call_id].phase is CallPhase.READY
        ]
        if not ready and calls:
            return False
        await self._start(ready)
        if self._in_flight:
            await self._collect()
        return False

    async def _start(self, calls: list[Call]) -> None:
        """Commit that the calls start, together with all that is still unwritten; only then do
        they. If the run was changed meanwhile, nothing starts and it is decided again."""
        if not calls:
            await self._record()
            return
        state, changes = self._state, self._changes.copy()
        started: list[Call] = []
        for call in calls:
            state, one = start(state, changes, call, seconds=self._seconds_for(call))
            started.append(one)
        written = await self._write(state, changes, seen=self._state.version)
        if isinstance(written, Moved):
            await self._record()
            await self._reload()
            return
        self._state, self._changes = state, Changes()
        for call in started:
            self._in_flight.launch(state, call, self._armed(call))

    async def _collect(self) -> None:
        """Wait for results, or for somebody's change; take in all that are there."""
        await self._wait(self._in_flight.tasks, None)
        if self._nudged.is_set():
            await self._look()
        again: list[Call] = []
        for call_id, outcome in self._in_flight.take_done():
            call = self._state.calls[call_id]
            if outcome == "retry":
                again.append(call)
                continue
            left = self._in_flight.seconds_left(call)
            tool = self._armed(call).tool
            verdict = judge(tool, call, outcome, seconds_left=left, jitter=0.0)
            self._state = conclude(self._state, self._changes, call, verdict)
        if again:
            await self._start(again)

    def _reported(self, call: Call, progress: float | None, message: str | None) -> None:
        """A tool says how far it is."""

    # Ending this claim.

    async def _park(self, action: Park) -> bool:
        changes = self._changes.copy()
        return await self._end(endings.park(self._state, changes, action), changes)

    async def _finish(self, action: Finish) -> bool:
        changes = self._changes.copy()
        return await self._end(endings.finish(self._state, changes, action), changes)

    async def _end(self, ending: Ending, changes: Changes) -> bool:
        """True: committed. False: somebody changed the run; it is decided again."""
        seen = None if ending.move is Move.RELEASE else self._state.version
        written = await self._write(self._state, changes, seen=seen, ending=ending)
        if isinstance(written, Committed):
            return True
        await self._record()
        await self._reload()
        return False

    # Writing and reading.

    async def _record(self) -> bool:
        """Commit what has happened, whatever others did meanwhile. False: they did something,
        and it is decided again."""
        if not self._changes.empty:
            changes, self._changes = self._changes, Changes()
            written = await self._write(self._state, changes, seen=None)
            assert isinstance(written, Committed)
            if written.version != self._state.version:
                await self._reload()
                return False
        return True

    async def _write(
        self, state: RunState, changes: Changes, *, seen: int | None, ending: Ending | None = None
    ) -> Committed | Moved:
        """Raises LeaseLostError; then nothing was written."""
        if self._lost:
            raise LeaseLostError
        step = Step(
            project_id=state.project_id,
            run_id=state.id,
            fence=state.fence,
            changes=changes,
            seen=seen,
            turn=state.turn,
            usage=state.usage,
            ending=ending,
        )
        written = await self._engine.commit(step)
        if written == "lost":
            raise LeaseLostError
        if isinstance(written, Committed) and self._engine.feed.followed(state.id):
            events = shown_now(state.id, written.last_seq, written.at, changes.events)
            self._engine.feed.publish(state.id, events)
        return written

    async def _look(self) -> None:
        """After a nudge: take over what others changed. Raises LeaseLostError."""
        self._nudged.clear()
        if self._lost:
            raise LeaseLostError
        if self._changes.empty:
            await self._reload()
        else:
            await self._record()

    async def _reload(self) -> None:
        state = await self._engine.load(self._state.project_id, self._state.id, self._state.fence)
        if state is None:
            raise LeaseLostError
        self._state = state
        await self._arm()

    async def _arm(self) -> None:
        """Have every tool at hand that the run may show or has open calls of."""
        state = self._state
        wanted = set(state.pinned.items())
        wanted |= {(c.tool, c.version) for c in state.open_calls if c.version is not None}
        toolbox, policies = self._engine.toolbox, self._engine.policies
        policy = await patiently(lambda: policies.of(state.project_id))
        self._guarding = self._in_flight.guarding = Guarding(self._engine.guards, policy)
        self._tools = await patiently(lambda: toolbox.fetch(state.project_id, wanted))
        if state.config.output_schema is not None and self._schema is None:
            self._schema = Validator(state.config.output_schema, at="output")
        if state.seconds_left is not None:
            self._overdue_at = _now() + state.seconds_left

    def _armed(self, call: Call) -> Armed:
        armed = self._tools.of(call)
        assert armed is not None
        return armed

    def _tool_of(self, call: Call) -> Tool | None:
        armed = self._tools.of(call)
        return armed.tool if armed else None

    def _seconds_for(self, call: Call) -> float:
        """The call's own timeout, the run's, or the service's; never more than the run has left.
        A retry has what its first attempt left."""
        if self._in_flight.was_tried(call) and call.timeout_seconds is not None:
            return call.timeout_seconds
        own = self._armed(call).tool.spec.timeout_seconds
        seconds = (
            own
            or self._state.config.limits.tool_timeout_seconds
            or self._engine.tool_timeout.total_seconds()
        )
        if self._overdue_at is not None:
            seconds = max(0.01, min(seconds, self._overdue_at - _now()))
        return seconds

    async def _wait(self, tasks: Collection[asyncio.Task[Any]], seconds: float | None) -> None:
        """Until one of the tasks is done, or a nudge comes."""
        nudged = asyncio.create_task(self._nudged.wait())
        try:
            await asyncio.wait(
                {*tasks, nudged}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            nudged.cancel()


def _now() -> float:
    return asyncio.get_running_loop().time()
