"""A model's response becomes calls: checked as a whole before any of them may start."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.events.values import CallReason
from runward.domain.ids import CallId
from runward.domain.run import texts
from runward.domain.run.bounds import MAX_CALL_ID, bounded_name
from runward.domain.run.conversation import build_conversation
from runward.domain.run.decide import AskModel, Finish, RunTools, next_action
from runward.domain.run.items import Message, Reasoning, ToolCall, ToolResult
from runward.domain.run.plan import UnusableResponseError
from runward.domain.run.repeated_calls import STOP_AT
from runward.domain.run.response import RequestedCall, Usage
from runward.domain.run.state import CallOutcome, CallPhase, Result, RunState, Segment, SegmentKind
from runward.domain.run.status import RunStatus
from tests.unit.domain_cases import (
    AGENT,
    call,
    event,
    only,
    output_of,
    phase_of,
    reason_of,
    response,
    settled,
    state,
    take_response,
    taken,
    tool,
    turn_with,
    types,
    wants,
)

LOOKUP = tool()
REFUND = tool(
    "refund",
    parameters={
        "type": "object",
        "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["amount"],
    },
    strict=True,
)
GATED = tool("pay", approval="always", approval_expires_seconds=60)
NO = Result(CallOutcome.REJECTED, "No.", CallReason.DECLINED)


# The response itself.


def test_a_text_without_calls_is_the_model_s_message() -> None:
    run, changes = take_response(state(), response(text="Hello."), turn_with())
    assert run.turn == 1
    assert run.last_text == "Hello."
    assert types(changes) == ["message.completed", "usage.updated"]
    assert event(changes, "message.completed")["text"] == "Hello."
    assert [segment.kind for segment in changes.segments] == [SegmentKind.RESPONSE]
    assert changes.progress


def test_an_empty_answer_is_a_message_too() -> None:
    run, changes = take_response(state(), response(), turn_with())
    assert run.segments[-1].items == (Message("assistant", ""),)
    assert types(changes)[0] == "message.completed"


def test_text_beside_calls_is_kept_before_them() -> None:
    run, changes = take_response(
        state(), response(wants("lookup"), text="Let me see."), turn_with(LOOKUP)
    )
    [said, asked] = run.segments[-1].items
    assert said == Message("assistant", "Let me see.")
    assert asked == ToolCall(CallId("c1"), "lookup", "{}")
    assert types(changes)[:2] == ["message.completed", "tool_call.created"]


def test_calls_alone_leave_no_empty_message() -> None:
    run, changes = taken(wants("lookup"), tools=[LOOKUP])
    assert [type(item) for item in run.segments[-1].items] == [ToolCall]
    assert "message.completed" not in types(changes)


def test_a_refusal_is_kept_as_one() -> None:
    run, changes = take_response(
        state(), response(refusal="I will not.", text="ignored"), turn_with()
    )
    assert run.segments[-1].items == (Message("assistant", "I will not.", refusal=True),)
    said = event(changes, "message.completed")
    assert (said["text"], said["refusal"]) == ("I will not.", True)


def test_reasoning_is_kept_first_and_told() -> None:
    thought = Reasoning("openai", {"text": "Hm."})
    run, changes = take_response(state(), response(text="Yes.", reasoning=(thought,)), turn_with())
    assert run.segments[-1].items[0] == thought
    assert event(changes, "reasoning.completed")["reasoning"] == {"text": "Hm."}


def test_usage_adds_up_over_the_run() -> None:
    before = state(usage=Usage(10, 5, cost=0.25), turn=3, calls=[])
    used = Usage(2, 1, 1, 1, cost=0.5)
    run, changes = take_response(before, response(usage=used), turn_with())
    assert run.usage == Usage(12, 6, 1, 1, cost=0.75)
    assert event(changes, "usage.updated") == {
        "turn": 4,
        "input_tokens": 12,
        "output_tokens": 6,
        "cached_tokens": 1,
        "reasoning_tokens": 1,
        "total_tokens": 18,
        "cost_usd": 0.75,
    }


def test_what_postgres_cannot_hold_is_replaced_everywhere() -> None:
    bad = RequestedCall("i\x00d", "n\x00o", '{"a": "\\u0000"')
    run, _ = take_response(state(), response(bad, text="t\x00"), turn_with())
    one = only(run)
    assert (one.id, one.tool, one.raw) == ("i\ufffdd", bounded_name("n\x00o"), '{"a": "\\u0000"')
    assert run.segments[-1].items[0] == Message("assistant", "t\ufffd")


# What came in while the model was being asked.


def text_of(segment: Segment) -> str:
    [item] = segment.items
    assert isinstance(item, Message)
    assert isinstance(item.content, str)
    return item.content


def user(text: str, turn: int = 0) -> Segment:
    return Segment(SegmentKind.INPUT, turn, AGENT, (Message("user", text),))


def test_a_response_stands_after_what_the_model_was_shown_and_before_what_came_later() -> None:
    before = state(segments=(user("One."), user("Two."), user("Three.")))
    shown = replace(turn_with(), segments_before=1)
    run, changes = take_response(before, response(text="First."), shown)
    assert [text_of(one) for one in run.segments] == ["One.", "First.", "Two.", "Three."]
    [written] = changes.segments
    assert written.segments_before == 1
    assert run.last_text == "First."


def test_the_model_is_asked_again_about_what_came_while_it_answered() -> None:
    before = state(segments=(user("One."), user("Two.")))
    run, _ = take_response(before, response(text="First."), replace(turn_with(), segments_before=1))
    assert next_action(run) == AskModel()
    again, changes = take_response(run, response(text="Second."), turn_with())
    assert [one.segments_before for one in changes.segments] == [3]
    assert next_action(again) == Finish(RunStatus.COMPLETED, "Second.")


@pytest.mark.parametrize("behavior", ["run_llm_again", "stop_on_first_tool"])
def test_what_came_meanwhile_is_answered_once_the_calls_have_their_results(behavior: str) -> None:
    config = {"tool_use_behavior": behavior}
    before = state(segments=(user("One."), user("Two.")), config=config)
    asked = response(wants("lookup"))
    run, _ = take_response(before, asked, replace(turn_with(LOOKUP), segments_before=1))
    assert next_action(run) == RunTools((CallId("c1"),))
    done = settled(run, "c1")
    assert next_action(done) == AskModel()
    kinds = [type(item) for item in build_conversation(done)]
    assert kinds == [Message, ToolCall, ToolResult, Message]


def test_a_message_that_came_too_late_for_the_last_turn_leaves_the_run_incomplete() -> None:
    config = {"limits": {"max_turns": 1}}
    before = state(segments=(user("One."), user("Two.")), config=config)
    run, _ = take_response(before, response(text="First."), replace(turn_with(), segments_before=1))
    action = next_action(run)
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.INCOMPLETE, "max_turns")


# Entering the ledger.


def test_a_good_call_is_ready_with_its_digest_and_told() -> None:
    run, changes = taken(wants("lookup", '{"q": 1}'), tools=[tool(version=3)])
    one = only(run)
    assert (one.phase, one.version, one.turn, one.position) == (CallPhase.READY, 3, 1, 0)
    assert one.arguments == {"q": 1}
    assert changes.inserted == {one.id: one}
    assert changes.updated == {}
    assert event(changes, "tool_call.created") == {
        "call_id": "c1",
        "tool": "lookup",
        "tool_version": 3,
        "tool_type": "webhook",
        "turn": 1,
        "agent": AGENT,
        "arguments": {"q": 1},
    }


def test_all_calls_enter_in_the_model_s_order() -> None:
    run, changes = taken(*[wants("lookup", id_=f"c{i}") for i in range(4)], tools=[LOOKUP])
    assert [one.position for one in run.turn_calls] == [0, 1, 2, 3]
    assert list(changes.inserted) == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize("raw", ["", " ", "{}"])
def test_no_arguments_are_an_empty_object(raw: str) -> None:
    assert only(taken(wants("lookup", raw), tools=[LOOKUP])[0]).arguments == {}


def test_a_null_for_an_optional_property_of_a_strict_tool_is_left_out() -> None:
    run, _ = taken(wants("refund", '{"amount": 5, "note": null}'), tools=[REFUND])
    assert only(run).arguments == {"amount": 5}


# Ids.


@pytest.mark.parametrize("id_", ["", "x" * (MAX_CALL_ID + 1)])
def test_an_empty_or_endless_id_is_replaced_by_one_of_ours(id_: str) -> None:
    run, _ = taken(wants("lookup", id_=id_), tools=[LOOKUP])
    assert only(run).id == f"call_{UUID(int=1).hex}"


def test_a_long_id_that_fits_goes_back_as_it_is() -> None:
    id_ = "x" * MAX_CALL_ID
    assert only(taken(wants("lookup", id_=id_), tools=[LOOKUP])[0]).id == id_


def test_calls_without_ids_are_calls_of_their_own() -> None:
    run, _ = taken(wants("lookup", id_=""), wants("lookup", id_=""), tools=[LOOKUP])
    assert len(run.calls) == 2


def test_the_same_id_and_arguments_twice_in_one_response_is_one_call() -> None:
    run, changes = taken(
        wants("lookup", '{"a": 1, "b": 2}'), wants("lookup", '{"b":2,"a":1}'), tools=[LOOKUP]
    )
    assert len(run.calls) == 1
    assert len(run.segments[-1].items) == 1
    assert types(changes).count("tool_call.created") == 1


@pytest.mark.parametrize(
    "second",
    [
        wants("lookup", '{"a": 2}'),
        wants("lookup", '{"a": true}'),
        wants("lookup", '{"a": 1'),
        wants("other", '{"a": 1}'),
    ],
)
def test_the_same_id_for_two_calls_fails_the_run_and_nothing_starts(
    second: RequestedCall,
) -> None:
    with pytest.raises(UnusableResponseError) as refused:
        taken(wants("lookup", '{"a": 1}'), second, tools=[LOOKUP])
    assert refused.value.code == "call_id_reused"
    assert refused.value.message == "The model used the call ID 'c1' for two different calls."


def finished(**fields: Any) -> RunState:
    return state([call("c1", CallPhase.SETTLED, **fields)])


def test_a_finished_call_repeated_is_not_run_again() -> None:
    run, changes = taken(wants("lookup"), tools=[LOOKUP], before=finished())
    assert (run.turn, len(run.calls), run.turn_calls) == (2, 1, ())
    assert types(changes) == ["usage.updated"]
    assert run.segments[-1].items == (ToolCall(CallId("c1"), "lookup", "{}"),)


@pytest.mark.parametrize(
    ("known", "arguments"),
    [
        ({"arguments": {"a": 9}, "original": {}}, "{}"),
        ({"arguments": {"a": 9}, "original": {"a": 1}}, '{"a": 1}'),
        ({"arguments": {}, "raw": '{"a"'}, '{"a"'),
    ],
)
def test_a_repeated_call_is_known_by_what_the_model_asked_for(
    known: dict[str, Any], arguments: str
) -> None:
    run, _ = taken(wants("lookup", arguments), tools=[LOOKUP], before=finished(**known))
    assert run.calls.keys() == {"c1"}


@pytest.mark.parametrize(
    ("known", "again"),
    [
        ({"arguments": {"a": 1}}, wants("lookup", '{"a": 2}')),
        ({"arguments": {"a": 1}}, wants("lookup", '{"a": true}')),
        ({"arguments": {"a": 1}}, wants("other", '{"a": 1}')),
        ({"arguments": {"a": 9}, "original": {}}, wants("lookup", '{"a": 9}')),
        ({"arguments": {}, "raw": '{"a"'}, wants("lookup", '{"b"')),
        ({"arguments": {}, "raw": '{"a"'}, wants("lookup", "{}")),
    ],
)
def test_a_finished_call_s_id_for_another_call_fails_the_run(
    known: dict[str, Any], again: RequestedCall
) -> None:
    with pytest.raises(UnusableResponseError, match="the ID of the finished call 'c1'"):
        taken(again, tools=[LOOKUP], before=finished(**known))


# Calls that cannot run.


def test_an_unknown_or_disabled_tool_is_an_error_that_lists_what_there_is() -> None:
    run, changes = taken(wants("nope"), wants("lookup", id_="c2"), tools=[LOOKUP, REFUND])
    assert reason_of(run) is CallReason.UNKNOWN_TOOL
    assert output_of(run) == (
        "Tool 'nope' not found. Tools that can be called now: lookup, refund."
    )
    assert run.calls[CallId("c1")].version is None
    assert event(changes, "tool_call.failed")["reason"] == "unknown_tool"
    assert next_action(run) == RunTools((CallId("c2"),))


def test_an_unknown_tool_fails_the_run_where_the_agent_says_so() -> None:
    before = state(config={"on_unknown_tool": "fail_run"})
    run, _ = taken(wants("nope"), wants("lookup", id_="c2"), tools=[LOOKUP], before=before)
    action = next_action(run)
    assert isinstance(action, Finish)
    assert action.status is RunStatus.FAILED


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"amount": "5"}', '- arguments.amount: must be an integer, but is the text "5"'),
        ("{}", "- arguments.amount: is missing; it must be an integer"),
        ('{"amount": 1, "x": 2}', "- arguments.x: is an unknown property"),
        ("[1]", "- arguments: must be a JSON object, but is an array of 1"),
    ],
)
def test_invalid_arguments_are_an_error_that_names_each_path(arguments: str, problem: str) -> None:
    run, _ = taken(wants("refund", arguments), tools=[REFUND])
    assert reason_of(run) is CallReason.INVALID_ARGUMENTS
    assert output_of(run).startswith(
        f"Tool 'refund' was not run, because its arguments are not valid:\n{problem}"
    )


def test_a_text_that_is_no_object_is_kept_and_an_empty_object_goes_back_upstream() -> None:
    run, changes = taken(wants("refund", '{"amount": 5'), tools=[REFUND])
    one = only(run)
    assert (one.arguments, one.raw) == ({}, '{"amount": 5')
    assert run.segments[-1].items == (ToolCall(one.id, "refund", "{}", '{"amount": 5'),)
    assert event(changes, "tool_call.created")["arguments_text"] == '{"amount": 5'


def test_nobody_is_asked_about_a_gated_call_with_invalid_arguments() -> None:
    gated = tool("refund", approval="always", parameters=REFUND.spec.parameters)
    run, changes = taken(wants("refund", "{}"), tools=[gated])
    assert reason_of(run) is CallReason.INVALID_ARGUMENTS
    assert changes.approvals == []


def test_invalid_arguments_fail_the_run_of_a_tool_that_says_so() -> None:
    strict = tool("refund", on_error="fail_run", parameters=REFUND.spec.parameters)
    action = next_action(taken(wants("refund", "{}"), tools=[strict])[0])
    assert isinstance(action, Finish)
    assert (action.status, action.code) == (RunStatus.FAILED, "invalid_arguments")


@pytest.mark.parametrize("arguments", ['{"q": 1}', '{"q": '])
def test_a_call_that_the_response_was_cut_off_in_never_runs_even_if_it_parses(
    arguments: str,
) -> None:
    run, _ = taken(
        wants("lookup", id_="c0"), wants("lookup", arguments, truncated=True), tools=[LOOKUP]
    )
    assert reason_of(run) is CallReason.TRUNCATED
    assert output_of(run) == texts.TRUNCATED
    assert run.calls[CallId("c0")].phase is CallPhase.READY


def test_a_run_has_only_so_many_calls() -> None:
    before = state([call("old", CallPhase.SETTLED)], config={"limits": {"max_tool_calls": 2}})
    run, _ = taken(
        wants("lookup", id_="c1"), wants("lookup", id_="c2"), tools=[LOOKUP], before=before
    )
    assert run.calls[CallId("c1")].phase is CallPhase.READY
    assert reason_of(run, "c2") is CallReason.LIMIT
    assert output_of(run, "c2") == texts.TOO_MANY_CALLS


# The loop guard.


def times(count: int, arguments: str = '{"q": 1}') -> list[RequestedCall]:
    return [wants("lookup", arguments, f"c{i}") for i in range(1, count + 1)]


def test_the_fifth_identical_call_is_not_run() -> None:
    run, _ = taken(*times(STOP_AT), tools=[LOOKUP])
    assert [one.phase for one in run.turn_calls] == [*[CallPhase.READY] * 4, CallPhase.SETTLED]
    assert reason_of(run, "c5") is CallReason.REPEATED
    assert output_of(run, "c5") == texts.REPEATED


def test_identical_calls_count_over_turns_and_whatever_became_of_them() -> None:
    before = state(
        call(f"old{i}", CallPhase.SETTLED, turn=i, arguments={"q": 1}) for i in range(1, 5)
    )
    run, _ = taken(*times(1), tools=[LOOKUP], before=before)
    assert reason_of(run) is CallReason.REPEATED


@pytest.mark.parametrize(
    "other",
    [
        {"arguments": {"q": 2}},
        {"arguments": {"q": True}},
        {"arguments": {"q": 1}, "tool": "refund"},
        {"arguments": {"q": 1}, "original": {"q": 2}},
        {"arguments": {"q": 1}, "raw": "{"},
    ],
)
def test_calls_that_differ_are_not_counted_together(other: dict[str, Any]) -> None:
    before = state(call(f"old{i}", CallPhase.SETTLED, turn=i, **other) for i in range(1, 5))
    assert phase_of(taken(*times(1), tools=[LOOKUP], before=before)[0]) is CallPhase.READY


def test_an_edited_call_counts_as_what_the_model_asked_for() -> None:
    before = state(
        call(f"old{i}", CallPhase.SETTLED, turn=i, arguments={"q": 7}, original={"q": 1})
        for i in range(1, 5)
    )
    assert phase_of(taken(*times(1), tools=[LOOKUP], before=before)[0]) is CallPhase.SETTLED


# Whatever a model writes.

WORDS = st.sampled_from(["lookup", "refund", "pay", "nope", "", "\x00"])
ARGUMENTS = (
    st.sampled_from(["", "{}", '{"amount": 1}', "[", "null", '{"a": "\\ud800"}']) | st.text()
)


@given(
    st.lists(
        st.builds(
            RequestedCall,
            st.sampled_from(["", "a", "b", "c"]) | st.text(),
            WORDS | st.text(),
            ARGUMENTS,
            st.booleans(),
        ),
        max_size=8,
    ),
    st.text(),
)
def test_whatever_a_model_writes_every_call_has_a_place_or_the_response_is_refused(
    asked: list[RequestedCall], text: str
) -> None:
    try:
        run, changes = take_response(
            state(), response(*asked, text=text), turn_with(LOOKUP, REFUND, GATED)
        )
    except UnusableResponseError as error:
        assert error.code == "call_id_reused"
        return
    items = [item for item in run.segments[-1].items if isinstance(item, ToolCall)]
    assert [item.call_id for item in items] == list(run.calls) == list(changes.inserted)
    assert dict(run.calls) == changes.inserted
    for one in run.calls.values():
        assert one.id
        assert (one.result is not None) == (one.phase is CallPhase.SETTLED)
        assert one.phase in (CallPhase.READY, CallPhase.AWAITING_APPROVAL, CallPhase.SETTLED)
        if one.phase is CallPhase.READY:
            assert one.tool in ("lookup", "refund")


def test_a_tool_that_was_not_searched_for_is_not_just_unknown() -> None:
    turn = replace(turn_with(tool("search_tools")), hidden_tools=frozenset({"pay"}))
    run, _ = take_response(state(), response(wants("pay")), turn)
    result = only(run).result
    assert result is not None
    assert (result.reason, result.output) == (CallReason.UNKNOWN_TOOL, texts.search_first("pay"))
