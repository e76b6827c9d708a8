"""Agents without a model: in which order their agents run, with what, and what comes out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.json import JsonObject
from runward.domain.run.decide import Action, Delegate, Finish, Park, RunTools, next_action
from runward.domain.run.items import MediaPart, Message, TextPart
from runward.domain.run.parsed_calls import Turn
from runward.domain.run.response import Usage
from runward.domain.run.state import (
    CallOutcome,
    CallPhase,
    Changes,
    Result,
    RunState,
    Segment,
    SegmentKind,
)
from runward.domain.run.status import RunStatus
from runward.domain.run.team import build_handoff_tools, build_step_tools, hand_over
from runward.domain.run.workflow import join_input_text
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import (
    AGENT,
    Mint,
    call,
    failed,
    member,
    settled,
    state,
    take_response,
    taken,
    tool,
    types,
    wants,
)

HELLO = Segment(SegmentKind.INPUT, 0, AGENT, (Message("user", "Hello."),))
OBJECT = Validator({"type": "object"}, at="output")


def flow(
    kind: str, *agents: str, segments: tuple[Segment, ...] = (HELLO,), **more: Any
) -> RunState:
    config = {"kind": kind, "model": None, "agents": agents, **more.pop("config", {})}
    return state(segments=segments, config=config, **more)


def delegate(run: RunState, **how: Any) -> RunState:
    """The next steps are calls now, ready to start."""
    action = next_action(run, **how)
    assert isinstance(action, Delegate)
    run, changes = take_response(run, action.response, Turn(build_step_tools(run.config), Mint()))
    assert "message.completed" not in types(changes)
    return run


def asked(run: RunState) -> list[tuple[str, JsonValue]]:
    """Who was asked what in the last turn."""
    return [(one.tool, one.arguments["input"]) for one in run.turn_calls]


def answered(run: RunState, *outputs: JsonValue, **fields: Any) -> RunState:
    """The child runs of the last turn have ended with these."""
    for one, output in zip(run.turn_calls, outputs, strict=True):
        run = settled(run, one.id, Result(CallOutcome.COMPLETED, output, **fields))
    return run


def broken(run: RunState, *ids: str) -> RunState:
    for id_ in ids:
        run = settled(run, id_, failed(output=f"{id_} broke"))
    return run


def reason_of_end(action: Action) -> tuple[RunStatus, str | None]:
    assert isinstance(action, Finish)
    return action.status, action.code


# One after the other.


def test_each_step_is_asked_what_the_one_before_it_answered() -> None:
    first = delegate(flow("sequential", "plan", "write", "plan"))
    assert asked(first) == [("plan", "Hello.")]
    second = delegate(answered(first, "A plan."))
    assert asked(second) == [("write", "A plan.")]
    third = delegate(answered(second, {"draft": 1}))
    assert asked(third) == [("plan", '{"draft":1}')]
    assert next_action(answered(third, "Done.")) == Finish(RunStatus.COMPLETED, "Done.")
    assert list(third.calls) == ["step_1_plan", "step_2_write", "step_3_plan"]


def test_a_step_starts_like_any_call_and_is_waited_for() -> None:
    run = delegate(flow("sequential", "plan"))
    assert next_action(run) == RunTools((CallId("step_1_plan"),))
    waits = call("step_1_plan", CallPhase.AWAITING_CHILD, tool="plan")
    assert next_action(run.with_call(waits)) == Park((waits.id,))


def test_the_next_step_gets_the_whole_output_not_what_was_cut() -> None:
    run = delegate(flow("sequential", "plan", "write"))
    cut = answered(run, "a … z", full="abc xyz")
    last = delegate(cut)
    assert asked(last) == [("write", "abc xyz")]
    end = next_action(answered(last, "1 … 9", full={"rows": [1, 9]}))
    assert end == Finish(RunStatus.COMPLETED, '{"rows":[1,9]}')


@pytest.mark.parametrize("kind", ["sequential", "loop"])
def test_a_step_that_fails_fails_the_workflow_and_the_ones_after_it_never_start(kind: str) -> None:
    run = broken(delegate(flow(kind, "plan", "write")), "step_1_plan")
    assert next_action(run) == Finish(
        RunStatus.FAILED, code="step_failed", message="The step 'plan' failed: step_1_plan broke"
    )


def test_a_step_that_escalates_ends_the_workflow_with_its_output() -> None:
    run = answered(delegate(flow("sequential", "plan", "write")), "Enough.", escalate=True)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "Enough.")


# Again and again.


def test_a_loop_begins_again_with_what_the_last_agent_answered() -> None:
    run = flow("loop", "write", "check", config={"max_iterations": 2})
    seen: list[tuple[str, JsonValue]] = []
    for answer in ("a", "b", "c", "d"):
        run = delegate(run)
        seen += asked(run)
        run = answered(run, answer)
    assert seen == [("write", "Hello."), ("check", "a"), ("write", "b"), ("check", "c")]
    assert next_action(run) == Finish(RunStatus.COMPLETED, "d", code="max_iterations")


def test_a_loop_ends_when_a_step_escalates() -> None:
    run = flow("loop", "write", "check")
    for answer in ("a", "b"):
        run = answered(delegate(run), answer)
    run = answered(delegate(run), "Good.", escalate=True)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "Good.")


def test_a_loop_may_ask_the_same_thing_as_often_as_it_likes() -> None:
    run = flow("loop", "wait", config={"max_iterations": 9})
    for _ in range(9):
        run = delegate(run)
        assert next_action(run) == RunTools((run.turn_calls[0].id,))
        run = answered(run, "Hello.")
    assert reason_of_end(next_action(run)) == (RunStatus.COMPLETED, "max_iterations")


# At once.


def test_all_are_asked_the_same_at_once_and_each_output_has_its_name() -> None:
    run = delegate(flow("parallel", "read", "look", "read"))
    assert asked(run) == [("read", "Hello."), ("look", "Hello."), ("read", "Hello.")]
    assert next_action(run) == RunTools(tuple(run.calls))
    end = next_action(answered(run, "one", {"n": 2}, "three"))
    outputs: JsonObject = {"read": "one", "look": {"n": 2}, "read_2": "three"}
    assert isinstance(end, Finish)
    assert end == Finish(RunStatus.COMPLETED, outputs)
    schema = Validator({"type": "object", "required": ["look"]}, at="output")
    end = next_action(answered(run, "one", {"n": 2}, "three"), schema=schema)
    assert end == Finish(RunStatus.COMPLETED, outputs, parsed=outputs)


def test_one_that_fails_beside_others_is_an_entry_of_its_own() -> None:
    run = answered(delegate(flow("parallel", "read", "look")), "one", "two", full="all of it")
    end = next_action(broken(run, "step_2_look"))
    assert isinstance(end, Finish)
    assert end.output == {"read": "all of it", "look": {"error": "step_2_look broke"}}


def test_a_workflow_whose_steps_all_fail_fails_with_the_first() -> None:
    run = broken(delegate(flow("parallel", "read", "look")), "step_1_read", "step_2_look")
    end = next_action(run)
    assert reason_of_end(end) == (RunStatus.FAILED, "step_failed")
    assert isinstance(end, Finish)
    assert end.message == "The step 'read' failed: step_1_read broke"


# What it is asked.


def test_the_input_is_what_the_user_said() -> None:
    picture = MediaPart("image", url="https://x.example/i.png")
    first = (
        Message("system", "Be short."),
        Message("user", (TextPart("Look "), picture, TextPart("here."))),
        Message("assistant", "Hm."),
        Message("user", "And there."),
    )
    segments = (
        Segment(SegmentKind.INPUT, 0, AGENT, first),
        Segment(SegmentKind.REPAIR, 0, AGENT, (Message("user", "JSON!"),)),
        Segment(SegmentKind.INPUT, 0, AGENT, (Message("user", "Quick."),)),
    )
    assert join_input_text(state(segments=segments)) == "Look here.\nAnd there.\nQuick."
    assert join_input_text(state()) == ""


def test_a_workflow_that_a_run_is_handed_over_to_begins_at_its_first_step() -> None:
    work = member(model=None, kind="sequential", agents=["plan"])
    before = state(segments=(HELLO,), config={"handoffs": ["work"]}, team={"work": work})
    made = build_handoff_tools(before.config, before.team)
    run, _ = taken(wants("transfer_to_work"), tools=made.values(), before=before)
    run = delegate(hand_over(run, Changes(), "work"))
    assert asked(run) == [("plan", "Hello.")]
    assert next_action(answered(run, "Done.")) == Finish(RunStatus.COMPLETED, "Done.")


# Limits.


SPENT: list[tuple[dict[str, Any], str, str]] = [
    (
        {"max_tokens": 100},
        "max_tokens",
        "The run reached its token limit: the model responses used 110 tokens.",
    ),
    (
        {"max_cost_usd": 0.5},
        "max_cost_usd",
        "The run reached its cost limit: it cost 0.500000 US dollars.",
    ),
]


@pytest.mark.parametrize(("limits", "code", "message"), SPENT)
def test_a_budget_ends_a_workflow_before_its_next_step_but_takes_nothing_away(
    limits: Mapping[str, Any], code: str, message: str
) -> None:
    used = Usage(100, 10, cost=0.5)
    first = flow("loop", "a", usage=used, config={"limits": limits})
    assert next_action(first) == Finish(RunStatus.INCOMPLETE, code=code, message=message)
    last = state(
        [call("step_1_a", CallPhase.SETTLED, tool="a")],
        segments=(Segment(SegmentKind.RESPONSE, 1, AGENT, ()),),
        usage=used,
        config={"kind": "sequential", "model": None, "agents": ["a"], "limits": limits},
    )
    assert next_action(last) == Finish(RunStatus.COMPLETED, "done")


def test_a_workflow_counts_its_steps_as_calls_but_has_no_turns_to_run_out_of() -> None:
    config = {"limits": {"max_tool_calls": 2, "max_turns": 1}}
    run = answered(delegate(flow("loop", "a", config=config)), "x")
    run = delegate(answered(delegate(run), "x"))
    assert [one.result and one.result.reason for one in run.turn_calls] == [CallReason.LIMIT]
    assert reason_of_end(next_action(run)) == (RunStatus.INCOMPLETE, "max_tool_calls")


# An output with a schema.


@pytest.mark.parametrize("text", ['{"a": 1}', "text", "[]"])
def test_nobody_can_repair_the_output_of_a_workflow(text: str) -> None:
    run = answered(delegate(flow("loop", "a", config={"max_iterations": 1})), text)
    end = next_action(run, schema=OBJECT)
    if text == '{"a": 1}':
        expected = Finish(RunStatus.COMPLETED, text, parsed={"a": 1}, code="max_iterations")
        assert end == expected
    else:
        assert reason_of_end(end) == (RunStatus.INCOMPLETE, "output_schema")
        assert isinstance(end, Finish)
        assert end.output == text


# Whatever its steps do.


@given(
    st.sampled_from(["sequential", "parallel", "loop"]),
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4),
    st.integers(1, 3),
    st.data(),
)
def test_a_workflow_asks_its_agents_in_their_order_and_ends(
    kind: str, agents: list[str], rounds: int, data: st.DataObject
) -> None:
    run = flow(kind, *agents, config={"max_iterations": rounds})
    seen: list[str] = []
    answers = st.sampled_from(["text", "text", "text", "fails", "escalates"])
    stopped = False
    while isinstance(next_action(run), Delegate):
        assert not stopped or kind == "parallel"
        run = delegate(run)
        for one in run.turn_calls:
            seen.append(one.tool)
            what = data.draw(answers)
            stopped |= what != "text"
            result = Result(CallOutcome.COMPLETED, what, escalate=what == "escalates")
            run = settled(run, one.id, failed() if what == "fails" else result)
    most = agents * (rounds if kind == "loop" else 1)
    assert seen == most[: len(seen)]
    assert stopped or seen == most
    end = next_action(run)
    assert isinstance(end, Finish)
    assert end.status in (RunStatus.COMPLETED, RunStatus.FAILED)
    assert (end.status is RunStatus.COMPLETED) == (end.output is not None)


# One call.


def one_call(text: str = '{"x":"1"}', *later: str, **fields: Any) -> RunState:
    said = (text, *later)
    segments = tuple(Segment(SegmentKind.INPUT, 0, None, (Message("user", one),)) for one in said)
    config = {"tools": ("lookup",), **fields.pop("config", {})}
    return flow("call", segments=segments, config=config, agent=None, **fields)


def called(run: RunState) -> RunState:
    action = next_action(run)
    assert isinstance(action, Delegate)
    return taken(*action.response.calls, tools=[tool("lookup")], before=run)[0]


def test_a_run_of_one_call_makes_it_with_its_input_and_ends_with_its_result() -> None:
    run = called(one_call())
    [one] = run.turn_calls
    assert (one.id, one.tool, one.arguments) == ("call_1", "lookup", {"x": "1"})
    assert next_action(run) == RunTools((one.id,))
    cut = answered(run, "a … z", full={"rows": [1]})
    assert next_action(cut) == Finish(RunStatus.COMPLETED, {"rows": [1]})


def test_a_run_of_one_call_fails_with_it() -> None:
    run = called(one_call())
    assert next_action(broken(run, "call_1")) == Finish(
        RunStatus.FAILED, code="step_failed", message="The step 'lookup' failed: call_1 broke"
    )


def test_what_is_said_to_a_run_of_one_call_changes_nothing() -> None:
    run = called(one_call('{"x":"1"}', "And be quick."))
    assert [one.arguments for one in run.turn_calls] == [{"x": "1"}]
    more = Segment(SegmentKind.INPUT, 1, None, (Message("user", "Quicker."),))
    done = replace(answered(run, "done"), segments=(*run.segments, more))
    assert next_action(done) == Finish(RunStatus.COMPLETED, "done")


def test_a_run_of_one_call_that_may_make_none_is_incomplete() -> None:
    run = called(one_call(config={"limits": {"max_tool_calls": 0}}))
    assert reason_of_end(next_action(run)) == (RunStatus.INCOMPLETE, "max_tool_calls")
