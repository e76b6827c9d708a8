"""Execute one leased run in steps: load, decide, act, commit, and decide again.

The run's state stays in memory while the lease is held. Each step is one commit.
`runward.domain.run.decide` makes all decisions."""

from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Final, assert_never

import structlog

from runward.domain.events.values import RunErrorCode
from runward.domain.ids import CallId, Prefix, format_id
from runward.domain.run import team
from runward.domain.run.budget_approvals import ask_to_exceed
from runward.domain.run.budgets import BudgetWait
from runward.domain.run.child_runs import record_results, start_children
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
from runward.domain.run.open_calls import recover
from runward.domain.run.outcomes import Failed
from runward.domain.run.output import add_repair
from runward.domain.run.parsed_calls import ParsedResponse, Turn
from runward.domain.run.plan import UnusableResponseError, take_response
from runward.domain.run.recheck import recheck
from runward.domain.run.remembered_decisions import forget_expired
from runward.domain.run.response import ModelResponse
from runward.domain.run.run_events import add_reported_usage, add_usage
from runward.domain.run.settle import StartChild, classify_outcome, put_back, start
from runward.domain.run.state import Call, CallPhase, Changes, RunState
from runward.domain.run.status import Move, RunStatus
from runward.domain.schema.validator import Validator, stored_validator
from runward.loop.calls_in_flight import AvailableTools, CallEnd, CallsInFlight
from runward.loop.checks import Checks
from runward.loop.children import find_late_outcome, open_all
from runward.loop.engine import Engine
from runward.loop.leased_run import LeasedRun, LeaseLostError
from runward.loop.model_notes import LossNote, Note
from runward.loop.project_cache import NO_POLICY
from runward.loop.toolbox import BuiltinTools, seconds_for
from runward.loop.turn import FailedAfterResponse, ModelTurn, finish_unusable
from runward.loop.unreadable_secrets import return_unreadable
from runward.metrics.definitions import TURN_SECONDS, count_reported_usage
from runward.store.access.vault import SecretUnreadableError
from runward.store.postgres.db import mint
from runward.store.runs.gate import Ending, VersionChanged

log = structlog.get_logger()
LOST_TRACK: Final = "Runward lost track of a tool call. This is a bug in Runward. Please report it."


class Execution:
    """One claim of one run, until the run ends, is parked, or is given back."""

    def __init__(self, engine: Engine, state: RunState, claimed_at: float | None = None) -> None:
        """`claimed_at`: when the claim began, on the event loop's clock."""
        self.leased = leased = LeasedRun(engine.storage, state, self._prepare, claimed_at)
        self._engine = engine
        self._tools = AvailableTools(engine.tools)
        self._checks = Checks(engine.guards.client, NO_POLICY)
        builtin = BuiltinTools(lambda: leased.state, self._tools.specs)
        self._trace = engine.tracing.trace()
        self._calls = CallsInFlight(
            {**engine.tools.invokers, "builtin": builtin},
            engine.tools.callback,
            self._checks,
            leased.add_progress,
            leased.has_lease,
            self._trace,
        )
        self._schema: Validator | None = None
        self._losses: set[LossNote] = set()
        self._turn_began: float | None = None

    async def run(self) -> None:
        """Execute the run. Return when the run has ended, is parked, was given back, or its lease
        is lost."""
        leased = self.leased
        self._trace.begin(leased.state)
        try:
            await leased.load_history()
            await self._prepare()
            leased.state = recover(leased.state, leased.changes, self._tools.find)
            while not await self._step():
                pass
        except LeaseLostError:
            leased.lost = True
            run_id, fence = leased.state.id, leased.state.fence
            log.info("lease_lost", run=format_id(Prefix.RUN, run_id), fence=fence)
        except SecretUnreadableError as error:
            await return_unreadable(leased, error)
        finally:
            await self._calls.close()
            leased.close()
            self._trace.end(leased.status, leased.error)

    async def _prepare(self) -> None:
        """Load the tools and checks that the run needs, after a reload or a handoff."""
        state = self.leased.state
        self._checks = self._calls.checks = await self._engine.guards.of_run(state)
        await self._tools.load(state)
        if state.config.output_schema is not None and self._schema is None:
            self._schema = stored_validator(state.config.output_schema, at="output")

    async def _step(self) -> bool:
        """Decide and execute one step. Return True if this claim has ended."""
        if self.leased.has_signal:
            await self.leased.catch_up()
        if self.leased.draining:
            return await self._drain()
        await self._launch_answers()
        return await self._do(self._decide())

    def _decide(self) -> Action:
        state = self.leased.state
        return next_action(
            state,
            overdue=self.leased.is_overdue,
            busy=self._calls.checks_answers(state),
            caps=self._tools.caps,
            schema=self._schema,
        )

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
                return await self.leased.park(action)
            case Finish():
                return await self._finish(action)
            case _:
                assert_never(action)

    async def _drain(self) -> bool:
        """Give the run back when no call is in flight. Until then, no call starts."""
        if self._calls:
            return await self._await_calls(stopping=True)
        return await self.leased.end(Ending(Move.RELEASE, keep_claim=True), self.leased.changes)

    # Model requests.

    async def _ask(self, action: AskModel) -> bool:
        if action.repair:
            leased = self.leased
            leased.state = add_repair(leased.state, leased.changes, action.repair)
        if not await self.leased.record():
            return False
        state = self.leased.state
        await self._tools.evaluate(state)
        visible = self._tools.visible(state)
        if self.leased.has_signal:
            return False  # a tool may have changed: decide again
        hidden = frozenset(self._tools.enabled.keys() - visible.keys())
        turn = Turn(visible, mint, len(state.segments), hidden)
        if action.tools_off:
            turn = replace(turn, tools={}, hidden_tools=frozenset())
        self._observe_turn()
        self._turn_began = perf_counter()
        self._trace.begin_turn(state)
        asked = ModelTurn(self._engine.models, self._tools, self._checks, state, self._trace)
        reserve, check = partial(self._engine.storage.reserve, state), self.leased.check_lease
        asking = asked.ask(action, visible, turn, tell=self._add_note, check=check, reserve=reserve)
        parsed = await self.leased.run_unless_stopped(asking)
        self.leased.changes.budget = asked.reservation.find_charge(repeats=self.leased.draining)
        if isinstance(parsed, BudgetWait):
            return await self._wait_for_budget(parsed)
        if parsed is None and asked.response is not None:
            # The response is dropped, but its usage counts.
            usage = asked.response.usage
            self.leased.state = add_usage(self.leased.state, self.leased.changes, usage)
        return await self._take(parsed, turn)

    async def _wait_for_budget(self, wait: BudgetWait) -> bool:
        leased = self.leased
        if wait.asks:
            leased.state = ask_to_exceed(leased.state, leased.changes, wait, mint)
        return not wait.asks and await leased.wait_for_budget(wait)

    def _observe_turn(self) -> None:
        """Observe the duration of the turn that ends now, if this claim began it."""
        if self._turn_began is not None:
            TURN_SECONDS.observe(perf_counter() - self._turn_began)

    async def _delegate(self, response: ModelResponse) -> bool:
        """Run the next agents of a workflow. Input guardrails check its input first."""
        if not await self.leased.record():
            return False
        state = self.leased.state
        await self._tools.evaluate(state)
        turn = Turn(self._tools.of_workflow, mint, len(state.segments))
        delegated = ModelTurn(self._engine.models, self._tools, self._checks, state, self._trace)
        parsed = await self.leased.run_unless_stopped(delegated.delegate(response, turn))
        return await self._take(parsed, turn)

    async def _take(
        self, parsed: ParsedResponse | FailedAfterResponse | Finish | None, turn: Turn
    ) -> bool:
        """Add the response to the conversation, and its calls to the ledger. All earlier changes
        except events must be committed."""
        if not isinstance(parsed, ParsedResponse):
            return await self._end_turn(parsed)
        leased = self.leased
        assert leased.changes.only_events
        leased.state = forget_expired(leased.state, leased.seconds_since_load)
        try:
            state, changes = take_response(leased.state, parsed, turn)
        except UnusableResponseError as error:
            failed = FailedAfterResponse(parsed.response, finish_unusable(error))
            return await self._end_turn(failed)
        changes.events[:0] = leased.changes.events
        changes.budget = leased.changes.budget
        leased.state, leased.changes = state, changes
        return False

    async def _end_turn(self, end: Finish | FailedAfterResponse | None) -> bool:
        """Finish the run without the turn's response. With None, the turn was stopped, and the next
        step is decided again. The event contains the usage even if the run changed and
        continues."""
        if isinstance(end, FailedAfterResponse):
            state = replace(self.leased.state, turn=self.leased.state.turn + 1)
            self.leased.state = add_usage(state, self.leased.changes, end.response.usage)
            end = end.finish
        return end is not None and await self._finish(end)

    def _add_note(self, note: Note) -> None:
        """Record a retry or a dropped setting during a model request. Each dropped setting is
        recorded once."""
        if isinstance(note, LossNote):
            if note in self._losses:
                return
            self._losses.add(note)
        self.leased.changes.add(note.event())

    async def _hand_over(self, agent: str) -> bool:
        self.leased.state = team.hand_over(self.leased.state, self.leased.changes, agent)
        self._schema = None
        await self.leased.record()
        await self._prepare()
        return False

    # Running tools.

    async def _run_tools(self, call_ids: tuple[CallId, ...]) -> bool:
        leased = self.leased
        await self._tools.evaluate(replace(leased.state, turn=leased.state.turn - 1))
        if leased.has_signal:
            return False  # a tool may have changed: decide again
        leased.state = forget_expired(leased.state, leased.seconds_since_load)
        ready: list[Call] = []
        for call_id in call_ids:
            call = leased.state.calls[call_id]
            leased.state = recheck(
                leased.state,
                leased.changes,
                call,
                self._tools.callable,
                mint,
                self._tools.find(call),
            )
            call = leased.state.calls[call_id]
            if call.phase is CallPhase.READY:
                ready.append(call)
            else:
                self._calls.forget(call_id)
        if ready:
            await self._start(ready)
        return False

    async def _start(self, calls: list[Call]) -> None:
        """Commit the start of the calls together with all uncommitted changes, then start them. If
        another process changed the run, no call starts, and the next step is decided again."""
        leased = self.leased
        state, changes = leased.state, leased.changes.copy()
        written_events = len(changes.events)
        started: list[Call] = []
        for call in calls:
            state, sent = start(state, changes, call, seconds=self._seconds_for(call))
            started.append(sent)
        version = leased.state.version
        written = await leased.write(state, changes, expected_version=version)
        if isinstance(written, VersionChanged):
            await leased.record()
            await leased.reload()
            return
        leased.state = state
        leased.changes = Changes(leased.changes.events[written_events:])  # added meanwhile
        for call in started:
            self._calls.launch(state, call, self._tools.sign(call))

    def _seconds_for(self, call: Call) -> float | None:
        """Return the seconds that a call may take. A retry has the remaining time of the first
        attempt."""
        if self._calls.was_tried(call):
            return call.timeout_seconds
        spec, limits = self._tools.sign(call).tool.spec, self.leased.state.config.limits
        return seconds_for(spec, limits, self._engine.tools.timeout, self.leased.seconds_left)

    async def _await_calls(self, *, stopping: bool) -> bool:
        """Wait for the calls in flight. If there are none, fail the run, because it would wait
        forever."""
        if not self._calls:
            log.error("nothing_in_flight", run=format_id(Prefix.RUN, self.leased.state.id))
            return await self._finish(
                Finish(RunStatus.FAILED, code=RunErrorCode.INTERNAL_ERROR, message=LOST_TRACK)
            )
        if stopping:
            self._calls.end_backoffs()
        if await self.leased.record():
            await self._collect()
        return False

    async def _launch_answers(self) -> None:
        """Check the outputs of ended child runs and stored callbacks in the same way as other
        results."""
        state = self.leased.state
        for call in state.open_calls:
            if call.id in self._calls:
                continue
            children, sign = self._engine.children, self._tools.sign
            if call.exchange is not None and call.phase is CallPhase.AWAITING_CHILD:
                leased = self.leased
                leased.state = record_results(leased.state, leased.changes, call)
                continue
            outcome = await find_late_outcome(children, state, call, sign)
            if outcome is not None:
                self._calls.launch_late(state, call, sign(call), outcome)

    async def _collect(self) -> None:
        """Wait for results or for changes by other processes, and process all that have arrived. A
        call that can be retried becomes ready again, and the next step decides about it."""
        leased, find_cost = self.leased, self._engine.models.prices.cost_usd
        await leased.wait(self._calls.tasks, None)
        if leased.has_signal:
            await leased.catch_up()
        for call_id, end in self._calls.take_done():
            reported = self._calls.take_usage(call_id)
            count_reported_usage(reported, find_cost)
            leased.state = add_reported_usage(
                leased.state, leased.changes, call_id, reported, find_cost
            )
            call = leased.state.calls[call_id]
            if call.phase is CallPhase.SETTLED:
                continue  # the call timed out in the meantime
            if end == "retry":
                leased.state = put_back(leased.state, leased.changes, call)
            else:
                await self._conclude(call, end)

    async def _conclude(self, call: Call, end: CallEnd) -> None:
        leased, tool, disposition = self.leased, self._tools.sign(call).tool, end.disposition
        if isinstance(disposition, StartChild):
            requests, children = disposition.requests, self._engine.children
            opened = await open_all(
                children, leased.state, call, tool, leased.seconds_left, requests
            )
            if not isinstance(opened, Failed):
                leased.state = start_children(leased.state, leased.changes, call, opened, requests)
                return
            disposition = classify_outcome(tool, call, opened, seconds_left=0, jitter=0)
        leased.state = team.conclude_call(
            leased.state, leased.changes, call, tool, disposition, end.state_delta
        )

    # Ending this claim.

    async def _finish(self, action: Finish) -> bool:
        leased = self.leased
        if self._checks.checks_finish(leased.state, action):
            version = leased.state.version
            checking = self._checks.check_finish(leased.state, action)
            checked = await leased.run_unless_stopped(checking)
            if checked is None or leased.state.version != version:
                return False  # decide again
            action = checked
        has_orphans = bool(leased.state.open_children)
        if over := await leased.finish(action):
            self._observe_turn()
        if over and has_orphans:
            closed = await self._engine.children.cancel(leased.state)
            leased.notify_abandoned(closed.abandoned)
        return over
