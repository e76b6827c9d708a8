"""The conversation as the model is to see it: every call followed by exactly one result."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runward.domain.ids import CallId
from runward.domain.run import texts
from runward.domain.run.conversation import build_conversation, remove_refused
from runward.domain.run.items import Item, MediaPart, Message, TextPart, ToolCall, ToolResult
from runward.domain.run.state import (
    Call,
    CallOutcome,
    CallPhase,
    Result,
    RunState,
    Segment,
    SegmentKind,
)
from tests.unit.domain_cases import AGENT, DONE, call, settled, state, taken, tool, wants

HELLO = Segment(SegmentKind.INPUT, 0, AGENT, (Message("user", "Hello."),))
LOOKUP = tool()


def results(run: RunState) -> list[ToolResult]:
    return [item for item in build_conversation(run) if isinstance(item, ToolResult)]


def asked(*calls: Call, turn: int = 1) -> Segment:
    items = tuple(ToolCall(one.id, one.tool, "{}") for one in calls)
    return Segment(SegmentKind.RESPONSE, turn, AGENT, items)


def the_only_result(one: Call) -> ToolResult:
    [found] = results(state([one], segments=(asked(one),)))
    return found


def test_a_new_run_s_conversation_is_its_input() -> None:
    assert build_conversation(state(segments=(HELLO,))) == (Message("user", "Hello."),)


@given(st.permutations(["c0", "c1", "c2", "c3"]), st.integers(0, 4))
def test_results_stand_after_their_response_in_call_order_however_they_came(
    order: list[str], count: int
) -> None:
    calls = [wants("lookup", f'{{"n": {i}}}', f"c{i}") for i in range(4)]
    run, _ = taken(*calls, tools=[LOOKUP])
    for id_ in order[:count]:
        run = settled(run, id_, replace(DONE, output=id_))
    came = sorted(order[:count])
    assert [item.output for item in results(run)] == came
    assert build_conversation(run)[:4] == run.segments[-1].items
    again = Segment(SegmentKind.INPUT, 1, AGENT, (Message("user", "And?"),))
    after = build_conversation(replace(run, segments=(*run.segments, again)))
    assert after == (*build_conversation(run), Message("user", "And?"))


def test_results_of_several_turns_stand_with_their_own_turn() -> None:
    run = state(segments=(HELLO,))
    for turn in (1, 2):
        run, _ = taken(wants("lookup", f"[{turn}", f"c{turn}"), tools=[LOOKUP], before=run)
    kinds: list[type[Item]] = [type(item) for item in build_conversation(run)]
    assert kinds == [Message, ToolCall, ToolResult, ToolCall, ToolResult]


def test_a_result_says_whether_it_is_an_error_and_brings_its_parts() -> None:
    good = call("c1", CallPhase.SETTLED, result=Result(CallOutcome.COMPLETED, {"a": 1}))
    assert the_only_result(good) == ToolResult(good.id, {"a": 1})
    part = MediaPart("image", url="https://x.example/i.png")
    bad = replace(good, result=Result(CallOutcome.REJECTED, "No.", parts=(part,)))
    assert the_only_result(bad) == ToolResult(good.id, "No.", is_error=True, parts=(part,))


def test_an_open_call_has_no_result_yet() -> None:
    one = call("c1", CallPhase.STARTED)
    assert results(state([one], segments=(asked(one),))) == []


# Notes.


def test_a_finished_call_asked_for_again_gets_its_stored_result_with_a_note() -> None:
    one = call("c1", CallPhase.SETTLED)
    run = state([one], segments=(asked(one), asked(one, turn=2)), turn=2)
    assert [item.output for item in results(run)] == ["done", f"{texts.STORED}\ndone"]


def test_the_model_is_told_that_a_person_changed_its_call() -> None:
    changed = call("c1", CallPhase.SETTLED, original={}, arguments={"to": "Ünal", "n": 1})
    assert the_only_result(changed).output == (
        "(A person edited this call before it ran. It ran with these arguments: "
        '{"to":"Ünal","n":1})\n'
        "done"
    )


def test_the_third_identical_call_alone_is_warned_about() -> None:
    calls = [call(f"c{i}", CallPhase.SETTLED, position=i) for i in range(4)]
    outputs = [item.output for item in results(state(calls, segments=(asked(*calls),)))]
    assert outputs == ["done", "done", f"{texts.REPEATED_WARNING}\ndone", "done"]


def test_broken_texts_that_differ_are_not_identical_calls() -> None:
    calls = [call(f"c{i}", CallPhase.SETTLED, position=i, raw="{" * i) for i in range(1, 5)]
    outputs = [item.output for item in results(state(calls, segments=(asked(*calls),)))]
    assert outputs == ["done"] * 4


def test_edited_calls_are_identical_where_the_model_asked_for_the_same() -> None:
    edits: list[dict[str, Any]] = [{"arguments": {"n": n}, "original": {}} for n in range(3)]
    calls = [call(f"c{i}", CallPhase.SETTLED, position=i, **one) for i, one in enumerate(edits)]
    last = results(state(calls, segments=(asked(*calls),)))[-1]
    assert texts.REPEATED_WARNING in last.text


def test_notes_stand_before_json_as_text_and_before_parts_as_a_part() -> None:
    picture = MediaPart("image", data="aGk=", media_type="image/png")
    result = Result(CallOutcome.COMPLETED, {"a": 1}, parts=(picture,))
    changed = call("c1", CallPhase.SETTLED, original={"x": 1}, result=result)
    note = texts.edited("{}")
    assert the_only_result(changed) == ToolResult(
        CallId("c1"), f'{note}\n{{"a":1}}', parts=(TextPart(note), picture)
    )


def test_several_notes_come_in_order() -> None:
    calls = [call(f"c{i}", CallPhase.SETTLED, position=i) for i in range(2)]
    third = call("c2", CallPhase.SETTLED, position=2, arguments={"n": 1}, original={})
    run = state([*calls, third], segments=(asked(*calls, third), asked(third, turn=2)), turn=2)
    assert results(run)[-1].output == "\n".join(
        [texts.STORED, texts.edited('{"n":1}'), texts.REPEATED_WARNING, "done"]
    )


def test_a_cut_result_says_how_the_whole_of_it_can_be_read() -> None:
    cut = replace(DONE, output="begin … end", full="begin and end")
    shown = the_only_result(call("c1", CallPhase.SETTLED, result=cut))
    assert shown.output == f"{texts.cut_result('c1')}\nbegin … end"


def test_calls_of_the_input_bring_their_results_and_are_in_no_ledger() -> None:
    given = (
        Message("user", "Go."),
        ToolCall(CallId("c1"), "lookup", "{}"),
        ToolResult(CallId("c1"), "found"),
        Message("user", "And?"),
    )
    opening = Segment(SegmentKind.INPUT, 0, AGENT, given)
    run, _ = taken(wants("lookup", id_="c1"), tools=[LOOKUP], before=state(segments=(opening,)))
    run = settled(run, "c1", replace(DONE, output="again"))
    assert build_conversation(run)[:4] == given
    assert [item.output for item in results(run)] == ["found", "again"]


# What a guardrail refused.


def heard(*items: Item, turn: int = 0) -> Segment:
    return Segment(SegmentKind.INPUT, turn, AGENT, items)


def spoken(*items: Item, turn: int = 1) -> Segment:
    return Segment(SegmentKind.RESPONSE, turn, AGENT, items)


def test_no_item_of_a_refused_input_is_kept() -> None:
    answer = spoken(Message("assistant", "Hi."))
    more = heard(
        Message("user", "ignore"),
        Message("assistant", "your rules"),
        ToolCall(CallId("x1"), "theirs", "{}"),
        ToolResult(CallId("x1"), "a secret"),
        turn=1,
    )
    run = state(segments=(HELLO, answer, more, more), turn=1)
    assert build_conversation(remove_refused(run, "run_input")) == (*HELLO.items, *answer.items)
    alone = state(segments=(heard(Message("system", "a"), Message("user", "b")),))
    assert build_conversation(remove_refused(alone, "run_input")) == ()


def test_a_refused_answer_is_not_kept() -> None:
    run = state(segments=(HELLO, spoken(Message("assistant", "a secret"))), turn=1)
    assert build_conversation(remove_refused(run, "run_output")) == HELLO.items


def test_a_refused_result_is_not_kept_and_its_call_is() -> None:
    result = replace(DONE, output="a sec … ret", full="a secret", parts=(TextPart("a secret"),))
    run = state([replace(call("c1", CallPhase.SETTLED), result=result)])
    words = Message("assistant", "a secret")
    run = replace(run, segments=(HELLO, spoken(words, ToolCall(CallId("c1"), "lookup", "{}"))))
    kept = build_conversation(remove_refused(run, "run_output"))
    assert [type(item) for item in kept] == [Message, ToolCall, ToolResult]
    assert kept[-1] == ToolResult(CallId("c1"), texts.OUTPUT_GUARDED, is_error=True)


def test_nothing_is_missing_of_a_run_that_no_guardrail_has_refused() -> None:
    run = state(segments=(HELLO, spoken(Message("assistant", "Hi."))), turn=1)
    assert remove_refused(run, None) == run
