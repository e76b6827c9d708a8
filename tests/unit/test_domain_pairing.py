"""Calls and results in a conversation from a client: which pairs are valid, and their order."""

import pytest

from runward.domain.ids import CallId
from runward.domain.run.items import Item, Message, ToolCall, ToolResult
from runward.domain.run.pairing import UnpairedItemError, pair_results


def call(call_id: str) -> ToolCall:
    return ToolCall(CallId(call_id), "look", "{}")


def result(call_id: str, output: str = "") -> ToolResult:
    return ToolResult(CallId(call_id), output)


QUESTION = Message("user", "q")
ANSWER = Message("assistant", "a")


def test_results_follow_their_response_in_the_order_of_its_calls() -> None:
    given: list[Item] = [QUESTION, ANSWER, call("1"), call("2"), result("2"), result("1"), ANSWER]
    ordered: list[Item] = [QUESTION, ANSWER, call("1"), call("2"), result("1"), result("2"), ANSWER]
    assert pair_results(given) == pair_results(ordered) == tuple(ordered)


def test_a_result_after_a_later_message_is_moved_to_its_call() -> None:
    given: list[Item] = [call("1"), QUESTION, result("1")]
    assert pair_results(given) == (call("1"), result("1"), QUESTION)


def test_a_call_after_a_result_begins_a_new_response() -> None:
    given: list[Item] = [call("1"), result("1"), call("2"), result("2")]
    assert pair_results(given) == tuple(given)


def test_an_id_that_occurs_again_in_a_later_response_gets_a_new_id() -> None:
    given: list[Item] = [
        *(call("0"), result("0", "first"), call("0"), result("0", "second")),
        *(call("0_2"), result("0_2", "third")),
    ]
    assert pair_results(given) == (
        *(call("0"), result("0", "first"), call("0_3"), result("0_3", "second")),
        *(call("0_2"), result("0_2", "third")),
    )


def test_calls_of_one_response_with_the_same_id_get_their_results_in_order() -> None:
    given: list[Item] = [call("1"), call("1"), result("1", "first"), result("1", "second")]
    assert pair_results(given) == (
        *(call("1"), call("1_2")),
        *(result("1", "first"), result("1_2", "second")),
    )


@pytest.mark.parametrize(
    ("given", "index"),
    [
        ([QUESTION, call("1"), QUESTION], 1),
        ([call("1"), call("2"), result("1")], 1),
        ([QUESTION, result("1"), call("1")], 1),
        ([call("1"), result("1"), result("1")], 2),
        ([call("1"), call("1"), result("1")], 1),
    ],
    ids=["no result", "one of two", "result first", "two results", "one id twice"],
)
def test_each_call_has_exactly_one_result_after_it(given: list[Item], index: int) -> None:
    with pytest.raises(UnpairedItemError) as refused:
        pair_results(given)
    assert refused.value.index == index
