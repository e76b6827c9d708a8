"""Compression of complete responses. Event streams are never compressed."""

import asyncio
import re
import zlib
from typing import Final

from starlette.types import Scope

MIN_BYTES: Final = 1024
"""Minimum size of a compressed response. Smaller responses fit into one packet."""
_THREAD_BYTES: Final = 128 * 1024
"""Minimum size of a response that a thread compresses, so that it does not block the event loop."""
_LEVEL: Final = 5
_GZIP_FORMAT: Final = 31
_WEIGHT: Final = re.compile(r"q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


async def compress(body: bytes) -> bytes:
    """Return the body in the gzip format."""
    if len(body) < _THREAD_BYTES:
        return zlib.compress(body, _LEVEL, _GZIP_FORMAT)
    return await asyncio.to_thread(zlib.compress, body, _LEVEL, _GZIP_FORMAT)


def client_accepts_gzip(scope: Scope) -> bool:
    values = [value for name, value in scope["headers"] if name == b"accept-encoding"]
    return accepts_gzip(b",".join(values).decode("latin-1"))


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether an Accept-Encoding header accepts gzip. False if the header is malformed or
    contradictory."""
    weights = dict[str, list[float]]()
    for given in accept_encoding.split(","):
        coding, _, weight = given.partition(";")
        weight = weight.strip().lower()
        read = _WEIGHT.fullmatch(weight)
        value = 1.0 if not weight else float(weight[2:]) if read else 0.0
        weights.setdefault(coding.strip().lower(), []).append(value)
    of_gzip = [*weights.get("gzip", []), *weights.get("x-gzip", [])] or weights.get("*", [0.0])
    return min(of_gzip) > 0
