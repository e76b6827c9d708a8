"""Parsers for the streams and bodies of model providers: events, objects and deltas of text."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

from pydantic_core import from_json

from runward.domain.json import MAX_VALUES, clean_text, count_values
from runward.domain.run.bounds import bounded_count
from runward.domain.run.response import Usage
from runward.llm.failures import TOO_MANY_VALUES, invalid_response, too_large

Frame: TypeAlias = Mapping[str, Any]

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbfdata:"
_HALVES: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class EventLines:
    """Extracts the `data` of server-sent events from bytes that may be split at any position."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # The beginning of a line, in pieces.
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        lines = (b"".join((*self._rest, chunk)) if self._rest else chunk).split(b"\n")
        self._rest.clear()
        if rest := lines.pop():
            self._rest.append(rest)
        return self._events(lines)

    def end(self) -> list[bytes]:
        """Return the remaining events of a stream that ended without a blank line."""
        return self._events([b"".join(self._rest), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip(b" \r"))
            elif data and line in (b"", b"\r"):
                if event := b"\n".join(data):  # others are only sent to keep the connection open
                    events.append(event)
                data.clear()
            elif line.startswith(_BYTE_ORDER_MARK):  # only at the beginning
                data.append(line[len(_BYTE_ORDER_MARK) :].strip(b" \r"))
        return events


def parse_object(data: bytes) -> Frame:
    """Return a JSON object. Lone surrogates are accepted, because a server may split an emoji
    between two frames, and `from_json` rejects them. An object with too many values is rejected
    before it is parsed, because parsing would block the interpreter for seconds. Raises
    ModelError."""
    if len(data) > MAX_VALUES and count_values(data) > MAX_VALUES:
        raise too_large(TOO_MANY_VALUES)
    try:
        value: Any = from_json(data)
    except ValueError:
        try:
            value = json.loads(data)
        except ValueError:
            raise invalid_response("the data is not JSON") from None
        except RecursionError:
            raise invalid_response("the data is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid_response("the data is not a JSON object")
    return cast(Frame, value)


def join_text(pieces: list[str]) -> str:
    """Return the deltas as one text that can be stored. Halves of a surrogate pair in two deltas
    are combined."""
    return clean_text(_HALVES.sub(_emoji, "".join(pieces)))


def _emoji(halves: re.Match[str]) -> str:
    return halves[0].encode("utf-16", "surrogatepass").decode("utf-16")


def as_mapping(value: Any) -> Frame:
    return cast(Frame, value) if isinstance(value, dict) else {}


def read_usage(usage: Frame, read: str, written: str) -> Usage:
    """Return the usage in a frame. `read` and `written`: the prefixes of the field names. xAI and
    Google count reasoning only in the total. DeepSeek and Moonshot have their own fields for cached
    tokens."""
    cached = as_mapping(usage.get(f"{read}_tokens_details")).get("cached_tokens")
    reasoning = as_mapping(usage.get(f"{written}_tokens_details")).get("reasoning_tokens")
    tokens = bounded_count(usage.get(f"{read}_tokens"))
    beyond = bounded_count(usage.get("total_tokens")) - tokens
    return Usage(
        input=tokens,
        output=max(bounded_count(usage.get(f"{written}_tokens")), beyond),
        cached_input=bounded_count(
            cached or usage.get("prompt_cache_hit_tokens") or usage.get("cached_tokens")
        ),
        reasoning=bounded_count(reasoning),
    )
