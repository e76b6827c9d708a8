"""JSON values of requests and responses: serialization, digests, and the replacement of parts that
cannot be stored."""

import hashlib
import re
from typing import Any, Final, TypeAlias, cast

from pydantic import ConfigDict, JsonValue
from pydantic.config import with_config
from pydantic_core import from_json, to_json

JsonObject: TypeAlias = dict[str, JsonValue]
documented: Final = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))
"""Configuration of a TypedDict that openapi.json describes. It has no other fields. The text under
a field is its description. A NotRequired field is missing if it has no value."""

MAX_DEPTH: Final = 64
"""Maximum depth of nested arrays and objects."""
MAX_VALUES: Final = 500_000
"""Maximum number of values inside one value from outside. Cleaning so many takes a fifth of a
second."""
MAX_NUMBER: Final = 1e308
"""The largest magnitude of a number. It is slightly below the maximum of a double."""
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")
_LARGE_EXPONENTS: Final = (b"0e000", b"0E000", b"0e+000", b"0E+000")
_MANY_DIGITS: Final = b"0" * 200
_REPLACEMENT: Final = "\ufffd"
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class UnstorableError(ValueError):
    """A value that cannot be stored, or could not be read again. The text contains the reason."""


def compact(value: Any) -> str:
    """Return one line of JSON. Keys keep their order, and non-ASCII text is not escaped."""
    return to_compact_json(value).decode()


def to_compact_json(value: Any) -> bytes:
    """Return one line of JSON in UTF-8."""
    return to_json(value, inf_nan_mode="null")


def as_text(value: JsonValue) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else compact(value)


def canonical(value: JsonValue) -> str:
    """Return the same text for equal values, with sorted keys and no spaces. Digests are computed
    from this text."""
    return compact(_sort_keys(value))


def compute_digest(value: JsonValue) -> str:
    """Return the digest of the canonical form: `sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def is_same_json(one: JsonValue, other: JsonValue) -> bool:
    """Return whether two values are equal as JSON. Python's `==` is not sufficient, because `True
    == 1`."""
    return one == other and canonical(one) == canonical(other)


def parse(text: str, *, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Parse JSON. Raises ValueError, also for NaN, Infinity, numbers beyond `MAX_NUMBER`, and
    nesting deeper than `max_depth`."""
    value: JsonValue = from_json(text, allow_inf_nan=False)
    if text.count("[") + text.count("{") > max_depth and is_nested_deeper(value, max_depth):
        raise ValueError(f"the value is nested more than {max_depth} levels deep")
    if _may_hold_huge_number(text.encode(errors="replace")) and _has_huge_number(value):
        raise ValueError("the value contains a number that is too large")
    return value


def clean_json(value: JsonValue) -> tuple[JsonValue, bool]:
    """Return a storable copy of `value`, and whether it differs. NUL and lone surrogates are
    replaced. NaN, infinities and numbers beyond `MAX_NUMBER` become null. Raises UnstorableError
    for nesting deeper than `MAX_DEPTH` and for more than `MAX_VALUES`."""
    if not isinstance(value, list | dict):
        clean = _clean(value)
        return clean, clean != value
    if has_too_many_values(value):
        raise UnstorableError(f"the value contains more than {MAX_VALUES:,} values")
    if is_nested_deeper(value, MAX_DEPTH):
        raise UnstorableError(f"the value is nested more than {MAX_DEPTH} levels deep")
    clean = _clean(value)
    return clean, clean != value


def is_nested_deeper(value: JsonValue, levels: int) -> bool:
    """Return whether arrays and objects are nested deeper than `levels`, without recursion."""
    level: list[JsonValue] = [[value]]
    for _ in range(levels + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else cast(Any, outer))
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def has_too_many_values(value: JsonValue) -> bool:
    """Return whether `value` contains more than `MAX_VALUES` values. Counting stops at that
    number."""
    level, limit = list[Any]([value]), MAX_VALUES
    while level:
        holders = cast(list[Any], [one for one in level if isinstance(one, dict | list)])
        limit -= sum(map(len, holders))
        if limit < 0:
            return True
        level = [
            inner
            for one in holders
            for inner in (cast(Any, one).values() if isinstance(one, dict) else one)
        ]
    return False


def holds_too_many_values(data: bytes) -> bool:
    """Return whether the JSON contains more than `MAX_VALUES` values. Use this before you parse
    external JSON of several MiB, because a parser blocks the interpreter until it has created all
    values."""
    if count_values(data) <= MAX_VALUES:
        return False
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each member of an object has two texts, and each text has two quotation marks.
    if plain.count(b'"') > 4 * MAX_VALUES:
        return True
    outside = b'"'.join(plain.split(b'"')[::2]).translate(None, b" \t\r\n")
    empty = outside.count(b"[]") + outside.count(b"{}")
    return count_values(outside) - empty > MAX_VALUES


def count_values(data: bytes) -> int:
    """Return an upper bound for the number of values in the JSON. Commas and brackets inside texts
    also count."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def clean_text(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub(_REPLACEMENT, text)
    return text


def may_need_repair(data: bytes, value: JsonValue) -> bool:
    """Return whether the parsed JSON may not be storable: it is nested too deep, or may contain NUL
    or a number out of range. True can be wrong. False is always correct."""
    deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH and is_nested_deeper(value, MAX_DEPTH)
    return deep or b"\\u0000" in data or _may_hold_huge_number(data)


def _may_hold_huge_number(data: bytes) -> bool:
    """Return whether the JSON has so many consecutive digits, or so large an exponent, that a
    number may be out of range. A regular expression would block the interpreter for seconds."""
    plain = data.translate(_DIGITS)
    return _MANY_DIGITS in plain or any(one in plain for one in _LARGE_EXPONENTS)


def is_in_range(number: float) -> bool:
    """Return whether a double holds the number. NaN is not in range."""
    return -MAX_NUMBER <= number <= MAX_NUMBER


def _has_huge_number(value: JsonValue) -> bool:
    match value:
        case float() | int():
            return not is_in_range(value)
        case list():
            return any(map(_has_huge_number, value))
        case dict():
            return any(map(_has_huge_number, value.values()))
        case _:
            return False


def _clean(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return clean_text(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {clean_text(key): _clean(item) for key, item in value.items()}
        case float() | int() if not is_in_range(value):
            return None
        case _:
            return value


def _sort_keys(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sort_keys(value[key]) for key in sorted(value)}
        case list():
            return [_sort_keys(item) for item in value]
        case _:
            return value
