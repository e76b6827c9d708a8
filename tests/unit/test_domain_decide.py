"""What a run does next, case by case. For all states at once: test_domain_decide_always."""

from dataclasses import replace
from typing import Any

import pytest

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.registry.tools import Concurrency
from runward.domain.run.decide import AskModel, Finish, Park, RunTools, Wait, next_action
from runward.domain.run.items import Message, ToolCall
from runward.domain.run.response import Usage
from runward.domain.run.state import CallOutcome, CallPhase, RunState, Segment, SegmentKind
from runward.domain.run.status import RunStatus
from runward.domain.schema.validator import Validator
from tests.unit.domain_cases import AGENT, DONE, call, failed, row_of, said, state

READY, STARTED, SETTLED = CallPhase.READY, CallPhase.STARTED, CallPhase.SETTLED
ASKED, CALLED = CallPhase.AWAITING_APPROVAL, CallPhase.AWAITING_CALLBACK
UNKNOWN = CallPhase.AWAITING_RESOLUTION
AMOUNT = Validator(
    {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
    at="output",
)


def asking(*names: str, turn: int = 1) -> Segment:
    """A response with calls `c0`, `c1` …"""
    items = tuple(ToolCall(CallId(f"c{i}"), name, "{}") for i, name in enumerate(names))
    return Segment(SegmentKind.RESPONSE, turn, AGENT, items)


def starts(*ids: str) -> RunTools | Wait:
    return RunTools(tuple(CallId(one) for one in ids)) if ids else Wait()


def with_results(*results: Any, **fields: Any) -> RunState:
    """After a response whose calls have these results."""
    calls = [call(f"c{i}", SETTLED, position=i, result=one) for i, one in enumerate(results)]
    return state(calls, segments=(asking(*["lookup"] * len(calls)),), **fields)


# The model's turn.


def test_a_new_run_asks_the_model() -> None:
    assert next_action(state()) == AskModel()


def test_the_model_is_asked_when_every_call_has_its_result() -> None:
    assert next_action(with_results(DONE, failed())) == AskModel()


def test_text_beside_calls_does_not_end_the_run() -> None:
    before = with_results(DONE)
    items = (Message("assistant", "Let me see."), *asking("lookup").items)
    both = Segment(SegmentKind.RESPONSE, 1, AGENT, items)
    assert next_action(state(before.calls.values(), segments=(both,))) == AskModel()


@pytest.mark.parametrize("text", ["It is done.", ""])
def test_an_answer_without_calls_ends_the_run_also_with_empty_text(text: str) -> None:
    action = next_action(state(segments=(said(text),), turn=1))
    assert action == Finish(RunStatus.COMPLETED, text)


def test_a_refusal_is_an_outcome_of_its_own() -> None:
    action = next_action(state(segments=(said("I will not.", refusal=True),), turn=1))
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "refusal")
    assert action.output == "I will not."


@pytest.mark.parametrize("kind", [SegmentKind.INPUT, SegmentKind.REPAIR])
def test_a_message_after_the_answer_asks_the_model_again(kind: SegmentKind) -> None:
    more = Segment(kind, 1, AGENT, (Message("user", "And now?"),))
    assert next_action(state(segments=(said("Done."), more), turn=1)) == AskModel()


# Running calls.


def test_all_calls_of_a_response_start_together() -> None:
    assert next_action(state(row_of(READY, READY, READY))) == starts("c0", "c1", "c2")


def test_what_is_in_flight_is_waited_for() -> None:
    assert next_action(state(row_of(SETTLED, STARTED, ASKED))) == starts()


def test_free_siblings_of_a_gated_call_run_at_once() -> None:
    assert next_action(state(row_of(ASKED, READY))) == starts("c1")


def test_one_of_two_decided_calls_runs_now_and_the_run_goes_on_waiting() -> None:
    assert next_action(state(row_of(READY, ASKED))) == starts("c0")
    assert next_action(state(row_of(SETTLED, ASKED))) == Park((CallId("c1"),))


@pytest.mark.parametrize("phase", [ASKED, CALLED, UNKNOWN])
def test_a_run_waits_for_whoever_must_settle_its_calls(phase: CallPhase) -> None:
    assert next_action(state(row_of(phase, SETTLED, phase))) == Park((CallId("c0"), CallId("c2")))


def test_the_run_s_cap_counts_what_is_in_flight() -> None:
    run = state(row_of(STARTED, READY, READY), config={"limits": {"max_parallel_tool_calls": 2}})
    assert next_action(run) == starts("c1")


def test_a_tool_s_cap_holds_back_its_own_calls_only() -> None:
    calls = [call(f"c{i}", position=i, tool=name) for i, name in enumerate(["a", "a", "b"])]
    caps = {"a": Concurrency(limit=1)}
    assert next_action(state(calls), caps=caps) == starts("c0", "c2")


def test_a_cap_is_used_up_to_its_limit() -> None:
    run = state(row_of(STARTED, READY, READY, READY, READY))
    assert next_action(run, caps={"lookup": Concurrency(limit=3)}) == starts("c1", "c2")


def test_tools_of_one_group_share_a_cap() -> None:
    calls = [call(f"c{i}", position=i, tool=name) for i, name in enumerate(["a", "b", "c"])]
    shared = Concurrency(limit=1, group="disk")
    caps = {"a": shared, "b": shared, "c": Concurrency(limit=1)}
    assert next_action(state(calls), caps=caps) == starts("c0", "c2")


@pytest.mark.parametrize(
    ("before", "serial", "started"),
    [
        (SETTLED, READY, ("c1",)),
        (READY, READY, ("c0",)),
        (STARTED, READY, ()),
        (SETTLED, STARTED, ()),
        (READY, ASKED, ("c0",)),
        (SETTLED, SETTLED, ("c2",)),
    ],
)
def test_a_serial_call_waits_for_all_before_it_and_holds_back_all_after(
    before: CallPhase, serial: CallPhase, started: tuple[str, ...]
) -> None:
    calls = [
        call("c0", before, tool="a"),
        call("c1", serial, tool="write", position=1),
        call("c2", READY, tool="a", position=2),
    ]
    caps = {"write": Concurrency(serial=True)}
    assert next_action(state(calls), caps=caps) == starts(*started)


def test_a_run_parks_though_calls_are_ready_behind_a_serial_one_that_waits() -> None:
    calls = [call("c0", ASKED, tool="write"), call("c1", position=1)]
    action = next_action(state(calls), caps={"write": Concurrency(serial=True)})
    assert action == Park((CallId("c0"),))


def test_a_tool_made_serial_meanwhile_waits_for_what_is_in_flight_after_it() -> None:
    calls = [call("c0", READY, tool="write"), call("c1", STARTED, position=1)]
    assert next_action(state(calls), caps={"write": Concurrency(serial=True)}) == starts()


# What stops a run.


LATE = Finish(RunStatus.INCOMPLETE, code="deadline", message="The deadline of the run has passed.")


@pytest.mark.parametrize(
    ("run", "now", "stop"),
    [
        ({}, {"overdue": True}, LATE),
        ({"cancel_after_turn": True}, {}, Finish(RunStatus.CANCELLED)),
    ],
)
def test_a_run_that_must_stop_starts_nothing_and_waits_for_what_is_in_flight(
    run: dict[str, Any], now: dict[str, Any], stop: Finish
) -> None:
    assert next_action(state(row_of(STARTED, READY), **run), **now) == Wait(stopping=True)
    assert next_action(state(row_of(SETTLED, READY), **run), **now) == stop
    assert next_action(state(row_of(SETTLED, ASKED), **run), **now) == stop
    assert next_action(state(**run), **now) == stop


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"detail": "HTTP 500"}, "tool_error", "Tool 'lookup': HTTP 500"),
        ({"output": {"no": 1}}, "tool_error", "Tool 'lookup': {\"no\":1}"),
        ({"reason": CallReason.INVALID_ARGUMENTS}, "invalid_arguments", "Tool 'lookup': no"),
        (
            {"outcome": CallOutcome.TIMED_OUT, "reason": None},
            "tool_timeout",
            "Tool 'lookup': no",
        ),
    ],
)
def test_a_failure_that_fails_the_run_stops_it_and_says_why(
    fields: dict[str, Any], code: str, message: str
) -> None:
    calls = row_of(SETTLED, READY)
    calls[0] = call("c0", SETTLED, result=failed(**fields, fails_run=True))
    stop = Finish(RunStatus.FAILED, code=code, message=message)
    assert next_action(state(calls)) == stop
    action = next_action(state([*calls, call("c2", STARTED, position=2)]))
    assert action == Wait(stopping=True)


def test_a_failure_stops_before_the_deadline_and_the_deadline_before_a_cancel() -> None:
    calls = [call("c0", SETTLED, result=failed(fails_run=True))]
    run = state(calls, cancel_after_turn=True)
    first = next_action(run, overdue=True)
    second = next_action(state(cancel_after_turn=True), overdue=True)
    assert isinstance(first, Finish)
    assert isinstance(second, Finish)
    assert (first.status, second.code) == (RunStatus.FAILED, "deadline")


# Limits.


@pytest.mark.parametrize(
    ("on_max_turns", "expected"),
    [
        ("incomplete", (RunStatus.INCOMPLETE, None)),
        ("fail", (RunStatus.FAILED, None)),
        ({"output": {"sorry": True}}, (RunStatus.COMPLETED, {"sorry": True})),
    ],
)
def test_the_last_turn_s_tools_run_and_then_the_run_ends_as_it_was_told(
    on_max_turns: Any, expected: tuple[RunStatus, Any]
) -> None:
    config = {"limits": {"max_turns": 1}, "on_max_turns": on_max_turns}
    assert next_action(state(row_of(READY), config=config)) == starts("c0")
    action = next_action(with_results(DONE, config=config))
    assert isinstance(action, Finish)
    assert (action.status, action.output) == expected
    assert action.code == "max_turns"


SUMMARY = {"limits": {"max_turns": 1}, "on_max_turns": "summarise"}


def test_a_closing_summary_is_asked_for_once_with_tools_off() -> None:
    run = with_results(DONE, config=SUMMARY)
    assert next_action(run) == AskModel(tools_off=True)
    after = state(segments=(*run.segments, said("So far.", turn=2)), turn=2, config=SUMMARY)
    assert next_action(after) == Finish(RunStatus.COMPLETED, "So far.", code="max_turns")


def test_a_model_that_asks_for_calls_instead_of_summarising_is_not_asked_again() -> None:
    calls = [call("c0", SETTLED, turn=2)]
    action = next_action(state(calls, segments=(asking("lookup", turn=2),), config=SUMMARY))
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "max_turns")


def test_an_answer_in_the_last_turn_is_an_answer() -> None:
    run = state(segments=(said("Done."),), turn=1, config={"limits": {"max_turns": 1}})
    assert next_action(run) == Finish(RunStatus.COMPLETED, "Done.")


@pytest.mark.parametrize(("used", "asks"), [(99, True), (100, False), (101, False)])
def test_tokens_are_counted_before_each_model_call(used: int, *, asks: bool) -> None:
    run = with_results(DONE, config={"limits": {"max_tokens": 100}}, usage=Usage(used - 9, 9))
    action = next_action(run)
    if asks:
        assert action == AskModel()
    else:
        assert action == Finish(
            RunStatus.INCOMPLETE,
            code="max_tokens",
            message=f"The run reached its token limit: the model responses used {used} tokens.",
        )


@pytest.mark.parametrize(("cost", "asks"), [(0.249, True), (0.25, False), (0.3, False)])
def test_money_is_counted_before_each_model_call(cost: float, *, asks: bool) -> None:
    limits = {"limits": {"max_cost_usd": 0.25}}
    action = next_action(with_results(DONE, config=limits, usage=Usage(cost=cost)))
    if asks:
        assert action == AskModel()
    else:
        told = f"The run reached its cost limit: it cost {cost:.6f} US dollars."
        assert action == Finish(RunStatus.INCOMPLETE, code="max_cost_usd", message=told)


@pytest.mark.parametrize("limits", [{"max_tokens": 1}, {"max_cost_usd": 0.01}])
def test_a_budget_takes_no_answer_away_that_is_there(limits: dict[str, Any]) -> None:
    run = state(
        segments=(said("Done."),), turn=1, config={"limits": limits}, usage=Usage(9, 9, 9, 9, 9)
    )
    assert next_action(run) == Finish(RunStatus.COMPLETED, "Done.")


def test_a_call_beyond_the_limit_ends_the_run_once_its_siblings_are_done() -> None:
    action = next_action(with_results(DONE, failed(CallReason.LIMIT)))
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "max_tool_calls")


def test_the_loop_guard_ends_the_run() -> None:
    action = next_action(with_results(DONE, failed(CallReason.REPEATED)))
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "repeated_calls")


# Results that end a run.


def test_stop_on_first_tool_ends_with_the_first_good_result_in_call_order() -> None:
    config = {"tool_use_behavior": "stop_on_first_tool"}
    run = with_results(failed(), replace(DONE, output="first"), DONE, config=config)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "first")


def test_the_result_of_a_built_in_tool_ends_a_run_only_where_it_is_named() -> None:
    search = call("c0", SETTLED, tool="search_tools", version=0, result=DONE)
    asked = (asking("search_tools"),)
    config = {"tool_use_behavior": "stop_on_first_tool"}
    assert next_action(state([search], segments=asked, config=config)) == AskModel()
    config = {"tool_use_behavior": {"stop_at": ["search_tools"]}}
    run = state([search], segments=asked, config=config)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "done")


@pytest.mark.parametrize("behavior", ["stop_on_first_tool", {"stop_at": ["lookup"]}])
@pytest.mark.parametrize("outcome", [one for one in CallOutcome if one != "completed"])
def test_an_error_or_a_rejection_never_becomes_the_final_output(
    behavior: Any, outcome: CallOutcome
) -> None:
    run = with_results(failed(outcome=outcome), config={"tool_use_behavior": behavior})
    assert next_action(run) == AskModel()


def test_stop_at_ends_only_with_the_tools_that_it_names() -> None:
    config = {"tool_use_behavior": {"stop_at": ["submit"]}}
    other = call("c0", SETTLED)
    submit = call("c1", SETTLED, tool="submit", position=1, result=DONE)
    asked = (asking("lookup", "submit"),)
    assert next_action(state([other], segments=asked, config=config)) == AskModel()
    run = state([other, submit], segments=asked, config=config)
    assert next_action(run) == Finish(RunStatus.COMPLETED, "done")


def test_the_whole_output_ends_the_run_not_what_was_cut_for_the_model() -> None:
    big = replace(DONE, output="begin … end", full={"rows": [1, 2, 3]})
    run = with_results(big, config={"tool_use_behavior": "stop_on_first_tool"})
    assert next_action(run) == Finish(RunStatus.COMPLETED, {"rows": [1, 2, 3]})


def test_stopping_waits_for_every_call() -> None:
    config = {"tool_use_behavior": "stop_on_first_tool"}
    run = state(row_of(SETTLED, ASKED), segments=(asking("lookup", "lookup"),), config=config)
    assert next_action(run) == Park((CallId("c1"),))


# An output with a schema.


@pytest.mark.parametrize("text", ['{"amount": 5}', ' {"amount": 5}\n'])
def test_an_answer_that_fits_its_schema_ends_the_run_parsed(text: str) -> None:
    action = next_action(state(segments=(said(text),), turn=1), schema=AMOUNT)
    assert action == Finish(RunStatus.COMPLETED, text, parsed={"amount": 5})


@pytest.mark.parametrize(
    ("text", "path"), [("five", "output"), ('{"amount": "5"}', "output.amount")]
)
def test_an_answer_that_does_not_fit_is_given_back_with_what_is_wrong(text: str, path: str) -> None:
    action = next_action(state(segments=(said(text),), turn=1), schema=AMOUNT)
    assert isinstance(action, AskModel)
    assert [problem.path for problem in action.repair] == [path]


def repaired(times: int, text: str, **config: Any) -> RunState:
    again = Segment(SegmentKind.REPAIR, 1, AGENT, (Message("user", "JSON, please."),))
    return state(segments=(*[again] * times, said(text)), turn=1, config=config)


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_after_its_output_retries_a_wrong_answer_leaves_the_run_incomplete(attempts: int) -> None:
    action = next_action(repaired(attempts, "five", output_retries=attempts), schema=AMOUNT)
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "output_schema")
    assert action.output == "five"
    if attempts:
        before = repaired(attempts - 1, "five", output_retries=attempts)
        assert isinstance(next_action(before, schema=AMOUNT), AskModel)


def test_the_repairs_of_an_agent_before_a_handoff_are_not_counted() -> None:
    again = Segment(SegmentKind.REPAIR, 1, None, (Message("user", "JSON, please."),))
    run = state(segments=(again, said("five", turn=2)), turn=2, config={"output_retries": 1})
    assert isinstance(next_action(run, schema=AMOUNT), AskModel)


def test_a_repair_is_a_turn_like_any_other() -> None:
    action = next_action(repaired(0, "five", limits={"max_turns": 1}), schema=AMOUNT)
    assert isinstance(action, Finish)
    assert action.code == "max_turns"


def test_a_tool_s_result_that_would_end_the_run_must_fit_too() -> None:
    config = {"tool_use_behavior": "stop_on_first_tool"}
    good = replace(DONE, output={"amount": 5})
    action = next_action(with_results(good, config=config), schema=AMOUNT)
    assert action == Finish(RunStatus.COMPLETED, '{"amount":5}', parsed={"amount": 5})
    bad = next_action(with_results(DONE, config=config), schema=AMOUNT)
    assert isinstance(bad, AskModel)
    assert bad.repair[0].path == "output"


def test_a_run_that_was_lost_after_the_repair_was_written_asks_the_model() -> None:
    config = {"tool_use_behavior": "stop_on_first_tool"}
    before = with_results(DONE, config=config)
    repair = Segment(SegmentKind.REPAIR, 1, AGENT, (Message("user", "JSON, please."),))
    run = state(before.calls.values(), segments=(*before.segments, repair), config=config)
    assert next_action(run, schema=AMOUNT) == AskModel()
