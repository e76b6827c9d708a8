"""A response as a stretch of a run's log: items, numbers, and coming back anywhere."""

from typing import Any, TypeAlias

import pytest

from runward.api.responses.log import LIVE, STRIDE, ResponseLog
from runward.api.responses.parts import LoggedEvent, ResponseEvent, ResponseSnapshot

Told: TypeAlias = tuple[str, dict[str, Any]]

RUN = "019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
AT = "2026-11-02T09:30:00Z"
TEXT = "Hello there, world"
USED = {"input_tokens": 5, "output_tokens": 3, "cached_tokens": 1, "reasoning_tokens": 2}


def shape(found: ResponseSnapshot) -> dict[str, Any]:
    return {"status": found.status, "output": [dict(item) for item in found.output]}


def log(after: int = 0, starting_after: int = -1) -> ResponseLog:
    return ResponseLog(RUN, after, False, shape, starting_after)


def logged(*events: Told) -> list[LoggedEvent]:
    return [LoggedEvent(n, type_, AT, data) for n, (type_, data) in enumerate(events, start=1)]


def created(call_id: str, tool: str = "pay", kind: str = "webhook") -> Told:
    data: dict[str, Any] = {
        "call_id": call_id,
        "tool": tool,
        "tool_type": kind,
        "arguments": {"x": 1},
    }
    return "tool_call.created", data


def ended(call_id: str, outcome: str = "completed") -> Told:
    return f"tool_call.{outcome}", {"call_id": call_id, "output": {"paid": True}}


def waiting(*entries: dict[str, str]) -> Told:
    return "run.waiting", {"waiting_for": list(entries)}


BEGUN: tuple[Told, ...] = (("run.created", {}), ("run.started", {}))
SAID: Told = ("message.completed", {"turn": 1, "text": TEXT, "refusal": False})
DONE: Told = ("run.completed", {"output": TEXT})
TALK = logged(*BEGUN, SAID, ("usage.updated", {"turn": 1, **USED}), DONE)
ASKED = logged(
    *BEGUN,
    created("c1"),
    ("tool_call.approval_requested", {"call_id": "c1", "approval_id": "apr_1"}),
    created("c2", "look", "client"),
    created("c3", "free"),
    ("usage.updated", {"turn": 1, **USED}),
    ("tool_call.started", {"call_id": "c3"}),
    ended("c3"),
    waiting(
        {"type": "approval", "call_id": "c1", "approval_id": "apr_1"},
        {"type": "tool_result", "call_id": "c2"},
    ),
    ("tool_call.approval_decided", {"call_id": "c1", "approval_id": "apr_1"}),
    ("run.resumed", {}),
    ("tool_call.started", {"call_id": "c1"}),
    ended("c1"),
    SAID,
    ("usage.updated", {"turn": 2, **{name: 2 * n for name, n in USED.items()}}),
    DONE,
)


def sent(of: ResponseLog, events: list[LoggedEvent]) -> list[ResponseEvent]:
    return [one for event in events for one in of.apply_event(event)]


def types(events: list[ResponseEvent]) -> list[str]:
    return [one.type.removeprefix("response.") for one in events]


def test_a_run_that_talks_is_one_message() -> None:
    of = log()
    assert types(sent(of, TALK)) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert (of.ended, of.snapshot.status) == (True, "completed")
    assert of.snapshot.usage.usage["total_tokens"] == 8


@pytest.mark.parametrize(("events", "after"), [(TALK, 0), (ASKED, 0), (ASKED, 10)])
def test_numbers_grow_and_coming_back_after_any_of_them_gives_exactly_the_rest(
    events: list[LoggedEvent], after: int
) -> None:
    whole = sent(log(after), events)
    numbers = [one.number for one in whole]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    for n, number in enumerate(numbers):
        assert sent(log(after, number), events) == whole[n + 1 :]


def test_where_the_client_is_asked_the_response_ends() -> None:
    first = log()
    sent(first, ASKED)
    assert first.seen == 10
    assert [item["type"] for item in first.snapshot.output] == [
        "mcp_call",
        "mcp_approval_request",
        "function_call",
    ]
    assert first.snapshot.usage.input == 5
    after = log(10)
    sent(after, ASKED)
    assert after.begins_at_wait
    assert [item["type"] for item in after.snapshot.output] == ["mcp_call", "message"]
    assert after.snapshot.output[0]["approval_request_id"] == "apr_1"
    assert after.snapshot.usage.input == 5  # its own, not the run's 10


def test_a_wait_that_is_not_for_the_client_ends_nothing() -> None:
    of = log()
    asks = [*BEGUN, created("c1"), waiting({"type": "callback", "call_id": "c1"})]
    sent(of, logged(*asks))
    assert (of.ended, of.snapshot.status) == (False, "in_progress")


def pieces(count: int) -> list[dict[str, Any]]:
    """The text in so many pieces."""
    size = -(-len(TEXT) // count)
    return [
        {"turn": 1, "text": TEXT[at : at + size], "offset": at} for at in range(0, len(TEXT), size)
    ]


def said(events: list[ResponseEvent]) -> str:
    return "".join(str(one.data["delta"]) for one in events if one.type.endswith("text.delta"))


@pytest.mark.parametrize("shown", range(5))
def test_text_that_was_shown_in_pieces_is_not_shown_again(shown: int) -> None:
    live = log()
    seen = sent(live, TALK[:2])
    for piece in pieces(4)[:shown]:
        seen += live.apply_delta(piece)
    rest = sent(live, TALK[2:4])
    assert live.apply_delta(pieces(1)[0]) == []  # it came late
    rest += sent(live, TALK[4:])
    assert said(seen + rest) == TEXT
    numbers = [one.number for one in seen + rest]
    assert numbers == sorted(set(numbers))
    for n in range(len(seen)):  # cut off anywhere, and read again from what is stored
        again = sent(log(0, seen[n].number), TALK)
        assert said(seen[: n + 1] + again) == TEXT
        both = seen[: n + 1] + again
        assert types(both).count("output_item.added") == 1
        assert types(both).count("content_part.added") == 1
        assert [one.number for one in both] == sorted({one.number for one in both})


@pytest.mark.parametrize("shown", range(1, 4))
def test_a_reader_that_comes_back_while_the_model_writes_is_given_the_rest_of_the_pieces(
    shown: int,
) -> None:
    live = log()
    seen = sent(live, TALK[:2])
    for piece in pieces(4)[:shown]:
        seen += live.apply_delta(piece)
    again = log(0, seen[-1].number)
    more = sent(again, TALK[:2]) + again.apply_delta({"turn": 1, "text": TEXT[:-2], "offset": 0})
    assert said(seen + more) == TEXT[:-2]
    assert said(seen + more + sent(again, TALK[2:])) == TEXT


def test_a_piece_after_a_gap_waits_for_the_stored_message() -> None:
    live = log()
    sent(live, TALK[:2])
    first, _, third, _ = pieces(4)
    assert said(live.apply_delta(first)) == first["text"]
    assert live.apply_delta(third) == []
    assert said(sent(live, TALK[2:])) == TEXT[len(first["text"]) :]


def test_an_answer_that_was_never_given_is_closed_and_is_no_part_of_the_response() -> None:
    live = log()
    sent(live, TALK[:2])
    live.apply_delta(pieces(4)[0])
    events = logged(*BEGUN, created("c1"), ("run.failed", {"error": {"code": "x", "message": "y"}}))
    rest = sent(live, events[2:])
    assert types(rest) == ["output_text.done", "content_part.done", "output_item.done", "failed"]
    assert live.snapshot.output == []
    assert live.snapshot.error == {"code": "server_error", "message": "x: y"}


def test_what_a_model_takes_back_is_not_shown_twice() -> None:
    live = log()
    seen = sent(live, TALK[:2]) + live.apply_delta({"turn": 1, "text": "Other", "offset": 0})
    assert live.apply_delta({"turn": 1, "text": "Hello", "offset": 0}) == []
    rest = sent(live, TALK[2:])
    assert said(seen + rest) == "Other"
    [done] = [one for one in rest if one.type == "response.output_text.done"]
    assert done.data["text"] == TEXT


THOUGHT: dict[str, Any] = {
    "summary": [{"text": "Hm."}],
    "id": "x",
    "details": [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln"}],
}


def test_reasoning_and_calls_of_the_provider_stand_behind_their_turn_s_message() -> None:
    hosted: dict[str, Any] = {"call_id": "h1", "tool": "web_search", "hosted": "web_search"}
    of = log()
    sent(
        of,
        logged(
            *BEGUN,
            ("reasoning.completed", {"reasoning": THOUGHT}),
            ("tool_call.created", {**hosted, "arguments": {"q": 1}}),
            ("tool_call.completed", {**hosted, "output": "found"}),
            SAID,
            DONE,
        ),
    )
    assert [item["type"] for item in of.snapshot.output] == ["message", "reasoning", "mcp_call"]
    assert of.snapshot.output[1]["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert of.snapshot.output[2]["server_label"] == "web_search"


ENDINGS: list[tuple[Told, str, str | None]] = [
    (("run.cancelled", {}), "cancelled", None),
    (("run.expired", {"incomplete_details": {"reason": "deadline"}}), "incomplete", "deadline"),
    (
        ("run.incomplete", {"output": None, "incomplete_details": {"reason": "guardrail"}}),
        "incomplete",
        "guardrail",
    ),
]


@pytest.mark.parametrize(("event", "status", "reason"), ENDINGS)
def test_how_a_run_ends_is_how_its_response_ends(
    event: Told, status: str, reason: str | None
) -> None:
    of = log()
    last = sent(of, logged(*BEGUN, event))[-1]
    assert last.type == "response.incomplete"
    assert of.snapshot.status == status
    assert (of.snapshot.incomplete or {}).get("code") == reason


def test_an_output_that_no_model_said_is_a_message_too() -> None:
    of = log()
    sent(of, logged(*BEGUN, created("c1"), ended("c1"), ("run.completed", {"output": {"a": 1}})))
    assert of.snapshot.output[-1]["content"][0]["text"] == '{"a":1}'


def test_an_output_too_large_for_an_event_is_a_message_too() -> None:
    """It is read from the run then; the message before it says something else."""
    of, large = log(), "x" * 40_000
    sent(of, logged(*BEGUN, SAID, ("run.completed", {"output": large, "truncated": True})))
    shown = [item["content"][0]["text"] for item in of.snapshot.output if item["type"] == "message"]
    assert shown == [TEXT, large]


def test_calls_that_end_in_different_ways_say_so() -> None:
    of = log()
    calls = [created(f"c{n}") for n in range(3)]
    ends = [ended("c0"), ended("c1", "timed_out"), ended("c2", "rejected")]
    sent(of, logged(*BEGUN, *calls, *ends))
    shown = [(item["status"], item["output"] is None) for item in of.snapshot.output]
    assert shown == [("completed", False), ("failed", True), ("failed", True)]


def test_there_is_room_for_every_number() -> None:
    assert STRIDE * 2**29 <= 2**53
    assert LIVE < STRIDE


def test_a_call_of_the_client_s_shows_nothing_before_it_is_waited_for() -> None:
    of = log()
    begins = [*BEGUN, created("c1", "look", "client"), ("tool_call.started", {"call_id": "c1"})]
    assert types(sent(of, logged(*begins))) == ["created", "in_progress"]
    assert of.snapshot.output == []
