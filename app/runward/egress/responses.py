"""The outcomes of an outbound request."""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

READ_HEADERS: Final = frozenset(
    (
        b"content-type",
        b"content-encoding",
        b"content-language",
        b"retry-after",
        b"location",
        b"date",
    )
)
"""Names of the response headers that are kept. Other headers may contain secrets or cookies."""

PIECE_BYTES: Final = 4096
"""Number of bytes that are decompressed at once, so that many small members of a gzip body take
linear time."""
MAX_MEMBERS: Final = 4096
MAX_REASON: Final = 300
_QUOTED: Final = re.compile(r"[:.]?\s*(?:bytearray\()?b['\"]|<RawResponseMessage")
"""Matches the position where an error of an HTTP library begins to quote the response."""


class MissingAnswer(StrEnum):
    NOT_SENT = "not_sent"  # no byte of the request was sent
    INCOMPLETE = "incomplete"  # sent, perhaps in part, and no complete response arrived
    TIMEOUT = "timeout"  # `sent` tells whether bytes may have been sent


@dataclass(frozen=True, slots=True)
class EgressResponse:
    """A response. `body`: at most the requested number of bytes, decompressed. `truncated`: whether
    the body was longer. `encoding`: a content coding that Runward could not decode. If it is set,
    `body` is not readable."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    truncated: bool = False
    encoding: str | None = None


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The outcome of a request without a response. `detail` is for operators and contains no
    headers or bodies. `permanent`: Runward must not call the address, so a retry cannot succeed."""

    missing: MissingAnswer
    detail: str
    sent: bool
    permanent: bool = False


EgressOutcome: TypeAlias = EgressResponse | NoAnswer


def describe_error(error: Exception) -> str:
    """Return the type and the text of an error. The URL and the parts of the response that HTTP
    libraries add are removed, because they may contain secrets."""
    text = str(getattr(error, "message", error))
    text = " ".join(_QUOTED.split(text, maxsplit=1)[0].split())
    return f"{type(error).__name__}: {text}".removesuffix(": ")[:MAX_REASON]


def inflate(body: bytes, encoding: str, limit: int) -> tuple[bytes, bool] | None:
    """Return at most `limit` decoded bytes, and whether there are more. Returns None if the content
    coding is unknown or the body is not valid. Some servers compress the body although the request
    asks for `identity`. A gzip body may have several members (RFC 1952, section 2.2), with zeros
    after the last one."""
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
    """Return the end of the member that begins at `at`, after adding its content to `into`. Returns
    None if the member is invalid, incomplete or larger than `limit` allows."""
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
