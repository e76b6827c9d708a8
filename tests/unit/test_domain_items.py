"""The conversation's items, and their JSON: what is stored comes back as it was."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runward.domain.ids import CallId
from runward.domain.json import compact, parse
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    Native,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
    item_from_json,
    item_to_json,
    join_text,
    parts_from_json,
)

MAYBE = st.none() | st.text(max_size=5)
MEDIA = st.builds(
    MediaPart, st.sampled_from(["image", "file"]), st.text(max_size=5), MAYBE, MAYBE, MAYBE
)
PARTS: st.SearchStrategy[tuple[Part, ...]] = st.lists(
    st.builds(TextPart, st.text(max_size=5)) | MEDIA, max_size=3
).map(tuple)
OBJECTS = st.dictionaries(
    st.text(max_size=3), st.none() | st.booleans() | st.integers() | st.text(max_size=5)
)
NATIVES = st.none() | st.builds(Native, st.text(max_size=5), OBJECTS)
IDS = st.text(max_size=5).map(CallId)
ITEMS: st.SearchStrategy[Item] = st.one_of(
    st.builds(
        Message,
        st.sampled_from(["user", "assistant", "system"]),
        st.text(max_size=5) | PARTS,
        st.booleans(),
        NATIVES,
    ),
    st.builds(ToolCall, IDS, st.text(max_size=5), OBJECTS.map(compact), MAYBE, NATIVES),
    st.builds(ToolResult, IDS, OBJECTS | st.text(max_size=5), st.booleans(), PARTS),
    st.builds(Reasoning, st.text(max_size=5), OBJECTS),
    st.builds(
        HostedCall,
        st.text(max_size=5),
        st.text(max_size=5),
        st.text(max_size=5),
        st.text(max_size=5),
        OBJECTS,
        OBJECTS | st.text(max_size=5),
        OBJECTS,
        st.booleans(),
    ),
)


@given(ITEMS)
def test_an_item_that_was_stored_comes_back_as_it_was(item: Item) -> None:
    stored = parse(compact(item_to_json(item)))
    assert isinstance(stored, dict)
    assert item_from_json(stored) == item


@pytest.mark.parametrize(
    ("item", "shown"),
    [
        (Message("user", "Hi."), {"type": "message", "role": "user", "content": "Hi."}),
        (
            Message("assistant", "No.", refusal=True),
            {"type": "message", "role": "assistant", "content": "No.", "refusal": True},
        ),
        (
            Message("user", (TextPart("See"), MediaPart("image", url="https://x"))),
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image", "url": "https://x"},
                ],
            },
        ),
        (
            ToolCall(CallId("c"), "pay", '{"a":1}'),
            {"type": "tool_call", "call_id": "c", "name": "pay", "arguments": {"a": 1}},
        ),
        (
            ToolResult(CallId("c"), {"a": 1}, is_error=True),
            {"type": "tool_result", "call_id": "c", "output": {"a": 1}, "is_error": True},
        ),
    ],
)
def test_an_item_is_shown_in_its_documented_form(item: Item, shown: Any) -> None:
    assert item_to_json(item) == shown


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"role": "developer", "content": ""},
        {"role": "user"},
        {"type": "tool_call", "call_id": 1, "name": "a"},
        {"type": "tool_result", "call_id": "c"},
        {"type": "reasoning", "provider": "x", "data": []},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": "user", "content": [{"type": "audio", "url": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        {"role": "user", "content": [{"type": "image"}]},
        {"role": "user", "content": [{"type": "image", "url": None}]},
        {"role": "user", "content": [{"type": "file", "url": "x", "path": "/etc"}]},
    ],
)
def test_what_is_no_item_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r"not a|expected a"):
        item_from_json(data)


def test_no_parts_are_no_parts() -> None:
    assert parts_from_json(None) == parts_from_json([]) == ()


def test_a_null_in_a_part_is_the_same_as_leaving_it_out() -> None:
    given: Any = [{"type": "image", "data": "aGk=", "media_type": "image/png", "url": None}]
    assert parts_from_json(given) == (MediaPart("image", data="aGk=", media_type="image/png"),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("as it is", "as it is"),
        ((TextPart("a"), MediaPart("file", url="u"), TextPart("b")), "ab"),
        ((), ""),
    ],
)
def test_the_text_of_a_content_is_its_text_parts(content: Any, text: str) -> None:
    assert join_text(content) == text


@pytest.mark.parametrize(
    ("output", "text"),
    [("plain", "plain"), ("", ""), (None, "null"), ({"ü": [1, True]}, '{"ü":[1,true]}')],
)
def test_a_model_reads_text_as_it_is_and_anything_else_as_json(output: Any, text: str) -> None:
    assert ToolResult(CallId("c"), output).text == text
