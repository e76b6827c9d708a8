"""Carry one leased run as far as it goes: load, decide, do, commit, decide again.

The run's state stays in memory while the lease is held; every step is one commit. Nothing here
decides: that is `app.domain.decide`.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar, assert_never

import structlog

from app.domain import team, texts
from app.domain.builtins import BUILTINS, shown
from app.domain.calls import Call, CallPhase
from app.domain.decide import (
    Action,
    AskModel,
    Delegate,
    Finish,
    HandOver,
    Park,
    RunTools,
    next_action,
)
from app.domain.ids import CallId, Prefix, show
from app.domain.items import Message
from app.domain.outcomes import Done, Outcome
from app.domain.plan import Turn, UnusableResponseError, take_response
from app.domain.recheck import recheck
from app.domain.resolve import ANSWERABLE, outcome_of_callback
from app.domain.response import ModelResponse
from app.domain.run import Move, RunStatus
from app.domain.schema import Validator
from app.domain.settle import StartChild, conclude, judge, recover, share, start
from app.domain.state import Changes, ChildRun, RunState, Segment, SegmentKind
from app.domain.toolbox import Tool
from app.loop import endings, turn
from app.loop.ask_model import Downgraded, Note
from app.loop.builtins import Builtin
from app.loop.guarding import Guarding
from app.loop.leased import Engine, LeasedRun, LeaseLostError, now
from app.loop.policies import NO_POLICY
from app.loop.run_tools import CallsInFlight, seconds_for
from app.loop.toolbox import Armed, ToolSet, enabled_now
from app.store.commit import Ending, Moved
from app.store.db import patiently
from app.store.ids import mint
from app.store.vault import SecretUnreadableError

log = structlog.get_logger()
T = TypeVar("T")

MAX_PROGRESS: Final = 100
"""Times that one call may say in one claim how far it is; what it says more is dropped."""


class Execution(LeasedRun):
    """One claim of one run, from its load to its end, park or hand-back."""

    def __init__(self, engine: Engine, state: RunState) -> None:
        super().__init__(engine, state)
        self._tools = ToolSet({})
        self._made: dict[str, Tool] = {}
        self._enabled: dict[str, Tool] = {}
        self._guarding = Guarding(engine.guards, NO_POLICY)
        builtin = Builtin(lambda: self._state, self._searched)
        executors = {**engine.executors, "builtin": builtin}
        self._in_flight = CallsInFlight(executors, engine.callback, self._guarding, self._reported)
        self._reports: dict[CallId, int] = {}
        self._downgraded: set[Downgraded] = set()
        self._schema: Validator | None = None
        self._overdue_at: float | None = None

    async def run(self) -> None:
        """Returns when the run has ended, waits for someone, was handed back, or is lost."""
        try:
            if self._state.place is not None and self._state.place.number is not None:
                history = await patiently(lambda: self._engine.history(self._state))
                self._state = replace(self._state, history=history)
            await self._arm()
            self._state = recover(self._state, self._changes, self._tool_of)
            while not await self._step():
                pass
        except LeaseLostError:
            log.info("lease_lost", run=show(Prefix.RUN, self._state.id), fence=self._state.fence)
        except SecretUnreadableError as error:
            await self._hand_back_unread(error)
        finally:
            await self._in_flight.close()

    async def _step(self) -> bool:
        """Decide and do one thing. True: this claim is over."""
        if self._lost:
            raise LeaseLostError
        if self._draining and not self._in_flight:
            return await self._end(Ending(Move.RELEASE, keep_claim=True), self._changes)
        await self._take_in()
        return await self._do(self._decide())

    async def _do(self, action: Action) -> bool:
        match action:
            case AskModel():
                return await self._ask(action)
            case Delegate(response=response):
                return await self._delegate(response)
            case HandOver(agent=agent):
                return await self._hand_over(agent)
            case RunTools(start=calls):
                return await self._run_tools(calls)
            case Park():
                changes = self._changes.copy()
                return await self._end(endings.park(self._state, changes, action), changes)
            case Finish():
                return await self._finish(action)
            case _:
                assert_never(action)

    def _decide(self) -> Action:
        overdue = self._overdue_at is not None and now() >= self._overdue_at
        current = self._tools.current(self._state)
        caps = {name: tool.spec.concurrency for name, tool in current.items()}
        busy = self._in_flight.busy_with(self._state)
        return next_action(self._state, overdue=overdue, busy=busy, caps=caps, schema=self._schema)

    # Asking the model.

    async def _ask(self, action: AskModel) -> bool:
        if action.repair:
            self._add_repair(action)
        if not await self._record():
            return False
        state, segments = self._state, len(self._state.segments)
        tools = await self._shown_now()
        engine, guarding = self._engine, self._guarding
        asking = turn.ask(engine, guarding, state, tools, action, self._tell)
        response = await self._unless_stopped(asking)
        if response is None:
            return False
        if isinstance(response, Finish):
            return await self._finish(response)
        if isinstance(response, turn.Spoiled):
            return await self._spoiled(response)
        shown_tools = {} if action.tools_off else tools
        judging = turn.judged(engine, guarding, state, response, shown_tools, self._armed_tool)
        judged = await self._unless_stopped(judging)
        if judged is None:
            return False
        hidden = frozenset(() if action.tools_off else self._enabled.keys() - tools.keys())
        return await self._take(response, replace(judged, shown=segments, hidden=hidden))

    async def _delegate(self, response: ModelResponse) -> bool:
        """The next steps of a workflow, whose input guardrails are asked like a model's."""
        if not await self._record():
            return False
        state, segments = self._state, len(self._state.segments)
        engine, guarding = self._engine, self._guarding
        refused = await turn.refused_input(guarding, state)
        if refused is not None:
            return await self._finish(refused)
        self._enabled = await enabled_now(self._tools, self._state, self._engine)
        tools = {**self._enabled, **self._made}
        judging = turn.judged(engine, guarding, state, response, tools, self._armed_tool)
        judged = await self._unless_stopped(judging)
        return judged is not None and await self._take(response, replace(judged, shown=segments))

    async def _take(self, response: ModelResponse, judged: Turn) -> bool:
        """The response enters the conversation, its calls the ledger. All that came before is
        written, save for events."""
        assert self._changes.only_events
        try:
            state, changes = take_response(self._state, response, judged)
        except UnusableResponseError as error:
            failed = Finish(RunStatus.FAILED, code=error.code, message=error.message)
            return await self._spoiled(turn.Spoiled(response, failed))
        changes.events[:0] = self._changes.events
        self._state, self._changes = state, changes
        return False

    async def _spoiled(self, spoiled: turn.Spoiled) -> bool:
        usage = self._state.usage + spoiled.response.usage
        self._state = replace(self._state, turn=self._state.turn + 1, usage=usage)
        return await self._finish(spoiled.finish)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None: draining, or overdue; whoever takes the run next asks again."""
        asking = asyncio.create_task(work)
        try:
            while not asking.done():
                left = None if self._overdue_at is None else self._overdue_at - now()
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

    def _tell(self, note: Note) -> None:
        if isinstance(note, Downgraded):
            if note in self._downgraded:
                return
            self._downgraded.add(note)
        kind, data = note.event()
        self._changes.add(kind, **data)

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

    async def _hand_over(self, agent: str) -> bool:
        self._state = team.hand_over(self._state, self._changes, agent)
        self._schema = None
        await self._record()
        await self._arm()
        return False

    # Running tools.

    async def _shown_now(self) -> dict[str, Tool]:
        """What the model is shown in this turn."""
        self._enabled = await enabled_now(self._tools, self._state, self._engine)
        return shown(self._state, self._enabled, self._made)

    def _searched(self) -> dict[str, Any]:
        return {name: tool.spec for name, tool in self._enabled.items()}

    async def _run_tools(self, calls: tuple[CallId, ...]) -> bool:
        self._enabled = await enabled_now(self._tools, self._state, self._engine)
        usable: Mapping[str, Tool] = {**self._enabled, **self._made, **BUILTINS}
        for call_id in calls:
            call = self._state.calls[call_id]
            self._state = recheck(self._state, self._changes, call, usable, mint)
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

    async def _take_in(self) -> None:
        """What has come back from elsewhere passes guardrails and hooks like any other result:
        the outputs of child runs that have ended, and callbacks that were left for that."""
        for call in self._state.open_calls:
            if call.id in self._in_flight:
                continue
            outcome: Outcome | None = None
            child = self._state.children.get(call.id)
            if call.phase is CallPhase.AWAITING_CHILD and child is not None and child.ended:
                tool = self._armed(call).tool
                outcome = await self._engine.children.result_of(self._state, tool, child)
            elif call.phase in ANSWERABLE and call.received is not None:
                outcome = outcome_of_callback(call.received)
            if outcome is not None:
                self._in_flight.launch_late(self._state, call, self._armed(call), outcome)

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
            elif call.phase is not CallPhase.SETTLED:  # else its time ran out meanwhile
                await self._conclude(call, outcome)
        if again:
            await self._start(again)

    async def _conclude(self, call: Call, outcome: Outcome) -> None:
        tool = self._armed(call).tool
        verdict = judge(tool, call, outcome, seconds_left=0.0, jitter=0.0)
        if isinstance(verdict, StartChild):
            opened = await self._engine.children.opened(self._state, call, tool, self._left)
            if isinstance(opened, ChildRun):
                self._state = team.start_child(self._state, self._changes, call, opened)
                return
            verdict = judge(tool, call, opened, seconds_left=0.0, jitter=0.0)
        if call.phase is CallPhase.AWAITING_CHILD:
            child = self._state.children[call.id]
            self._state = team.with_usage_of(self._state, self._changes, call, child)
        if isinstance(outcome, Done) and outcome.state and team.is_good(verdict):
            if (refused := team.too_much_state(self._state, outcome.state)) is not None:
                verdict = judge(tool, call, refused, seconds_left=0.0, jitter=0.0)
            else:
                self._state = share(self._state, self._changes, call, outcome.state)
        self._state = conclude(self._state, self._changes, call, verdict)

    def _reported(self, call: Call, progress: float | None, message: str | None) -> None:
        """A tool says how far it is; it is written with the next step, and at once if there is
        none."""
        said = self._reports[call.id] = self._reports.get(call.id, 0) + 1
        if said > MAX_PROGRESS:
            return
        self._changes.add(
            "tool_call.progress",
            call_id=call.id,
            status="progress",
            progress=progress,
            message=message,
        )
        self.nudge()

    # Ending this claim.

    async def _finish(self, action: Finish) -> bool:
        action = await turn.checked(self._guarding, self._state, action)
        changes = self._changes.copy()
        orphans = bool(self._state.open_children)
        over = await self._end(endings.finish(self._state, changes, action), changes)
        if over and orphans:
            closed = await self._engine.children.cancel(self._state)
            self._engine.notices.tell(closed.abandoned)
        return over

    async def _arm(self) -> None:
        """Have every tool at hand that the run may show, shows now, or has open calls of."""
        state = self._state
        wanted = {*state.pinned.items(), *((t.name, t.version) for t in self._enabled.values())}
        wanted |= {(c.tool, c.version) for c in state.open_calls if c.version}
        toolbox, policies = self._engine.toolbox, self._engine.policies
        policy = await patiently(lambda: policies.of(state.project_id))
        self._guarding = self._in_flight.guarding = Guarding(self._engine.guards, policy)
        self._tools = await patiently(lambda: toolbox.fetch(state.project_id, wanted))
        self._made = team.made_tools(state.config, state.team)
        if state.config.output_schema is not None and self._schema is None:
            self._schema = Validator(state.config.output_schema, at="output")
        if state.seconds_left is not None:
            self._overdue_at = now() + state.seconds_left

    def _armed(self, call: Call) -> Armed:
        armed = self._tools.of(call)
        if armed is not None:
            return armed
        return Armed({**self._made, **BUILTINS}[call.tool], ())

    def _armed_tool(self, tool: Tool) -> Armed:
        """One of those that the model is shown."""
        if tool.version == team.MADE:
            return Armed(tool, ())
        return self._tools.version(tool.name, tool.version)

    def _tool_of(self, call: Call) -> Tool | None:
        armed = self._tools.of(call)
        return armed.tool if armed else {**self._made, **BUILTINS}.get(call.tool)

    @property
    def _left(self) -> float | None:
        """Seconds until the run's deadline."""
        return None if self._overdue_at is None else self._overdue_at - now()

    def _seconds_for(self, call: Call) -> float | None:
        """A retry has what its first attempt left."""
        if self._in_flight.was_tried(call):
            return call.timeout_seconds
        spec, limits = self._armed(call).tool.spec, self._state.config.limits
        return seconds_for(spec, limits, self._engine.tool_timeout, self._left)
