"""The decisions about requests that need no connection: when to retry, and what a stream says."""

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from runward_client.errors import RunwardError

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

TIMEOUT_SECONDS: Final = 60.0
MAX_RETRIES: Final = 2
MAX_BACKOFF_SECONDS: Final = 8.0
MAX_RETRY_AFTER_SECONDS: Final = 60.0
TEMPORARY: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses after which to retry, unless the header `x-should-retry` is `false`, as in most 409."""
SILENCE_SECONDS: Final = 45.0
"""How long a stream may be silent. The service writes at least every 15 seconds."""
STREAM_PATIENCE: Final = 5
"""Opening a stream is retried this many times as often as another request."""
WAIT_SECONDS: Final = 30
DEFAULT_URL: Final = "http://127.0.0.1:8080"


def read_connection(api_key: str | None, base_url: str | None) -> tuple[str, str]:
    """Return the address and the API key: those given, or those of RUNWARD_URL and RUNWARD_KEY."""
    key = api_key or os.environ.get("RUNWARD_KEY")
    if not key:
        raise RunwardError("No API key. Pass api_key, or set RUNWARD_KEY.")
    return (base_url or os.environ.get("RUNWARD_URL") or DEFAULT_URL).rstrip("/"), key


def get_retry_delay(status: int, headers: Mapping[str, str], attempt: int) -> float | None:
    """Return the seconds after which to retry, or None if the error is final."""
    if status not in TEMPORARY or headers.get("x-should-retry") == "false":
        return None
    try:
        after = float(headers["retry-after"])
    except (KeyError, ValueError):
        return get_backoff(attempt)
    return after if after <= MAX_RETRY_AFTER_SECONDS else None


def get_backoff(attempt: int) -> float:
    """Return a random delay in seconds that doubles with each attempt on average."""
    longest: float = min(0.5 * 2.0 ** min(attempt, 10), MAX_BACKOFF_SECONDS)
    return longest * random.uniform(0.5, 1)  # noqa: S311


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def make_path(template: str, *ids: str) -> str:
    """Return a path with IDs or names in it. Raises RunwardError for one that would lead to another
    path."""
    for one in ids:
        if one in ("", ".", ".."):
            raise RunwardError(f"{one!r} is not an ID.")
    return template.format(*(quote(one, safe="") for one in ids))


@dataclass(frozen=True, slots=True)
class Frame:
    """`id` is None for a frame that is not stored, such as a part of a text."""

    id: str | None
    data: str


@dataclass(slots=True)
class FrameReader:
    """Reads server-sent events piece by piece. A frame that is cut off is dropped."""

    _rest: bytes = b""
    _id: str | None = None
    _data: list[str] = field(default_factory=list[str])

    def feed(self, piece: bytes) -> Iterator[Frame]:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            name, _, value = line.decode().rstrip("\r").partition(":")
            value = value.removeprefix(" ")
            if name == "id":
                self._id = value
            elif name == "data":
                self._data.append(value)
            elif line.strip() == b"":
                if self._data:
                    yield Frame(self._id, "\n".join(self._data))
                self._id, self._data = None, []
