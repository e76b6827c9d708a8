"""Earlier runs of a session: what is kept, what a model is shown, what a search finds."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain.ids import CallId
from runward.domain.run.config import AgentKind, HistoryLimits
from runward.domain.run.history import (
    BYTES_A_TOKEN,
    ITEM_BYTES,
    MAX_EXCERPT,
    MAX_FOUND,
    MAX_SEARCHED,
    MAX_WORD,
    MAX_WORDS,
    MEDIA_BYTES,
    search,
    select_history,
    trimmed_history,
)
from runward.domain.run.items import (
    Item,
    MediaPart,
    Message,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)

ALL = HistoryLimits()


def user(text: str) -> Message:
    return Message("user", text)


def model(text: str) -> Message:
    return Message("assistant", text)


def system(text: str) -> Message:
    return Message("system", text)


def call(call_id: str, arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(CallId(call_id), name, arguments)


def result(call_id: str, output: Any = "fine", **fields: Any) -> ToolResult:
    return ToolResult(CallId(call_id), output, **fields)


def exchange(n: int) -> list[Item]:
    return [user(f"q{n}"), call(f"c{n}"), result(f"c{n}"), model(f"a{n}")]


# What is kept of a run.


def test_of_an_agent_s_run_every_item_is_kept() -> None:
    items = [system("be kind"), *exchange(1), Reasoning("v", {"x": 1}), model("bye")]
    assert select_history(items, "bye", "llm") == tuple(items)


def test_a_call_is_kept_with_one_result_or_not_at_all() -> None:
    items = [
        result("c0"),
        user("q"),
        call("c1"),
        call("c2"),
        result("c1", 1),
        result("c1", 2),
        call("c1"),
        result("c1", 3),
        call("c3"),
        user("and?"),
        result("c3"),
    ]
    assert select_history(items, None, "llm") == (
        user("q"),
        call("c1"),
        result("c1", 1),
        user("and?"),
    )


@pytest.mark.parametrize("kind", ["sequential", "parallel", "loop"])
def test_of_a_workflow_the_question_and_the_answer_are_kept(kind: AgentKind) -> None:
    asked = (system("s"), user("q"), call("c1"), result("c1"), user("and?"))
    assert select_history(asked, "done", kind) == (*asked, model("done"))
    assert select_history(asked, {"a": [1]}, kind) == (*asked, model('{"a":[1]}'))
    assert select_history(asked, None, kind) == select_history(asked, "", kind) == asked


# What a model is shown.


def test_without_limits_all_that_is_kept_is_shown_in_order() -> None:
    history = [exchange(1), [system("s"), *exchange(2)]]
    assert trimmed_history(history, ALL) == (*exchange(1), system("s"), *exchange(2))
    assert trimmed_history([], ALL) == ()


def test_the_newest_exchanges_are_shown() -> None:
    history = [[model("welcome"), *exchange(1)], [*exchange(2), *exchange(3)]]
    assert trimmed_history(history, HistoryLimits(max_exchanges=1)) == tuple(exchange(3))
    assert trimmed_history(history, HistoryLimits(max_exchanges=2)) == (*exchange(2), *exchange(3))
    assert trimmed_history(history, HistoryLimits(max_exchanges=3)) == (
        model("welcome"),
        *exchange(1),
        *exchange(2),
        *exchange(3),
    )
    assert trimmed_history(history, HistoryLimits(max_exchanges=0)) == ()


def test_system_messages_are_always_shown() -> None:
    history = [[system("one"), *exchange(1)], [system("two"), *exchange(2)]]
    assert trimmed_history(history, HistoryLimits(max_exchanges=1)) == (
        system("one"),
        system("two"),
        *exchange(2),
    )
    assert trimmed_history(history, HistoryLimits(max_exchanges=0)) == (
        system("one"),
        system("two"),
    )
    assert trimmed_history(history, HistoryLimits(max_tokens=1)) == (system("one"), system("two"))


def tokens(*texts: str) -> int:
    size = sum(ITEM_BYTES + len(text.encode()) for text in texts)
    return -(-size // BYTES_A_TOKEN)


def test_the_newest_exchanges_that_fit_are_shown() -> None:
    history = [[user("é" * 50)], [user("b" * 80), model("c" * 80)]]
    newest = tokens("b" * 80, "c" * 80)
    assert trimmed_history(history, HistoryLimits(max_tokens=newest - 1)) == ()
    assert trimmed_history(history, HistoryLimits(max_tokens=newest)) == tuple(history[1])
    both = tokens("b" * 80, "c" * 80, "x" * 100)
    assert trimmed_history(history, HistoryLimits(max_tokens=both - 1)) == tuple(history[1])
    assert trimmed_history(history, HistoryLimits(max_tokens=both)) == (*history[0], *history[1])


def test_system_messages_take_their_room_from_the_exchanges() -> None:
    history = [[system("s" * 400)], [user("q")]]
    assert trimmed_history(history, HistoryLimits(max_tokens=tokens("q"))) == (system("s" * 400),)
    assert len(trimmed_history(history, HistoryLimits(max_tokens=tokens("q", "s" * 400)))) == 2


def test_both_limits_hold() -> None:
    history = [exchange(1), exchange(2), exchange(3)]
    assert trimmed_history(history, HistoryLimits(max_exchanges=2, max_tokens=1)) == ()
    assert trimmed_history(history, HistoryLimits(max_exchanges=1, max_tokens=10_000)) == tuple(
        exchange(3)
    )


IMAGE = MediaPart("image", data="A" * 100_000, media_type="image/png")


@pytest.mark.parametrize(
    ("item", "size"),
    [
        (Message("assistant", (TextPart("é"), IMAGE)), 2 + MEDIA_BYTES),
        (Reasoning("v", {"x": "é"}), len('{"x":"é"}'.encode())),
    ],
)
def test_media_and_reasoning_are_counted_roughly(item: Item, size: int) -> None:
    limits = HistoryLimits(max_tokens=-(-(2 * ITEM_BYTES + 1 + size) // BYTES_A_TOKEN))
    assert len(trimmed_history([[user("q"), item]], limits)) == 2
    less = HistoryLimits(max_tokens=(limits.max_tokens or 0) - 2)
    assert trimmed_history([[user("q"), item]], less) == ()


def test_calls_and_results_are_counted_with_their_texts() -> None:
    items = [
        user("q"),
        call("1", "x" * 100, "look"),
        result("1", {"a": "y" * 100}, parts=()),
        call("2", "", "look"),
        result("2", "z" * 1000, parts=(TextPart("w" * 50),)),
    ]
    size = 5 * ITEM_BYTES + 1 + 104 + len('{"a":""}') + 100 + 4 + 50
    assert trimmed_history([items], HistoryLimits(max_tokens=-(-size // BYTES_A_TOKEN))) == tuple(
        items
    )
    assert trimmed_history([items], HistoryLimits(max_tokens=size // BYTES_A_TOKEN - 1)) == ()


def test_outputs_of_tools_are_cut() -> None:
    items = [user("x" * 99), call("1"), result("1", "h" * 50 + "t" * 50, is_error=True)]
    _, _, cut = trimmed_history([items], HistoryLimits(trim_tool_outputs=10))
    assert isinstance(cut, ToolResult)
    assert cut.output == "hhhhh\n… 90 bytes omitted …\nttttt"
    assert cut.is_error
    assert trimmed_history([items], HistoryLimits(trim_tool_outputs=100)) == tuple(items)
    _, _, none = trimmed_history([items], HistoryLimits(trim_tool_outputs=0))
    assert none == result("1", "… 100 bytes omitted …", is_error=True)
    empty = [call("1"), result("1", "")]
    assert trimmed_history([empty], HistoryLimits(trim_tool_outputs=0)) == tuple(empty)


def test_media_of_a_tool_are_left_out_where_they_are_too_large() -> None:
    items = [call("1"), result("1", "see", parts=(TextPart("see"), IMAGE))]
    assert trimmed_history([items], HistoryLimits(trim_tool_outputs=1000)) == (
        call("1"),
        result("1", "see"),
    )
    assert trimmed_history([items], HistoryLimits(trim_tool_outputs=MEDIA_BYTES + 3)) == tuple(
        items
    )


def calls_in(items: Sequence[Item]) -> list[CallId]:
    return [item.call_id for item in items if isinstance(item, ToolCall)]


def test_an_id_that_two_runs_have_is_there_once() -> None:
    history = [[call("c1"), result("c1", n), call(f"d{n}"), result(f"d{n}")] for n in range(3)]
    ids = calls_in(trimmed_history(history, ALL))
    assert ids == ["c1", "d0", "c1_2", "d1", "c1_3", "d2"]
    assert calls_in(trimmed_history(history, ALL, taken=ids[:2])) == [
        "c1_2",
        "d0_2",
        "c1_3",
        "d1",
        "c1_4",
        "d2",
    ]
    outputs = [
        item.output for item in trimmed_history(history, ALL) if isinstance(item, ToolResult)
    ]
    assert outputs == [0, "fine", 1, "fine", 2, "fine"]


def test_an_id_that_looks_like_a_changed_one_is_there_once_too() -> None:
    history = [[call(one), result(one)] for one in ("c1", "c1_2", "c1", "c1_2", "c1")]
    ids = calls_in(trimmed_history(history, ALL, taken=[CallId("c1_3")]))
    assert len({*ids, "c1_3"}) == 6


IDS = st.sampled_from(["c1", "c2", "c1_2"])
TEXTS = st.text(max_size=40)
ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(Message, st.sampled_from(["user", "assistant", "system"]), TEXTS),
    st.builds(call, IDS),
    st.builds(result, IDS, TEXTS),
    st.builds(Reasoning, st.just("v"), st.just({})),
)
HISTORIES = st.lists(st.lists(ITEMS, max_size=12), max_size=5)
LIMITS = st.none() | st.integers(0, 40)
POLICIES = st.builds(
    HistoryLimits,
    max_exchanges=LIMITS,
    max_tokens=st.none() | st.integers(1, 100),
    trim_tool_outputs=LIMITS,
)


def assert_whole(items: Sequence[Item]) -> None:
    """Each call has one result behind it, and ids are there once."""
    open_calls: set[CallId] = set()
    seen: set[CallId] = set()
    for item in items:
        if isinstance(item, ToolCall):
            assert item.call_id not in seen
            seen.add(item.call_id)
            open_calls.add(item.call_id)
        elif isinstance(item, ToolResult):
            open_calls.remove(item.call_id)
    assert not open_calls


@given(HISTORIES, POLICIES)
def test_whatever_is_shown_is_a_sound_conversation(
    history: list[list[Item]], limits: HistoryLimits
) -> None:
    seen = trimmed_history(history, limits)
    assert_whole(seen)
    systems = [item for run in history for item in run if is_system(item)]
    assert [item for item in seen if is_system(item)] == systems
    users = [item for item in seen if isinstance(item, Message) and item.role == "user"]
    if limits.max_exchanges is not None:
        assert len(users) <= max(limits.max_exchanges, 0)


def is_system(item: Item) -> bool:
    return isinstance(item, Message) and item.role == "system"


@given(HISTORIES, POLICIES)
def test_showing_what_was_kept_is_showing_it(
    history: list[list[Item]], limits: HistoryLimits
) -> None:
    kept = [select_history(run, None, "llm") for run in history]
    assert trimmed_history(kept, limits) == trimmed_history(history, limits)
    assert kept == [select_history(run, None, "llm") for run in kept]


# What a search finds.


def texts(found: Any) -> list[str]:
    return [one["text"] for one in found["results"]]


HISTORY: list[list[Item]] = [
    [user("The invoice is 12"), model("Noted."), Reasoning("v", {"secret": "invoice"})],
    [
        user("And INVOICE 13?"),
        call("c1", '{"invoice":13}', "lookup"),
        result("c1", {"total": 99}),
        Message("assistant", (TextPart("It is "), IMAGE, TextPart("99 euros."))),
    ],
]


def test_the_newest_comes_first_with_its_run_and_who_said_it() -> None:
    assert search(HISTORY, "Invoice", 10) == {
        "results": [
            {"runs_ago": 1, "role": "tool_call", "text": 'lookup {"invoice":13}'},
            {"runs_ago": 1, "role": "user", "text": "And INVOICE 13?"},
            {"runs_ago": 2, "role": "user", "text": "The invoice is 12"},
        ],
        "found": 3,
    }


def test_outputs_and_parts_are_searched_too() -> None:
    assert texts(search(HISTORY, "99", 10)) == ["It is 99 euros.", '{"total":99}']


def test_all_words_count_before_any() -> None:
    assert texts(search(HISTORY, "12 invoice", 10)) == ["The invoice is 12"]
    assert texts(search(HISTORY, "euros Noted. nowhere", 10)) == ["It is 99 euros.", "Noted."]
    nothing: JsonValue = {"results": [], "found": 0}
    assert search(HISTORY, "nowhere", 10) == search(HISTORY, "  ", 10) == nothing


def test_a_search_has_a_limit_and_says_how_many_there_are() -> None:
    many = [[user(f"word {n}") for n in range(MAX_FOUND + 10)]]
    found: Any = search(many, "word", 2)
    assert texts(found) == [f"word {MAX_FOUND + 9}", f"word {MAX_FOUND + 8}"]
    assert found["found"] == MAX_FOUND + 10
    assert len(texts(search(many, "word", 10**9))) == MAX_FOUND
    assert len(texts(search(many, "word", -1))) == 1


def test_words_beyond_the_limit_are_not_looked_for() -> None:
    twice = " ".join(["12"] * MAX_WORDS + ["invoice"])
    assert texts(search(HISTORY, twice, 5)) == ["The invoice is 12"]
    long = " ".join([f"x{n}" for n in range(MAX_WORDS)] + ["invoice"])
    assert texts(search(HISTORY, long, 5)) == []


def test_only_the_beginning_of_a_long_word_is_looked_for() -> None:
    word = "x" * MAX_WORD
    assert texts(search([[user(word)]], f"{word}y", 5)) == [word]


def test_long_words_are_searched_for_in_no_time() -> None:
    history = [[user("a" * 2_499)] * 1_600]
    query = " ".join("a" * (600 + at) + "b" + "a" * 580 for at in range(MAX_WORDS))
    begun = time.process_time()
    assert len(texts(search(history, query, 5))) == 5
    assert time.process_time() - begun < 2


def test_old_runs_beyond_the_limit_are_not_read() -> None:
    history = [[user("word old")], [user("x" * (MAX_SEARCHED - 8)), user("word new")]]
    assert texts(search(history, "word", 5)) == ["word new"]


@pytest.mark.parametrize("at", [0, 1, 119, 120, 121, 500, 9_599, 9_990, 9_996])
def test_an_excerpt_holds_what_was_found(at: int) -> None:
    text = "." * at + "WORD" + "." * (9_996 - at)
    [excerpt] = texts(search([[user(text)]], "word", 1))
    assert "WORD" in excerpt
    assert len(excerpt) <= MAX_EXCERPT
    assert excerpt.startswith("…") is (at > 120)
    assert excerpt.strip("…") in text


def test_a_short_text_is_its_own_excerpt() -> None:
    text = "word" + "." * (MAX_EXCERPT - 4)
    assert texts(search([[user(text)]], "word", 1)) == [text]
