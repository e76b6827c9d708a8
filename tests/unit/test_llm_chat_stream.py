"""Frames of a stream, cut and ordered in every way, become one response."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runward.domain.run.response import ModelResponse, Usage
from runward.llm.base import ArgumentsDelta, ModelDelta, ModelError, ReasoningDelta, TextDelta
from runward.llm.failures import MAX_CALLS
from runward.llm.frames import EventLines
from runward.llm.openai.chat.response import ChatMerge

USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def frame(delta: dict[str, Any], finish: str | None = None, **beside: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"choices": [choice], **beside}).encode()


def piece(
    index: int | None, call_id: str | None = None, name: str | None = None, arguments: Any = ""
) -> dict[str, Any]:
    entry: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        entry["index"] = index
    if call_id is not None:
        entry |= {"id": call_id, "type": "function"}
    if name is not None:
        entry["function"]["name"] = name
    return {"tool_calls": [entry]}


def merged(*frames: bytes, deltas: list[ModelDelta] | None = None) -> ModelResponse:
    merge = ChatMerge((deltas if deltas is not None else []).append)
    for data in frames:
        merge.feed(data)
    return merge.result()


def calls_of(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> list[tuple[str, ...]]:
    response = merged(*(frame(p) for p in pieces), frame({}, finish), b"[DONE]")
    return [(c.call_id, c.name, c.arguments) for c in response.calls]


def test_text_comes_as_deltas_and_as_a_whole() -> None:
    deltas: list[ModelDelta] = []
    response = merged(
        frame({"role": "assistant", "content": ""}),
        frame({"content": "Hel"}),
        frame({"content": "lo"}),
        frame({}, "stop"),
        json.dumps({"choices": [], "usage": USAGE}).encode(),
        b"[DONE]",
        deltas=deltas,
    )
    assert response == ModelResponse.of("Hello", usage=Usage(9, 4, 3, 2))
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]


def test_arguments_come_as_deltas_with_their_call() -> None:
    deltas: list[ModelDelta] = []
    merged(
        frame(piece(0, "c1", "a")),
        frame(piece(0, arguments='{"x"')),
        frame(piece(1, "c2", "b", "{}")),
        frame({}, "tool_calls"),
        deltas=deltas,
    )
    assert deltas == [
        ArgumentsDelta(0, "c1", "a", ""),
        ArgumentsDelta(0, "c1", "a", '{"x"'),
        ArgumentsDelta(1, "c2", "b", "{}"),
    ]


def test_two_calls_under_one_index_are_split_by_id() -> None:
    assert calls_of(
        piece(0, "c1", "a"),
        piece(0, arguments='{"x":'),
        piece(0, arguments="1}"),
        piece(0, "c2", "a", '{"x":'),
        piece(0, arguments="2}"),
    ) == [("c1", "a", '{"x":1}'), ("c2", "a", '{"x":2}')]


def test_interleaved_pieces_find_their_call() -> None:
    assert calls_of(
        piece(0, "c1", "a"),
        piece(1, "c2", "b"),
        piece(0, arguments='{"x":'),
        piece(1, arguments="{"),
        piece(0, arguments="1}"),
        piece(1, arguments="}"),
    ) == [("c1", "a", '{"x":1}'), ("c2", "b", "{}")]


def test_an_id_and_a_name_repeated_in_every_piece_are_one_call() -> None:
    assert calls_of(
        piece(0, "c1", "look", '{"a'), piece(0, "c1", "look", 'b":'), piece(0, "c1", "look", "1}")
    ) == [("c1", "look", '{"ab":1}')]


def test_a_name_in_pieces_is_put_together() -> None:
    assert calls_of(piece(0, "c1", "get_"), piece(0, name="time"), piece(0, arguments="{}")) == [
        ("c1", "get_time", "{}")
    ]


def test_whole_calls_under_one_index_without_ids_stay_apart() -> None:
    assert calls_of(piece(0, "", "a", "{}"), piece(0, "", "a", "{}"), piece(0, "", "b", "{}")) == [
        ("", "a", "{}"),
        ("", "a", "{}"),
        ("", "b", "{}"),
    ]


def test_a_call_repeated_under_one_id_and_index_is_two_calls() -> None:
    assert calls_of(piece(0, "c1", "a", '{"x":1}'), piece(0, "c1", "a", '{"x":2}')) == [
        ("c1", "a", '{"x":1}'),
        ("c1", "a", '{"x":2}'),
    ]


def test_without_an_index_ids_tell_calls_apart() -> None:
    assert calls_of(
        piece(None, "c1", "a", "{}"), piece(None, "c2", "a", "{"), piece(None, arguments="}")
    ) == [("c1", "a", "{}"), ("c2", "a", "{}")]


def test_arguments_that_are_an_object_or_missing_are_taken() -> None:
    assert calls_of(piece(0, "c1", "a", {"x": 1}), piece(1, "c2", "b", None)) == [
        ("c1", "a", '{"x":1}'),
        ("c2", "b", ""),
    ]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "whatever", None])
def test_the_finish_reason_does_not_decide_whether_there_are_calls(finish: str | None) -> None:
    assert calls_of(piece(0, "c1", "a", "{}"), finish=finish) == [("c1", "a", "{}")]
    assert merged(frame({"content": "x"}), frame({}, finish), b"[DONE]").calls == ()


@pytest.mark.parametrize(
    ("given_finish", "with_calls", "finish"),
    [
        ("stop", True, "tool_calls"),
        ("tool_calls", False, "stop"),
        ("length", False, "length"),
        ("length", True, "length"),
        ("content_filter", False, "content_filter"),
        ("eos", False, "stop"),
    ],
)
def test_finish_is_normalised(given_finish: str, finish: str, *, with_calls: bool) -> None:
    delta = piece(0, "c1", "a", "{}") if with_calls else {"content": "x"}
    assert merged(frame(delta), frame({}, given_finish)).finish == finish


@pytest.mark.parametrize("arguments", ['{"x":1}', '{"x":', ""])
@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_response_that_was_cut_off_marks_its_last_call(arguments: str, finish: str) -> None:
    response = merged(
        frame(piece(0, "c1", "a", "{}")), frame(piece(1, "c2", "a", arguments)), frame({}, finish)
    )
    assert [c.truncated for c in response.calls] == [False, True]


@pytest.mark.parametrize(
    ("arguments", "truncated"), [('{"x":', True), ("{}", False), ("", False), ("[1]", True)]
)
def test_an_end_without_a_finish_reason_marks_a_call_that_is_not_whole(
    arguments: str, *, truncated: bool
) -> None:
    (call,) = merged(frame(piece(0, "c1", "a", arguments)), b"[DONE]").calls
    assert call.truncated is truncated


@pytest.mark.parametrize("frames", [(), (frame({"content": "x"}),), (frame(piece(0, "c", "a")),)])
def test_a_stream_that_just_ends_is_broken(frames: tuple[bytes, ...]) -> None:
    with pytest.raises(ModelError) as failure:
        merged(*frames)
    assert (failure.value.code, failure.value.transient) == ("model_stream_broken", True)


def test_a_refusal_is_kept_apart_from_the_text() -> None:
    response = merged(frame({"refusal": "I "}), frame({"refusal": "won't"}), frame({}, "stop"))
    assert (response.refusal, response.text) == ("I won't", "")


def test_reasoning_is_kept_whole() -> None:
    response = merged(
        frame({"reasoning_content": "hm "}), frame({"reasoning": "yes"}), frame({}, "stop")
    )
    assert [r.data for r in response.reasoning] == [
        {"text": "hm yes", "field": "reasoning_content"}
    ]


def test_text_in_parts_is_text() -> None:
    content = [{"type": "text", "text": "a"}, {"type": "thinking"}, {"type": "text", "text": "b"}]
    assert merged(frame({"content": content}), frame({}, "stop")).text == "ab"


def test_an_emoji_cut_in_half_is_whole_again_and_what_cannot_be_stored_is_replaced() -> None:
    halves = (rb'{"choices":[{"delta":{"content":"\ud83d"}}]}', frame({"content": "X"}))
    emoji = (halves[0], rb'{"choices":[{"delta":{"content":"\ude00\u0000"}}]}')
    assert merged(*emoji, frame({}, "stop")).text == "\U0001f600\ufffd"
    deltas: list[ModelDelta] = []
    assert merged(*halves, frame({}, "stop"), deltas=deltas).text == "\ufffdX"
    assert deltas == [TextDelta("\ufffd"), TextDelta("X")]


@pytest.mark.parametrize(
    "data", [b"{not json", b"[1]", b'"text"', b"", b"\xff\xfe", b"[" * 100_000]
)
def test_a_frame_that_is_no_object_is_a_transient_failure(data: bytes) -> None:
    with pytest.raises(ModelError) as failure:
        merged(data)
    assert (failure.value.code, failure.value.transient) == ("model_invalid_response", True)


@pytest.mark.parametrize(
    ("error", "transient", "status"),
    [
        ({"message": "busy", "type": "server_error"}, True, None),
        ({"message": "bad", "type": "invalid_request_error"}, False, None),
        ({"message": "slow", "code": 429}, True, 429),
        ({"message": "no", "code": 403}, False, 403),
        ("plain", True, None),
    ],
)
def test_an_error_inside_the_stream_is_reported(
    error: Any, status: int | None, *, transient: bool
) -> None:
    with pytest.raises(ModelError) as failure:
        merged(frame({"content": "x"}), json.dumps({"error": error}).encode())
    assert (failure.value.transient, failure.value.status) == (transient, status)


def test_odd_shapes_are_ignored() -> None:
    odd: list[Any] = [
        {},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"tool_calls": {"a": 1}, "content": 7}}]},
        {"choices": [{"delta": {}, "finish_reason": 3}], "usage": {"prompt_tokens": "many"}},
    ]
    frames = [json.dumps(value).encode() for value in odd]
    assert merged(*frames, b"[DONE]") == ModelResponse.of("")


def test_a_whole_body_is_the_same_response() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "a", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call, call]}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": USAGE}
    deltas: list[ModelDelta] = []
    response = ChatMerge(deltas.append).whole(json.dumps(body).encode())
    assert [(c.call_id, c.arguments) for c in response.calls] == [("c1", "{}"), ("c1", "{}")]
    assert response.finish == "tool_calls"
    assert response.usage == Usage(9, 4, 3, 2)
    with pytest.raises(ModelError, match="has no `choices`"):
        ChatMerge(deltas.append).whole(b"{}")


STREAM: list[bytes] = [
    frame({"role": "assistant", "content": ""}),
    frame({"content": "Grüße, \U0001f600"}),
    frame({"content": "!\n\ndata: x"}),
    frame(piece(0, "c1", "a", '{"x":"\\n')),
    frame(piece(0, arguments='é"}')),
    frame(piece(0, "c2", "b", "{}")),
    frame({}, "tool_calls"),
    json.dumps({"choices": [], "usage": USAGE}).encode(),
    b"[DONE]",
]


@settings(deadline=None)
@given(
    cuts=st.lists(st.integers(0, 2000), max_size=30),
    newline=st.sampled_from([b"\n", b"\r\n"]),
    space=st.sampled_from([b"", b" "]),
    blank_at_the_end=st.booleans(),
)
def test_any_chunking_of_a_stream_gives_the_same_response(
    cuts: list[int], newline: bytes, space: bytes, *, blank_at_the_end: bool
) -> None:
    wire = b": waiting" + newline + newline
    for data in STREAM:
        wire += b"event: chunk" + newline + b"data:" + space + data + newline + newline
    if not blank_at_the_end:
        wire = wire.removesuffix(newline).removesuffix(newline)
    merge, lines = ChatMerge(lambda _: None), EventLines()
    edges = [0, *sorted(min(cut, len(wire)) for cut in cuts), len(wire)]
    for start, end in pairwise(edges):
        for data in lines.feed(wire[start:end]):
            merge.feed(data)
    for data in lines.end():
        merge.feed(data)
    assert merge.result() == merged(*STREAM)
    assert merge.done


def test_data_over_several_lines_is_one_event() -> None:
    assert EventLines().feed(b'data: {"a":\ndata: 1}\n\n') == [b'{"a":\n1}']


def test_more_calls_than_a_response_may_have_are_refused_while_they_are_read() -> None:
    merge, fed = ChatMerge(lambda _: None), 0
    with pytest.raises(ModelError) as refused:
        for fed in range(10 * MAX_CALLS):
            merge.feed(frame(piece(fed, f"c{fed}", "add", "{}")))
    assert fed == MAX_CALLS
    assert (refused.value.code, refused.value.transient) == ("model_response_too_large", False)
    assert "more than 256 tool calls" in refused.value.message


def test_pieces_that_all_name_their_call_are_one_call_however_they_are_cut() -> None:
    arguments = '{"a": "}{\\\\\\"", "b": [{}, "\\\\"]}'
    pieces = [piece(0, "c1", "add", char) for char in arguments]
    assert calls_of(*pieces) == [("c1", "add", arguments)]
    both = [*pieces, piece(0, "c1", "add", '{"a": 1}')]
    assert calls_of(*both) == [("c1", "add", arguments), ("c1", "add", '{"a": 1}')]


def test_a_name_has_an_end() -> None:
    [(_, name, _)] = calls_of(*(piece(0, "c1", f"name_{at}_") for at in range(1000)))
    assert len(name) == 1024


def test_an_index_that_is_no_number_is_none() -> None:
    entry: Any = {"index": [], "id": "c1", "function": {"name": "add", "arguments": "{}"}}
    assert calls_of({"tool_calls": [entry]}) == [("c1", "add", "{}")]


def test_only_the_first_choice_counts() -> None:
    def choices(*pairs: tuple[int | None, str], finish: str | None = None) -> bytes:
        listed = [
            {"index": at, "delta": {"content": text}, "finish_reason": finish} for at, text in pairs
        ]
        return json.dumps({"choices": listed}).encode()

    frames = [
        choices((0, "Hel")),
        choices((1, "Bye")),
        choices((1, " now"), (0, "lo")),
        choices((None, "!")),
        choices((1, ""), finish="length"),
        choices((0, ""), finish="stop"),
    ]
    response = merged(*frames, b"[DONE]")
    assert (response.text, response.finish) == ("Hello!", "stop")
    both = {
        "choices": [
            {"index": 1, "message": {"content": "Bye"}, "finish_reason": "length"},
            {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"},
        ]
    }
    whole = ChatMerge(lambda _: None).whole(json.dumps(both).encode())
    assert (whole.text, whole.finish) == ("Hello", "stop")


def test_thoughts_among_the_parts_of_the_content_are_reasoning() -> None:
    """Mistral's models that think answer so."""

    def thinking(*texts: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": one} for one in texts]}

    deltas: list[ModelDelta] = []
    response = merged(
        frame({"content": [thinking("Hm", ", ")]}),
        frame({"content": [{"type": "thinking", "thinking": "well."}]}),
        frame({"content": [{"type": "text", "text": "Hel"}]}),
        frame({"content": "lo"}, "stop"),
        b"[DONE]",
        deltas=deltas,
    )
    assert response.text == "Hello"
    assert [one.data for one in response.reasoning] == [{"text": "Hm, well."}]
    assert deltas == [
        ReasoningDelta("Hm, "),
        ReasoningDelta("well."),
        TextDelta("Hel"),
        TextDelta("lo"),
    ]
    message = {"content": [thinking("Hm."), {"type": "text", "text": "Hello"}]}
    body = {"choices": [{"message": message, "finish_reason": "stop"}]}
    whole = ChatMerge(lambda _: None).whole(json.dumps(body).encode())
    assert (whole.text, whole.reasoning[0].data) == ("Hello", {"text": "Hm."})
