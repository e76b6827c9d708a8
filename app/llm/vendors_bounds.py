"""A bound on the answers that the vendors' libraries read and decompress by themselves."""

import zlib
from collections.abc import AsyncIterator
from typing import Final, cast

import httpx2

from app.llm.failures import MAX_RESPONSE_BYTES, too_large

_GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32


async def bound(response: httpx2.Response) -> None:
    """Replace the body by one that is never larger than MAX_RESPONSE_BYTES, decompressed here."""
    stream = cast(httpx2.AsyncByteStream, response.stream)
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    response.stream = _Bounded(stream, inflates=encoding in ("gzip", "x-gzip", "deflate"))


class _Bounded(httpx2.AsyncByteStream):
    """Raises ModelError once there are too many bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, inflates: bool) -> None:
        self._stream = stream
        self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB) if inflates else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_RESPONSE_BYTES
        async for chunk in self._stream:
            if self._inflating is not None:
                chunk = self._inflating.decompress(chunk, left + 1)  # noqa: PLW2901
            left -= len(chunk)
            if left < 0:
                raise too_large(MAX_RESPONSE_BYTES)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
