"""Calls like `name(a=1, b="two")` that a person writes in a message for the offline model.

Arguments are keywords. Values are JSON, or text in single quotes. Anything else counts as text.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Never

from runward.domain.json import JsonObject

MAX_ATTEMPTS: Final = 1000
"""Maximum number of occurrences of `name(` in one text that are parsed."""

_NAME: Final = re.compile(r"(?<![\w.-])([A-Za-z][A-Za-z0-9_-]{0,63})\(")
_KEYWORD: Final = re.compile(r"\s*([A-Za-z_][\w-]*)\s*=\s*")
_NEXT: Final = re.compile(r"\s*,\s*")
_END: Final = re.compile(r"\s*(?:,\s*)?\)")
_SINGLE_QUOTED: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(['\\])")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    name: str
    arguments: JsonObject
    start: int
    end: int


def written_calls(text: str) -> list[WrittenCall]:
    """Return the calls in the order of the text, including those of tools that do not exist."""
    found: list[WrittenCall] = []
    at = 0
    for _ in range(MAX_ATTEMPTS):
        name = _NAME.search(text, at)
        if name is None:
            break
        arguments = _arguments(text, name.end())
        if arguments is None:
            at = name.end()
            continue
        values, at = arguments
        found.append(WrittenCall(name[1], values, name.start(), at))
    return found


def only_calls(text: str, calls: list[WrittenCall]) -> bool:
    """Return whether the text consists only of these calls."""
    rest, at = "", 0
    for call in calls:
        rest, at = rest + text[at : call.start], call.end
    return bool(calls) and not (rest + text[at:]).strip(" \t\r\n,;.")


def _arguments(text: str, at: int) -> tuple[JsonObject, int] | None:
    """Return the arguments after the opening bracket, and the position after the closing bracket.
    Returns None if they are not valid."""
    values: JsonObject = {}
    while (end := _END.match(text, at)) is None:
        if values:
            comma = _NEXT.match(text, at)
            if comma is None:
                return None
            at = comma.end()
        keyword = _KEYWORD.match(text, at)
        if keyword is None:
            return None
        try:
            values[keyword[1]], at = _value(text, keyword.end())
        except (ValueError, RecursionError):
            return None
    return values, end.end()


def _value(text: str, at: int) -> tuple[Any, int]:
    quoted = _SINGLE_QUOTED.match(text, at)
    if quoted is not None:
        return _ESCAPE.sub(r"\1", quoted[1]), quoted.end()
    return _DECODER.raw_decode(text, at)


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a JSON value")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        _refuse(digits)
    return value


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
