"""What the streams and bodies of model vendors are made of: events, objects, pieces of text."""

import json
from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pydantic_core import from_json

from app.domain.json import cleaned_text
from app.llm.failures import invalid_response

Frame: TypeAlias = Mapping[str, Any]


class EventLines:
    """The `data` of server-sent events, from bytes that were cut anywhere."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the beginning of a line, in pieces
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        lines = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [lines.pop()]
        return self._events(lines)

    def end(self) -> list[bytes]:
        """What a stream holds that ends without its last blank line."""
        return self._events([b"".join(self._rest), b""])

    def _events(self, lines: list[bytes]) -> list[bytes]:
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[5:].strip(b" \r"))
            elif data and line in (b"", b"\r"):
                events.append(b"\n".join(data))
                data.clear()
        return events


def parse_object(data: bytes) -> Frame:
    """A JSON object. Lone surrogates, which from_json refuses, are let through: a server may
    cut an emoji in half between two frames."""
    try:
        value: Any = from_json(data)
    except ValueError:
        try:
            value = json.loads(data)
        except ValueError:
            raise invalid_response("it is not JSON") from None
        except RecursionError:
            raise invalid_response("it is nested too deeply") from None
    if not isinstance(value, dict):
        raise invalid_response("it is not a JSON object")
    return cast(Frame, value)


def joined(pieces: list[str]) -> str:
    """The pieces as one text that can be stored; halves of an emoji find each other."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return cleaned_text(text)


def mapping(value: Any) -> Frame:
    return cast(Frame, value) if isinstance(value, dict) else {}


def count(usage: Frame, name: str) -> int:
    value = usage.get(name)
    return value if isinstance(value, int) and value > 0 else 0
