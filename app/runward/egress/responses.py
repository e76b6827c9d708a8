"""How one outbound request can end."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

READ_HEADERS: Final = frozenset(
    {"content-type", "content-encoding", "content-language", "retry-after", "location", "date"}
)
"""The response headers that are kept; anything else may be a secret or a cookie."""

PIECE_BYTES: Final = 4096
"""Inflated at once, so that many small members of a gzip body take linear time."""
MAX_MEMBERS: Final = 4096
MAX_REASON: Final = 300
_QUOTED: Final = re.compile(r"[:.]?\s*(?:bytearray\()?b['\"]|<RawResponseMessage")
"""Where the text of an HTTP library's error begins to repeat the answer."""


class MissingAnswer(StrEnum):
    NOT_SENT = "not_sent"  # surely no byte of the request left
    INCOMPLETE = "incomplete"  # sent, perhaps only in part, and no complete answer came
    TIMEOUT = "timeout"  # the time was up; `sent` says what is known


@dataclass(frozen=True, slots=True)
class EgressResponse:
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

    missing: MissingAnswer
    detail: str
    sent: bool
    permanent: bool = False


EgressOutcome: TypeAlias = EgressResponse | NoAnswer


def describe_error(error: Exception) -> str:
    """Return the error's class and text, without the URL and the parts of the answer that HTTP
    libraries add to it: these may hold secrets."""
    text = str(getattr(error, "message", error))
    text = " ".join(_QUOTED.split(text, maxsplit=1)[0].split())
    return f"{type(error).__name__}: {text}".removesuffix(": ")[:MAX_REASON]


def inflate(body: bytes, encoding: str, limit: int) -> tuple[bytes, bool] | None:
    """Return at most `limit` bytes, and whether there was more. None: the coding is not understood,
    or the body is not what it says it is. Some servers compress although `identity` was asked for.
    A gzip body may have several members (RFC 1952, section 2.2), with zeros behind the last one."""
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    window = zlib.MAX_WBITS | (32 if encoding != "deflate" else 0)
    plain, at = bytearray(), 0
    for _ in range(MAX_MEMBERS if encoding != "deflate" else 1):
        end = _inflate_member(body, at, window, limit, into=plain)
        if len(plain) > limit:
            return bytes(plain[:limit]), True
        if end is None:
            return None
        at = end
        if body[at : at + 1] in (b"", b"\0"):
            is_whole = body.count(0, at) == len(body) - at
            return (bytes(plain), False) if is_whole else None
    return None


def _inflate_member(
    body: bytes, at: int, window: int, limit: int, *, into: bytearray
) -> int | None:
    """Return where the member ends that begins at `at`. None: it is larger than `limit` allows, or
    it is not whole."""
    inflater = zlib.decompressobj(window)
    while not inflater.eof:
        piece = body[at : at + PIECE_BYTES]
        try:
            into += inflater.decompress(piece, limit + 1 - len(into))
        except zlib.error:
            return None
        if not piece or len(into) > limit:
            return None
        at += len(piece) - len(inflater.unused_data)
    return at
