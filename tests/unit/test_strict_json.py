"""What a request body may be, and what is said of what it may not be."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from runward.domain import strict_json
from runward.domain.errors import FieldError, InvalidJsonError, InvalidRequestError
from runward.domain.strict_json import MAX_DEPTH, MAX_PROBLEMS

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**300), 10**300)
    | st.floats(-1e308, 1e308, allow_nan=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@given(VALUES, st.booleans())
def test_what_is_sane_comes_through_unchanged(value: object, ascii_only: bool) -> None:  # noqa: FBT001
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert strict_json.parse_body(body) == value


@given(st.binary(max_size=40) | TEXT.map(str.encode))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    try:
        value = strict_json.parse_body(body)
    except (InvalidJsonError, InvalidRequestError):
        return
    assert value == json.loads(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        (b"{", "line 1 column 1"),
        (b'{"a": 1}\n{}', "line 2 column 1"),
        (b"nul", "line 1"),
        (b"01", "invalid number"),
        (b"+1", "expected value"),
        (b".5", "expected value"),
        (b"NaN", "expected value"),
        (b'{"a": Infinity}', "line 1 column 7"),
        (b'\xef\xbb\xbf{"a": 1}', "expected value"),
        ('{"a": 1}'.encode("utf-16"), "expected value"),
        (b'"\xff"', "unicode"),
        (b'"\xed\xa0\x80"', "unicode"),
        (rb'"\ud800"', "hex escape"),
        (rb'"\udc00"', "surrogate"),
        (rb'"\ud800\ud800"', "surrogate"),
        (b'"\x00"', "control character"),
        (b'"\t"', "control character"),
        (b'{"a": 1, "a": 1}', 'duplicate key "a"'),
        (rb'{"a": 1, "\u0061": 1}', 'duplicate key "a"'),
        (b'[{"x": {"a": 1, "b": 2, "a": 3}}]', 'duplicate key "a"'),
        (b"9" * 5000, "number out of range"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(body: bytes, words: str) -> None:
    with pytest.raises(InvalidJsonError) as refused:
        strict_json.parse_body(body)
    assert words in refused.value.detail


def test_a_quoted_key_is_cut() -> None:
    key = b'"' + b"k" * 10_000 + b'"'
    with pytest.raises(InvalidJsonError) as refused:
        strict_json.parse_body(b"{%s: 1, %s: 1}" % (key, key))
    assert len(refused.value.detail) < 300
    assert "column" in refused.value.detail


@pytest.mark.parametrize(
    ("body", "path", "words"),
    [
        (rb'"\u0000"', "", "must not contain the NUL"),
        (rb'{"a": ["", {"b": "x\u0000y"}]}', "a.1.b", "must not contain the NUL"),
        (rb'{"a": {"b\u0000": 1}}', "a", "must not have a key"),
        (b"1e309", "", "must be a number between -1e+308"),
        (b"[-1e999]", "0", "must be a number between"),
        (b'{"a": 1%s}' % (b"0" * 309), "a", "must be a number between"),
        (b'{"a": [-1%s]}' % (b"0" * 309), "a.0", "must be a number between"),
    ],
)
def test_json_that_cannot_be_kept_is_refused_with_its_path(
    body: bytes, path: str, words: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        strict_json.parse_body(body)
    [problem] = refused.value.errors
    assert problem.path == path
    assert words in problem.message


def test_an_escaped_backslash_before_u0000_is_no_nul() -> None:
    assert strict_json.parse_body(rb'["\\u0000", "\\\\u0000"]') == ["\\u0000", "\\\\u0000"]


@pytest.mark.parametrize(("start", "end"), [(b"[", b"]"), (b'{"a":', b"}")])
@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1, 150, 250, 100_000])
def test_nesting_has_its_limit(start: bytes, end: bytes, depth: int) -> None:
    body = start * depth + (b"1" if start == b'{"a":' else b"") + end * depth
    if depth <= MAX_DEPTH:
        strict_json.parse_body(body)
        return
    with pytest.raises(InvalidRequestError) as refused:
        strict_json.parse_body(body)
    assert refused.value.errors[0].message == "must not be nested more than 64 levels deep"


def test_depth_is_not_size() -> None:
    empty: JsonValue = []
    wide: JsonValue = [{"a": [empty]} for _ in range(1000)]
    assert strict_json.parse_body(json.dumps(wide).encode()) == wide


def test_not_every_problem_is_named() -> None:
    with pytest.raises(InvalidRequestError) as refused:
        strict_json.parse_body(b"[" + b"1e999," * 1000 + b"0]")
    assert refused.value.errors[0] == FieldError("0", refused.value.errors[0].message)
    assert len(refused.value.errors) == MAX_PROBLEMS


@pytest.mark.parametrize(
    "below", [b"[" + b"1," * 4000 + b'"\\u0000"]', b'{"b":[' + b"2," * 4000 + b"1e309]}"]
)
def test_a_long_key_is_not_copied_for_each_value_below_it(below: bytes) -> None:
    body = b'{"' + b"k" * 100_000 + b'":' + below + b"}"
    tracemalloc.start()
    try:
        with pytest.raises((InvalidRequestError, InvalidJsonError)):
            strict_json.parse_body(body)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_path_of_long_keys_is_cut() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        strict_json.parse_body(b'{"' + b"k" * 1000 + b'":{"l":"\\u0000"}}')
    assert [error.path for error in caught.value.errors] == ["k" * 200 + "…"]
