"""Compresses answers for clients that take gzip (RFC 9110, section 12.5.3)."""

import re
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send

_WEIGHT: Final = re.compile(r"q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


class CompressionMiddleware(GZipMiddleware):
    """The middleware of the framework compresses wherever the header has the word gzip, also for
    `gzip;q=0`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = ",".join(Headers(scope=scope).getlist("accept-encoding"))
            others = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
            taken = [(b"accept-encoding", b"gzip")] if accepts_gzip(given) else []
            scope = {**scope, "headers": [*others, *taken]}
        await super().__call__(scope, receive, send)


def accepts_gzip(accept_encoding: str) -> bool:
    """By the value of an Accept-Encoding header. False where it is malformed or says both."""
    weights = dict[str, list[float]]()
    for given in accept_encoding.split(","):
        coding, _, weight = given.partition(";")
        weight = weight.strip().lower()
        read = _WEIGHT.fullmatch(weight)
        value = 1.0 if not weight else float(weight[2:]) if read else 0.0
        weights.setdefault(coding.strip().lower(), []).append(value)
    of_gzip = [*weights.get("gzip", []), *weights.get("x-gzip", [])] or weights.get("*", [0.0])
    return min(of_gzip) > 0
