"""How one outbound request can end."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

READ_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "retry-after", "location", "date"}
)
"""The response headers that are kept; anything else may be a secret or a cookie."""


class Missing(StrEnum):
    NOT_SENT = "not_sent"  # surely no byte of the request left
    INCOMPLETE = "incomplete"  # sent, perhaps only in part, and no complete answer came
    TIMEOUT = "timeout"  # the time was up; `sent` says what is known


@dataclass(frozen=True, slots=True)
class Answer:
    """`body`: at most as many bytes as were asked for, inflated; `truncated`: there was more.
    `encoding`: a content coding that could not be undone, so that `body` cannot be read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """`detail` is for operators and holds neither headers nor bodies. `permanent`: the address
    may not be reached, so that trying again cannot help."""

    missing: Missing
    detail: str
    sent: bool
    permanent: bool = False


Outcome: TypeAlias = Answer | NoAnswer


def inflate(body: bytes, encoding: str, limit: int) -> tuple[bytes, bool] | None:
    """At most `limit` bytes, and whether there was more. None: not a coding that is understood,
    or not what it says it is. (It was asked for `identity`; some servers compress regardless.)"""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    window = zlib.MAX_WBITS | (32 if encoding != "deflate" else 0)
    inflater = zlib.decompressobj(window)
    try:
        plain = inflater.decompress(body, limit + 1)
    except zlib.error:
        return None
    if len(plain) <= limit and not inflater.eof:
        return None
    return plain[:limit], len(plain) > limit
