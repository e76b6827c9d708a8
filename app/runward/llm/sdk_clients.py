"""Shared parts of the providers' clients. They decompress responses and limit their size. A client
opens at first use and closes with the last reference to its model."""

import asyncio
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar, cast

import httpx2
import structlog

from runward.llm.failures import MAX_RESPONSE_BYTES, invalid_response, too_large

ENCODINGS: Final = "gzip, deflate"
"""The content codings that requests accept."""
PIECE_BYTES: Final = 65_536
"""Bytes to read from a response before other tasks of the event loop run."""
GZIP_OR_ZLIB: Final = zlib.MAX_WBITS | 32


async def limit_body(response: httpx2.Response) -> None:
    """Replace the body by one that is decompressed here and has at most MAX_RESPONSE_BYTES. Raises
    ModelError for a body that is compressed in another way or more than once, because a few bytes
    of it could block the event loop for a minute."""
    stream = cast(httpx2.AsyncByteStream, response.stream)
    encoding = response.headers.pop("content-encoding", "identity").strip().lower()
    response.stream = _LimitedStream(stream, inflates=is_compressed(encoding))


def is_compressed(encoding: str) -> bool:
    """Return whether a body with this content coding, in lower case, must be decompressed. Raises
    ModelError for a coding that Runward did not request."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        return True
    if encoding in ("", "identity"):
        return False
    raise invalid_response(
        f"the response has the content encoding {encoding[:50]!r}, which Runward did not request"
    )


class _LimitedStream(httpx2.AsyncByteStream):
    """A body that raises ModelError if it is too large."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, inflates: bool) -> None:
        self._stream = stream
        self._inflating = zlib.decompressobj(GZIP_OR_ZLIB) if inflates else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_RESPONSE_BYTES
        async for chunk in self._stream:
            for piece in self._inflated(chunk) if self._inflating is not None else (chunk,):
                left -= len(piece)
                if left < 0:
                    raise too_large()
                yield piece

    def _inflated(self, chunk: bytes) -> Iterator[bytes]:
        """Yield small pieces, so that the reader can pause between them."""
        assert self._inflating is not None
        try:
            while piece := self._inflating.decompress(chunk, PIECE_BYTES):
                yield piece
                chunk = self._inflating.unconsumed_tail
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()


log = structlog.get_logger()

_CLOSING: Final[set[asyncio.Task[None]]] = set()


class _Closable(Protocol):
    async def aclose(self) -> None: ...


ClientT = TypeVar("ClientT", bound=_Closable)


def is_valid_key(key: str) -> bool:
    """Return whether the key can be sent in a header."""
    return key.isascii() and key.isprintable()


class LazyModel(ABC, Generic[ClientT]):
    """A model whose client is opened at first use."""

    def __init__(self, key: str) -> None:
        """Raise ValueError if the key cannot be sent in a header."""
        if not is_valid_key(key):
            raise ValueError(
                "The API key of the model provider contains characters that are not "
                "allowed in a key."
            )
        self._client: ClientT | None = None
        self._opening = asyncio.Lock()

    @abstractmethod
    def open_client(self) -> ClientT:
        """Import the SDK, and return its open client. Called on a thread, because the import takes
        more than a second."""

    async def client(self) -> ClientT:
        """Return the client, which is opened at first use."""
        if self._client is None:
            async with self._opening:
                if self._client is None:
                    client = await asyncio.to_thread(self.open_client)
                    _close_with(self, client.aclose)
                    self._client = client
        return self._client

    async def aclose(self) -> None:
        async with self._opening:
            client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def _close_with(model: object, close: Callable[[], Awaitable[None]]) -> None:
    """Await `close` when no project and no request refers to `model` any more. `close` must not
    refer to `model` either, and may be called more than once."""
    loop = asyncio.get_running_loop()

    def collected() -> None:
        with suppress(RuntimeError):  # The loop is closed, because the process is ending.
            loop.call_soon_threadsafe(_begin, close)

    weakref.finalize(model, collected).atexit = False


def _begin(close: Callable[[], Awaitable[None]]) -> None:
    task = asyncio.create_task(_closed(close))
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)


async def _closed(close: Callable[[], Awaitable[None]]) -> None:
    try:
        await close()
    except Exception:
        log.exception("model_client_not_closed")
