"""Carry one leased run as far as it goes: load, decide, do, commit, decide again.

The run's state stays in memory while the lease is held; every step is one commit. Nothing here
decides: that is `runward.domain.run.decide`.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, Final, TypeVar, assert_never

import structlog

from runward.domain.events.kinds import ModelRetriedEvent
from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.registry.guards import Allow
from runward.domain.run import team, texts
from runward.domain.run.bounds import bounded_outcome
from runward.domain.run.calls import Call, CallPhase
from runward.domain.run.decide import (
    Action,
    AskModel,
    Delegate,
    Finish,
    HandOver,
    Park,
    RunTools,
    Wait,
    next_action,
)
from runward.domain.run.items import Message
from runward.domain.run.outcomes import Done, Outcome
from runward.domain.run.plan import Turn, UnusableResponseError, take_response
from runward.domain.run.recheck import recheck
from runward.domain.run.resolve import ANSWERABLE_PHASES, parse_kept_answer
from runward.domain.run.response import ModelResponse
from runward.domain.run.settle import (
    StartChild,
    classify_outcome,
    conclude,
    merge_state,
    put_back,
    recover,
    start,
)
from runward.domain.run.state import Changes, ChildRun, RunState, Segment, SegmentKind, add_usage
from runward.domain.run.status import Move, RunStatus
from runward.loop import endings, turn
from runward.loop.ask_model import LossNote, Note
from runward.loop.available_tools import EquippedRun
from runward.loop.leased_run import Engine, LeaseLostError
from runward.store.access.vault import SecretUnreadableError
from runward.store.postgres.db import mint, retry_on_outage
from runward.store.runs.gate import Ending, VersionChanged

log = structlog.get_logger()
INTERNAL: Final = "internal_error"
LOST_TRACK: Final = "Runward lost track of a tool call. This is a defect in Runward."
T = TypeVar("T")


class Execution(EquippedRun):
    """One claim of one run, from its load to its end, park or hand-back."""

    def __init__(self, engine: Engine, state: RunState, claimed_at: float | None = None) -> None:
        super().__init__(engine, state, claimed_at)
        self._downgraded: set[LossNote] = set()

    async def run(self) -> None:
        """Returns when the run has ended, waits for someone, was handed back, or is lost."""
        try:
            if self._state.place is not None and self._state.place.number is not None:
                history = await retry_on_outage(lambda: self._engine.history(self._state))
                self._state = replace(self._state, history=history)
            await self._arm()
            self._state = recover(self._state, self._changes, self._tool_of)
            while not await self._step():
                pass
        except LeaseLostError:
            self._lost = True
            log.info(
                "lease_lost", run=format_id(Prefix.RUN, self._state.id), fence=self._state.fence
            )
        except SecretUnreadableError as error:
            await self._hand_back_unread(error)
        finally:
            await self._in_flight.close()

    async def _step(self) -> bool:
        """Decide and do one thing. True: this claim is over."""
        if self._lost or self._nudged.is_set():
            await self._look()
        if self._draining:
            return await self._drain()
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
            case Wait(stopping=stopping):
                return await self._await_calls(stopping=stopping)
            case Park():
                changes = self._changes.copy()
                return await self._end(endings.park(self._state, changes, action), changes)
            case Finish():
                return await self._finish(action)
            case _:
                assert_never(action)

    def _decide(self) -> Action:
        current = self._tools.current(self._state)
        caps = {name: tool.spec.concurrency for name, tool in current.items()}
        busy = self._in_flight.busy_with(self._state)
        overdue = self._left is not None and self._left <= 0
        return next_action(self._state, overdue=overdue, busy=busy, caps=caps, schema=self._schema)

    async def _drain(self) -> bool:
        """Hand the run back once no call is in flight. Nothing starts meanwhile."""
        if self._in_flight:
            return await self._await_calls(stopping=True)
        return await self._end(Ending(Move.RELEASE, keep_claim=True), self._changes)

    # Asking the model.

    async def _ask(self, action: AskModel) -> bool:
        if action.repair:
            self._add_repair(action)
        if not await self._record():
            return False
        state, segments = self._state, len(self._state.segments)
        tools = await self._shown_now()
        if self._nudged.is_set():
            return False  # a tool may have changed: decide again
        engine, guarding = self._engine, self._guarding
        tell, check = self._tell, self._check_lease
        asking = turn.ask(engine, guarding, state, tools, action, tell=tell, check=check)
        response = await self._unless_stopped(asking)
        if response is None:
            return False
        if isinstance(response, Finish):
            return await self._finish(response)
        if isinstance(response, turn.FailedAfterResponse):
            return await self._spoiled(response)
        shown_tools = {} if action.tools_off else tools
        judging = turn.prepare_turn(
            engine, guarding, state, response, shown_tools, self._armed_tool
        )
        judged = await self._unless_stopped(judging)
        if judged is None:  # the response is dropped, but it was paid for
            self._state = add_usage(self._state, self._changes, response.usage)
            return False
        hidden = frozenset(() if action.tools_off else self._enabled.keys() - tools.keys())
        return await self._take(response, replace(judged, shown=segments, hidden=hidden))

    async def _delegate(self, response: ModelResponse) -> bool:
        """The next steps of a workflow, whose input guardrails are asked like a model's."""
        if not await self._record():
            return False
        state, segments = self._state, len(self._state.segments)
        engine, guarding = self._engine, self._guarding
        verdict = await self._unless_stopped(guarding.check_input(state))
        if verdict is None:
            return False
        if not isinstance(verdict, Allow):
            return await self._finish(turn.finish_refused(verdict, "run_input"))
        await self._find_enabled(state)
        tools = {**self._enabled, **self._made}
        judging = turn.prepare_turn(engine, guarding, state, response, tools, self._armed_tool)
        judged = await self._unless_stopped(judging)
        return judged is not None and await self._take(response, replace(judged, shown=segments))

    async def _take(self, response: ModelResponse, judged: Turn) -> bool:
        """The response enters the conversation, its calls the ledger. All that came before is
        written, save for events."""
        assert self._changes.only_events
        self._forget_expired()
        try:
            state, changes = take_response(self._state, response, judged)
        except UnusableResponseError as error:
            failed = Finish(RunStatus.FAILED, code=error.code, message=error.message)
            return await self._spoiled(turn.FailedAfterResponse(response, failed))
        changes.events[:0] = self._changes.events
        self._state, self._changes = state, changes
        return False

    async def _spoiled(self, spoiled: turn.FailedAfterResponse) -> bool:
        """The event keeps the usage even where the run was changed meanwhile and goes on."""
        state = replace(self._state, turn=self._state.turn + 1)
        self._state = add_usage(state, self._changes, spoiled.response.usage)
        return await self._finish(spoiled.finish)

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """None: draining, or overdue. Whoever takes the run next asks again."""
        asking = asyncio.create_task(work)
        try:
            while not asking.done():
                left = self._left
                if self._draining or (left is not None and left <= 0):
                    return None
                if self._lost or self._nudged.is_set():
                    await self._look()
                else:
                    await self._wait({asking}, left)
            return asking.result()
        finally:
            asking.cancel()

    def _tell(self, note: Note) -> None:
        if isinstance(note, LossNote):
            if note in self._downgraded:
                return
            self._downgraded.add(note)
        self._changes.add(note.event())

    def _add_repair(self, action: AskModel) -> None:
        problems = [(problem.path, problem.message) for problem in action.repair]
        segment = Segment(
            SegmentKind.REPAIR,
            self._state.turn,
            self._state.agent,
            (Message("user", texts.repair(problems)),),
        )
        message = "; ".join(f"{path} {message}" for path, message in problems)
        self._changes.add(ModelRetriedEvent({"code": "output_schema", "message": message}))
        self._changes.segments.append(segment)
        self._state = replace(self._state, segments=(*self._state.segments, segment))

    async def _hand_over(self, agent: str) -> bool:
        self._state = team.hand_over(self._state, self._changes, agent)
        self._schema = None
        await self._record()
        await self._arm()
        return False

    # Running tools.

    async def _run_tools(self, calls: tuple[CallId, ...]) -> bool:
        await self._find_enabled(replace(self._state, turn=self._state.turn - 1))
        if self._nudged.is_set():
            return False  # a tool may have changed: decide again
        self._forget_expired()
        for call_id in calls:
            call = self._state.calls[call_id]
            self._state = recheck(
                self._state, self._changes, call, self._callable, mint, self._tool_of(call)
            )
        checked = [self._state.calls[call_id] for call_id in calls]
        for call in checked:
            if call.phase is not CallPhase.READY:
                self._in_flight.forget(call.id)
        await self._start([call for call in checked if call.phase is CallPhase.READY])
        return False

    async def _start(self, calls: list[Call]) -> None:
        """Commit that the calls start, together with all that is still unwritten; only then do
        they. If the run was changed meanwhile, nothing starts and it is decided again."""
        if not calls:
            return
        state, changes = self._state, self._changes.copy()
        written_events = len(changes.events)
        started: list[Call] = []
        for call in calls:
            state, one = start(state, changes, call, seconds=self._seconds_for(call))
            started.append(one)
        written = await self._write(state, changes, seen=self._state.version)
        if isinstance(written, VersionChanged):
            await self._record()
            await self._reload()
            return
        self._state = state
        self._changes = Changes(self._changes.events[written_events:])  # reported meanwhile
        for call in started:
            self._in_flight.launch(state, call, self._armed(call))

    async def _await_calls(self, *, stopping: bool) -> bool:
        """Wait for the calls in flight. A run that would wait for nothing would do so forever, and
        block the process: it fails."""
        if not self._in_flight:
            log.error("nothing_in_flight", run=format_id(Prefix.RUN, self._state.id))
            return await self._finish(Finish(RunStatus.FAILED, code=INTERNAL, message=LOST_TRACK))
        if stopping:
            self._in_flight.end_backoffs()
        if await self._record():
            await self._collect()
        return False

    async def _take_in(self) -> None:
        """What has come back from elsewhere passes guardrails and hooks like any other result:
        the outputs of child runs that have ended, and callbacks that were left for that."""
        for call in self._state.open_calls:
            if call.id in self._in_flight:
                continue
            outcome: Outcome | None = None
            child = self._state.children.get(call.id)
            if call.phase is CallPhase.AWAITING_CHILD and child is not None and child.has_ended:
                tool = self._armed(call).tool
                outcome = await self._engine.children.result_of(self._state, tool, child)
            elif call.phase in ANSWERABLE_PHASES and call.received is not None:
                outcome = parse_kept_answer(call.received)
            if outcome is not None:
                self._in_flight.launch_late(self._state, call, self._armed(call), outcome)

    async def _collect(self) -> None:
        """Wait for results, or for somebody's change; take in all that are there. A call that may
        be retried is ready again, and is decided about like any other."""
        await self._wait(self._in_flight.tasks, None)
        if self._nudged.is_set():
            await self._look()
        for call_id, outcome in self._in_flight.take_done():
            call = self._state.calls[call_id]
            if call.phase is CallPhase.SETTLED:
                continue  # its time ran out meanwhile
            if outcome == "retry":
                self._state = put_back(self._state, self._changes, call)
            else:
                await self._conclude(call, outcome)

    async def _conclude(self, call: Call, outcome: Outcome) -> None:
        tool, outcome = self._armed(call).tool, bounded_outcome(outcome)
        verdict = classify_outcome(tool, call, outcome, seconds_left=0.0, jitter=0.0)
        if isinstance(verdict, StartChild):
            opened = await self._engine.children.opened(self._state, call, tool, self._left)
            if isinstance(opened, ChildRun):
                self._state = team.start_child(self._state, self._changes, call, opened)
                return
            verdict = classify_outcome(tool, call, opened, seconds_left=0.0, jitter=0.0)
        if call.phase is CallPhase.AWAITING_CHILD:
            child = self._state.children[call.id]
            self._state = team.add_child_usage(self._state, self._changes, call, child)
        if isinstance(outcome, Done) and outcome.state and team.is_success(verdict):
            if (refused := team.check_state_size(self._state, outcome.state)) is not None:
                verdict = classify_outcome(tool, call, refused, seconds_left=0.0, jitter=0.0)
            else:
                self._state = merge_state(self._state, self._changes, call, outcome.state)
        self._state = conclude(self._state, self._changes, call, verdict)

    # Ending this claim.

    async def _finish(self, action: Finish) -> bool:
        if turn.has_output_to_check(action):
            version = self._state.version
            checking = turn.check_output(self._guarding, self._state, action)
            checked = await self._unless_stopped(checking)
            if checked is None or self._state.version != version:
                return False  # it is decided again
            action = checked
        changes = self._changes.copy()
        orphans = bool(self._state.open_children)
        over = await self._end(endings.finish(self._state, changes, action), changes)
        if over and orphans:
            closed = await self._engine.children.cancel(self._state)
            self._engine.notices.tell(closed.abandoned)
        return over
