"""What holds of `next_action` in every state that a run can be in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.registry.tools import Concurrency
from runward.domain.run.decide import (
    Action,
    AskModel,
    Finish,
    HandOver,
    Park,
    RunTools,
    Wait,
    next_action,
)
from runward.domain.run.items import Message, ToolCall
from runward.domain.run.response import Usage
from runward.domain.run.state import (
    WAITING,
    Call,
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.status import RunStatus
from runward.domain.run.team import hand_over
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import AGENT, call, member, state

TOOLS: list[str] = ["a", "b", "c", "d"]
SCHEMA = Validator({"type": "object"}, at="output")
MOVED_ON = (SegmentKind.INPUT, SegmentKind.REPAIR)


@dataclass(frozen=True)
class Case:
    run: RunState
    overdue: bool
    caps: Mapping[str, Concurrency]
    schema: Validator | None
    busy: bool

    def decide(self) -> Action:
        return next_action(
            self.run, overdue=self.overdue, busy=self.busy, caps=self.caps, schema=self.schema
        )

    @property
    def stops(self) -> bool:
        """Nothing more may start."""
        fails = any(one.result and one.result.fails_run for one in self.run.turn_calls)
        return self.overdue or self.run.cancel_after_turn or fails

    @property
    def waits(self) -> bool:
        """Something is on its way back."""
        return self.busy or any(one.phase is CallPhase.STARTED for one in self.run.turn_calls)

    def cap(self, one: Call) -> Concurrency:
        return self.caps.get(one.tool, Concurrency(limit=64))

    def share(self, one: Call, other: Call) -> bool:
        """Whether they count for one limit."""
        groups = {self.cap(one).group, self.cap(other).group}
        return one.tool == other.tool if None in groups else len(groups) == 1


def results() -> Iterator[Result]:
    for outcome in CallOutcome:
        yield Result(outcome, {"a": 1})
        yield Result(outcome, "{}", CallReason.LIMIT)
        yield Result(outcome, "ok", CallReason.TOOL_ERROR)
    yield Result(CallOutcome.FAILED, "no", CallReason.REPEATED)
    yield Result(CallOutcome.FAILED, "no", CallReason.INVALID_ARGUMENTS, fails_run=True)
    yield Result(CallOutcome.TIMED_OUT, "no", fails_run=True)
    for agent in (AGENT, "helper", "nobody"):
        yield Result(CallOutcome.COMPLETED, {"assistant": agent}, transfer_to=agent)
    yield Result(CallOutcome.COMPLETED, "all … well", full="all is well", escalate=True)


SETTLED = [call("x", CallPhase.SETTLED, tool=t, result=r) for t in TOOLS for r in results()]
OPEN = [call("x", phase, tool=t) for t in TOOLS for phase in CallPhase if phase != "settled"]
CONFIGS: list[dict[str, Any]] = [
    {
        "limits": {
            "max_turns": max_turns,
            "max_parallel_tool_calls": 1 + max_turns % 4,
            "max_tokens": max_tokens,
            "max_cost_usd": max_tokens and max_tokens / 10,
        },
        "on_max_turns": on_max_turns,
        "tool_use_behavior": behavior,
        "output_retries": 5 - max_turns,
    }
    for max_turns in (1, 2, 3, 4, 5)
    for max_tokens in (None, 5, 20)
    for on_max_turns in ("incomplete", "summarise", "fail", {"output": "gave up"})
    for behavior in ("run_llm_again", "stop_on_first_tool", {"stop_at": ["a"]})
]
CAPS = [
    Concurrency(limit=limit, group=group, serial=serial)
    for limit in (1, 2, 3)
    for group in (None, "disk")
    for serial in (False, False, False, True)
]


def answer_of(calls: list[Call], turn: int, text: str, *, refusal: bool) -> Segment:
    said = Message("assistant", text, refusal=refusal)
    asked = (ToolCall(one.id, one.tool, "{}") for one in calls)
    return Segment(SegmentKind.RESPONSE, turn, AGENT, (said, *asked))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A run in some turn: with calls in any phases, answered, refused, or spoken to again."""
    turn = draw(st.integers(0, 6))
    pool = draw(st.sampled_from([SETTLED, OPEN, SETTLED[:9] + OPEN * 2])) if turn else []
    drawn = draw(st.lists(st.sampled_from(pool), max_size=6)) if turn else []
    calls = [
        replace(one, id=CallId(f"t{turn}c{i}"), turn=turn, position=i)
        for i, one in enumerate(drawn)
    ]
    segments: list[Segment] = []
    if turn:
        text = draw(st.sampled_from(["", "Done.", "{}", "[]"]))
        by = draw(st.sampled_from([AGENT, AGENT, AGENT, "former"]))
        segments.append(
            replace(answer_of(calls, turn, text, refusal=draw(st.booleans())), agent=by)
        )
    if all(one.phase is CallPhase.SETTLED for one in calls):
        message = Message("user", "And?")
        more = draw(st.sampled_from([(), (), (), *((kind,) for kind in MOVED_ON), MOVED_ON]))
        segments += [Segment(kind, turn, AGENT, (message,)) for kind in more]
    old = [call("old", CallPhase.SETTLED, turn=0)]
    run = state(
        old + calls if turn else [],
        turn=turn,
        segments=tuple(segments),
        usage=Usage(draw(st.integers(0, 30)), 0, cost=draw(st.integers(0, 4))),
        team={"helper": member(), AGENT: member()},
        config=draw(st.sampled_from(CONFIGS)),
        cancel_after_turn=draw(st.integers(0, 9)) == 9,
    )
    caps = draw(st.lists(st.sampled_from(CAPS), max_size=len(TOOLS)))
    return Case(
        run=run,
        overdue=draw(st.integers(0, 9)) == 9,
        caps=dict(zip(TOOLS, caps, strict=False)),
        schema=draw(st.sampled_from([None, SCHEMA])),
        busy=draw(st.integers(0, 9)) == 9,
    )


def phases(case: Case) -> dict[CallId, CallPhase]:
    return {one.id: one.phase for one in case.run.turn_calls}


@settings(max_examples=300)
@given(cases())
def test_whatever_the_state_of_a_run_its_next_action_keeps_every_promise(case: Case) -> None:
    the_model_is_never_asked_while_a_call_is_open(case)
    a_run_parks_only_when_nothing_can_run_or_is_in_flight(case)
    only_ready_calls_start_and_none_twice(case)
    no_start_exceeds_the_caps_of_the_run_of_a_tool_or_of_a_group(case)
    a_serial_call_runs_alone_after_all_before_it_and_before_all_after_it(case)
    whoever_has_room_starts(case)
    a_run_that_must_stop_starts_nothing_and_lets_what_is_in_flight_finish(case)
    a_run_ends_with_open_calls_only_where_it_must_stop(case)
    an_end_is_one_that_a_working_run_may_have_and_says_why(case)
    the_model_is_asked_only_within_the_run_s_limits(case)
    an_error_is_never_the_final_output(case)
    a_run_is_handed_over_only_between_turns_and_to_another_agent_of_its_team(case)
    who_takes_over_asks_its_model_or_ends_at_a_limit_and_hands_nothing_back(case)


def the_model_is_never_asked_while_a_call_is_open(case: Case) -> None:
    if isinstance(case.decide(), AskModel):
        assert not case.run.open_calls
        assert not case.stops


def a_run_parks_only_when_nothing_can_run_or_is_in_flight(case: Case) -> None:
    action = case.decide()
    if not isinstance(action, Park) or case.stops:
        return
    assert not case.busy
    assert action.waiting == tuple(one.id for one in case.run.turn_calls if one.phase in WAITING)
    assert CallPhase.STARTED not in phases(case).values()
    for one in case.run.turn_calls:
        if one.phase is CallPhase.READY:
            before = [other for other in case.run.open_calls if other.position < one.position]
            assert before
            assert case.cap(one).serial or any(case.cap(other).serial for other in before)


def only_ready_calls_start_and_none_twice(case: Case) -> None:
    action = case.decide()
    if isinstance(action, RunTools):
        assert {phases(case)[one] for one in action.start} <= {CallPhase.READY}
        assert len(set(action.start)) == len(action.start)
        assert action.start or case.waits


def no_start_exceeds_the_caps_of_the_run_of_a_tool_or_of_a_group(case: Case) -> None:
    action = case.decide()
    if not isinstance(action, RunTools):
        return
    started = {case.run.calls[one].id for one in action.start}
    flying = [
        one for one in case.run.turn_calls if one.id in started or one.phase is CallPhase.STARTED
    ]
    room = case.run.config.limits.max_parallel_tool_calls
    assert not started or len(flying) <= room
    for one in flying:
        if one.id in started:
            beside = [other for other in flying if case.share(one, other)]
            assert len(beside) <= case.cap(one).limit


def a_serial_call_runs_alone_after_all_before_it_and_before_all_after_it(case: Case) -> None:
    action = case.decide()
    if not isinstance(action, RunTools):
        return
    for id_ in action.start:
        one = case.run.calls[id_]
        before = [other for other in case.run.open_calls if other.position < one.position]
        assert not any(case.cap(other).serial for other in before)
        if case.cap(one).serial:
            assert action.start == (id_,)
            assert not before
            assert CallPhase.STARTED not in phases(case).values()


def whoever_has_room_starts(case: Case) -> None:
    """A worker is never idle beside a ready call that nothing holds back."""
    action = case.decide()
    if case.stops or any(case.cap(one).serial for one in case.run.turn_calls):
        return
    started = set(action.start) if isinstance(action, RunTools) else set[CallId]()
    flying = [
        one for one in case.run.turn_calls if one.id in started or one.phase is CallPhase.STARTED
    ]
    for one in case.run.turn_calls:
        if one.phase is CallPhase.READY and one.id not in started:
            full = len(flying) >= case.run.config.limits.max_parallel_tool_calls
            beside = [other for other in flying if case.share(one, other)]
            assert full or len(beside) >= min(case.cap(other).limit for other in (one, *beside))


def a_run_that_must_stop_starts_nothing_and_lets_what_is_in_flight_finish(case: Case) -> None:
    action = case.decide()
    if not case.stops:
        return
    if case.waits:
        assert action == Wait(stopping=True)
    elif isinstance(action, Park):  # child runs finish their turn too
        assert case.run.cancel_after_turn
        assert [*action.waiting] == [one.id for one in case.run.open_children]
    else:
        assert isinstance(action, Finish)
        assert action.status is not RunStatus.COMPLETED


def a_run_ends_with_open_calls_only_where_it_must_stop(case: Case) -> None:
    action = case.decide()
    if isinstance(action, Finish) and case.run.open_calls:
        assert case.stops
        assert not case.waits


def an_end_is_one_that_a_working_run_may_have_and_says_why(case: Case) -> None:
    action = case.decide()
    if not isinstance(action, Finish):
        return
    match action.status:
        case RunStatus.COMPLETED:
            assert action.output is not None
        case RunStatus.FAILED | RunStatus.INCOMPLETE:
            assert action.code
            assert action.message
        case status:
            assert status is RunStatus.CANCELLED
            assert case.run.cancel_after_turn


def the_model_is_asked_only_within_the_run_s_limits(case: Case) -> None:
    action = case.decide()
    if not isinstance(action, AskModel):
        return
    limits = case.run.config.limits
    assert limits.max_tokens is None or case.run.usage.total < limits.max_tokens
    assert limits.max_cost_usd is None or case.run.usage.cost < limits.max_cost_usd
    assert case.run.turn < limits.max_turns + action.tools_off
    if action.tools_off:
        assert case.run.config.on_max_turns == "summarise"
        assert not action.repair


def an_error_is_never_the_final_output(case: Case) -> None:
    action = case.decide()
    calls = case.run.turn_calls
    if not isinstance(action, Finish) or action.status is not RunStatus.COMPLETED or not calls:
        return
    good = [one.result.whole for one in calls if one.result and not one.result.is_error]
    if any(one.result and one.result.escalate for one in calls):
        good.append(case.run.last_text)
    gave_up = action.code == "max_turns"
    summary = case.run.turn > case.run.config.limits.max_turns
    assert gave_up or summary or action.output in good or action.parsed in (*good, {})


def a_run_is_handed_over_only_between_turns_and_to_another_agent_of_its_team(
    case: Case,
) -> None:
    action = case.decide()
    if not isinstance(action, HandOver):
        return
    assert not (case.stops or case.waits or case.run.open_calls)
    assert action.agent in case.run.team
    assert action.agent != case.run.agent
    results = [one.result for one in case.run.turn_calls]
    assert action.agent in [one.transfer_to for one in results if one]


def who_takes_over_asks_its_model_or_ends_at_a_limit_and_hands_nothing_back(
    case: Case,
) -> None:
    action = case.decide()
    if not isinstance(action, HandOver):
        return
    after = hand_over(case.run, Changes(), action.agent)
    match replace(case, run=after).decide():
        case AskModel(repair=repair):
            assert not repair
        case Finish(code=code, output=output):
            assert code
            assert output is None or code == "max_turns"
        case other:
            raise AssertionError(other)
