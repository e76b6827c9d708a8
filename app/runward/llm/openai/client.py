"""Requests to OpenAI or a compatible server. Both protocols use it.

A response is read while its bytes arrive (`runward.egress.exchange`). Its events become no objects
of an SDK. docs/decisions/openai-sdk.md contains the reasons and the measurements.
"""

import asyncio
import zlib
from abc import abstractmethod
from typing import ClassVar, Final, Protocol

from pydantic_core import to_json

from runward.domain.json import JsonObject
from runward.domain.registry.redaction import without_secret
from runward.domain.run.response import ModelResponse
from runward.egress.connections import RefusedAddressError
from runward.egress.exchange import HeaderFields, read_fields
from runward.egress.pool import OpenConnection
from runward.egress.responses import inflate
from runward.llm import failures
from runward.llm.base import ModelError
from runward.llm.failures import MAX_RESPONSE_BYTES
from runward.llm.frames import EventLines
from runward.llm.openai.endpoint import Endpoint
from runward.llm.openai.request_parts import Functions
from runward.llm.sdk_clients import GZIP_OR_ZLIB, PIECE_BYTES, LazyModel, is_compressed

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
PLACEHOLDER_KEY: Final = "none"
"""The key that is sent if no key is configured. Local servers require no key."""

MAX_ERROR_BYTES: Final = 64 * 1024
READ_HEADERS: Final = frozenset(
    (
        *(b"content-type", b"content-encoding", b"date"),
        *(b"retry-after", b"retry-after-ms", b"x-should-retry"),
    )
)


class ResponseMerger(Protocol):
    """Merges one response. `feed` takes the data of a stream's events in order, `result` returns
    the response at the end, and `whole` reads a body without a stream. All of them raise
    ModelError."""

    done: bool

    def feed(self, data: bytes) -> None: ...
    def result(self) -> ModelResponse: ...
    def whole(self, body: bytes) -> ModelResponse: ...


class OpenAIModel(LazyModel[Endpoint]):
    """A model at one endpoint. `path` is appended to the base URL.

    If `api_key` is None, a placeholder is sent. If `base_url` is None, OpenAI's own URL is used.
    `connect` connects to an address that the operator did not choose. Raises ValueError for a key
    with characters that are not allowed in a header.
    """

    path: ClassVar[str]

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        connect: OpenConnection | None = None,
    ) -> None:
        self._api_key = (api_key or "").strip() or PLACEHOLDER_KEY
        super().__init__(self._api_key)
        self._connect = connect
        self._base_url = base_url or DEFAULT_BASE_URL
        self._functions = Functions(self.function_tool)

    @staticmethod
    @abstractmethod
    def function_tool(definition: JsonObject) -> JsonObject:
        """Return a function's definition as a tool of the protocol."""

    def open_client(self) -> Endpoint:
        """Return the open endpoint. Importing the SDK takes 0.3 s, and reading the trusted
        certificates 30 ms."""
        return Endpoint.open(self._base_url, self.path, self._api_key, self._connect)

    async def send(
        self, body: JsonObject, merge: ResponseMerger, *, seconds: float
    ) -> ModelResponse:
        """Send one request. `seconds` limits the time from the first byte to the last. Raises
        ModelError."""
        endpoint = await self.client()
        reader = _Reader(merge, streams=body.get("stream") is True)
        try:
            await _post(endpoint, to_json(body, inf_nan_mode="null"), reader, seconds)
            if reader.status < 300:
                return reader.result()
        except ModelError as error:  # A stream, or a body with status 200, may quote the key.
            error.message = without_secret(error.message, self._secret)
            error.args = (error.message,)
            raise
        raise failures.http_failure(
            reader.status, reader.headers, reader.explanation(), secret=self._secret
        )

    @property
    def _secret(self) -> str:
        return "" if self._api_key == PLACEHOLDER_KEY else self._api_key


async def _post(endpoint: Endpoint, content: bytes, reader: "_Reader", seconds: float) -> None:
    """Send a request. Returns when `reader` has the response, or a status that is an error. Raises
    ModelError."""
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            await endpoint.post(content, reader)
    except RefusedAddressError:
        raise failures.misconfigured() from None
    except OSError:  # TimeoutError is one of them.
        if timer.expired():
            raise failures.timed_out(seconds) from None
        if not reader.status:
            raise failures.unreachable() from None
        if reader.status < 300:
            raise failures.broken_stream() from None
    except _EnoughError:
        pass


class _EnoughError(Exception):
    """Raised to end the response with an explanation of an error that is too long."""


class _Reader:
    """Reads one response. A stream is merged while it arrives, in pieces of at most PIECE_BYTES, so
    that deadlines are checked and other runs continue."""

    def __init__(self, merge: ResponseMerger, *, streams: bool) -> None:
        self.sent = False
        self.done = False
        self.status = 0
        self.headers: dict[str, str] = {}
        self._merge = merge
        self._streams = streams
        self._lines: EventLines | None = None
        self._pieces = _Pieces(inflates=False)
        self._body = bytearray()
        self._size = 0

    def begin(self, status: int, fields: HeaderFields) -> None:
        self.status = status
        self.headers = read_fields(fields, READ_HEADERS)
        if status >= 300:
            return
        inflates = is_compressed(self._encoding)
        kind = self.headers.get("content-type", "")
        if "event-stream" in kind or (self._streams and "json" not in kind):
            self._lines = EventLines()
            self._pieces = _Pieces(inflates=inflates)

    def feed(self, data: bytes) -> bool:
        if self._lines is None:
            self._body += data
            if self.status >= 300 and len(self._body) > MAX_ERROR_BYTES:
                raise _EnoughError
            if len(self._body) > MAX_RESPONSE_BYTES:
                raise failures.too_large()
        elif not self.done:
            piece = self._pieces.take(data)
            self._size += len(piece)
            if self._size > MAX_RESPONSE_BYTES:
                raise failures.too_large()
            for frame in self._lines.feed(piece):
                self._merge.feed(frame)
            self.done = self._merge.done
            return len(piece) == PIECE_BYTES and not self.done
        return False

    def result(self) -> ModelResponse:
        """Return the complete response. Raises ModelError."""
        if self._lines is None:
            body, is_longer = self._inflated(MAX_RESPONSE_BYTES)
            if is_longer:
                raise failures.too_large()
            if body is None:
                raise failures.broken_stream()
            return self._merge.whole(body)
        if not self.done:
            for frame in self._lines.end():
                self._merge.feed(frame)
        return self._merge.result()

    def explanation(self) -> bytes:
        """Return the body with the explanation of an error, as far as it can be read."""
        return self._inflated(MAX_ERROR_BYTES)[0] or b""

    @property
    def _encoding(self) -> str:
        return self.headers.get("content-encoding", "identity").strip().lower()

    def _inflated(self, limit: int) -> tuple[bytes | None, bool]:
        """Return at most `limit` bytes of the body, or None if it cannot be decompressed, and
        whether there are more."""
        if self._encoding in ("", "identity"):
            return bytes(self._body[:limit]), len(self._body) > limit
        return inflate(bytes(self._body), self._encoding, limit) or (None, False)


class _Pieces:
    """Cuts a stream into pieces of at most PIECE_BYTES. If `inflates`, it decompresses them."""

    def __init__(self, *, inflates: bool) -> None:
        self._inflater = zlib.decompressobj(GZIP_OR_ZLIB) if inflates else None
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Return the next piece. If it is shorter than PIECE_BYTES, nothing follows it. Raises
        ModelError."""
        data = self._rest + data if self._rest else data
        if self._inflater is None:
            piece, self._rest = data[:PIECE_BYTES], data[PIECE_BYTES:]
        elif self._inflater.eof:
            piece, self._rest = b"", b""
        else:
            try:
                piece = self._inflater.decompress(data, PIECE_BYTES)
            except zlib.error:
                raise failures.broken_stream() from None
            self._rest = self._inflater.unconsumed_tail
        return piece
