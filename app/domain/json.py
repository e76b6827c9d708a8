"""The JSON values that cross Runward's edges, and how one is printed, digested and cleaned."""

import hashlib
import math
import re
from typing import Any, Final, TypeAlias

from pydantic import JsonValue
from pydantic_core import from_json, to_json

JsonObject: TypeAlias = dict[str, JsonValue]

_MAYBE_HUGE: Final = re.compile(r"[0-9][eE]\+?[0-9]{3}|[0-9]{309}")
_REPLACEMENT: Final = "\ufffd"


def compact(value: Any) -> str:
    """One line of JSON, keys in the order given, non-ASCII text as it is."""
    return to_json(value, inf_nan_mode="null").decode()


def canonical(value: JsonValue) -> str:
    """The same text for equal values: keys sorted, no spaces. What digests are taken of."""
    return compact(_sorted(value))


def digest(value: JsonValue) -> str:
    """`sha256:` and 64 hexadecimal digits of the canonical form."""
    return "sha256:" + hashlib.sha256(canonical(value).encode()).hexdigest()


def same(one: JsonValue, other: JsonValue) -> bool:
    """Equal as JSON: to Python, `true` is 1 too."""
    return one == other and canonical(one) == canonical(other)


def parse(text: str) -> JsonValue:
    """Parse JSON. Raises ValueError; NaN and Infinity are refused, and what would become one."""
    value: JsonValue = from_json(text, allow_inf_nan=False)
    if _MAYBE_HUGE.search(text) and not _is_finite(value):
        raise ValueError("a number is too large")
    return value


def cleaned(value: JsonValue) -> tuple[JsonValue, bool]:
    """`value` without what PostgreSQL cannot hold (NUL, lone surrogates); whether it changed."""
    clean = _clean(value)
    return clean, clean != value


def cleaned_text(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in text)
    return text


def _is_finite(value: JsonValue) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case list():
            return all(map(_is_finite, value))
        case dict():
            return all(map(_is_finite, value.values()))
        case _:
            return True


def _clean(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return cleaned_text(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {cleaned_text(key): _clean(item) for key, item in value.items()}
        case _:
            return value


def _sorted(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value
