"""The connection to OpenAI or a compatible server. Both protocols use it.

The official `openai` SDK provides the address, the headers and the connections (its aiohttp
transport). Requests and responses are not converted to its objects. For a streamed Chat Completion
of 20 words, with 16 requests at a time, the CPU time was 5.5 ms with `chat.completions.create`,
0.60 ms with `client.post` and a raw response, and 0.43 ms with this module. Of the latter, sending
takes 0.28 ms (1.0 ms with httpx2's own transport, 0.21 ms with plain aiohttp). For a slow response
of 500 words, each word takes 118 µs with the SDK's objects, and 8 µs with this module. All values
are medians of one session on a busy machine.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, TypeAlias, cast

from pydantic_core import to_json

from runward.domain.json import JsonObject
from runward.domain.registry.redaction import without_secret
from runward.domain.run.response import ModelResponse
from runward.egress.connections import RefusedAddressError
from runward.llm import failures
from runward.llm.base import ModelError
from runward.llm.failures import MAX_RESPONSE_BYTES
from runward.llm.frames import EventLines
from runward.llm.openai.request_parts import Functions
from runward.llm.sdk_clients import ENCODINGS, LazyModel, limit_body

if TYPE_CHECKING:
    import httpx2

DEFAULT_BASE_URL: Final = "https://api.openai.com/v1"
PLACEHOLDER_KEY: Final = "none"
"""The key that is sent if no key is configured. Local servers require no key."""

CONNECT_SECONDS: Final = 10.0
DRAIN_SECONDS: Final = 0.25
"""Seconds to wait for the end of a finished stream, so that its connection can be reused."""
MAX_ERROR_BYTES: Final = 64 * 1024
PAUSE_BYTES: Final = 64 * 1024
"""Bytes to read from a stream before other tasks of the event loop run."""


TransportFactory: TypeAlias = Callable[[], "httpx2.AsyncBaseTransport"]


class ResponseMerger(Protocol):
    """Merges one response. `feed` takes the data of a stream's events in order, `result` returns
    the response at the end, and `whole` reads a body without a stream. All of them raise
    ModelError."""

    done: bool

    def feed(self, data: bytes) -> None: ...
    def result(self) -> ModelResponse: ...
    def whole(self, body: bytes) -> ModelResponse: ...


@dataclass(frozen=True, slots=True)
class _OpenClient:
    """An open SDK client, and the parts that all of its requests share."""

    http: "httpx2.AsyncClient"
    url: "httpx2.URL"
    headers: dict[str, str]
    network_errors: tuple[type[Exception], ...]
    address_errors: tuple[type[Exception], ...]

    async def aclose(self) -> None:
        await self.http.aclose()


class OpenAIModel(LazyModel[_OpenClient]):
    """A model at one endpoint. `path` is appended to the base URL.

    If `api_key` is None, a placeholder is sent. If `base_url` is None, OpenAI's own URL is used.
    `checked_transport` creates the transport for an address that the operator did not choose. This
    transport connects only to allowed addresses. Raises ValueError for a key with characters that
    are not allowed in a header.
    """

    path: ClassVar[str]

    def __init__(
        self,
        api_key: str | None,
        base_url: str | None = None,
        checked_transport: TransportFactory | None = None,
    ) -> None:
        self._api_key = (api_key or "").strip() or PLACEHOLDER_KEY
        super().__init__(self._api_key)
        self._checked = checked_transport
        self._base_url = base_url or DEFAULT_BASE_URL
        self._functions = Functions(self.function_tool)

    @staticmethod
    @abstractmethod
    def function_tool(definition: JsonObject) -> JsonObject:
        """Return a function's definition as a tool of the protocol."""

    def open_client(self) -> _OpenClient:
        import aiohttp  # noqa: PLC0415
        import httpx2  # noqa: PLC0415
        import openai  # noqa: PLC0415

        timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
        if self._checked is None:
            http: httpx2.AsyncClient = openai.DefaultAioHttpClient(
                timeout=timeout, follow_redirects=False
            )
        else:
            http = httpx2.AsyncClient(transport=self._checked(), timeout=timeout, trust_env=False)
        client = openai.AsyncOpenAI(
            api_key=self._api_key, base_url=self._base_url, max_retries=0, http_client=http
        )
        given = {**client.default_headers, **client.auth_headers}
        base = client.base_url
        return _OpenClient(
            http=http,
            url=base.copy_with(path=base.path + self.path),
            headers={**_headers(given), "Accept-Encoding": ENCODINGS},
            network_errors=(httpx2.RequestError, aiohttp.ClientError, OSError),
            address_errors=(
                httpx2.InvalidURL,
                httpx2.UnsupportedProtocol,
                httpx2.LocalProtocolError,
                RefusedAddressError,
            ),
        )

    async def send(
        self, body: JsonObject, merge: ResponseMerger, *, seconds: float
    ) -> ModelResponse:
        """Send one request. `seconds` limits the time from the first byte to the last. Raises
        ModelError."""
        client = await self.client()
        try:
            async with asyncio.timeout(seconds):
                return await self._send(client, body, merge)
        except TimeoutError:
            raise failures.timed_out(seconds) from None
        except ModelError as error:  # The error is in a stream, or in a body with status 200.
            if self._api_key != PLACEHOLDER_KEY:
                error.message = without_secret(error.message, self._api_key)
                error.args = (error.message,)
            raise

    async def _send(
        self, client: _OpenClient, body: JsonObject, merge: ResponseMerger
    ) -> ModelResponse:
        stream = body.get("stream") is True
        content = to_json(body, inf_nan_mode="null")
        sent = client.http.build_request(
            "POST", client.url, headers=client.headers, content=content
        )
        try:
            response = await client.http.send(sent, stream=True)
        except client.address_errors:
            raise failures.misconfigured() from None
        except client.network_errors:
            raise failures.unreachable() from None
        try:
            if response.status_code >= 300:
                raise await self._refused(client, response)
            await limit_body(response)
            kind = response.headers.get("content-type", "")
            if "event-stream" in kind or (stream and "json" not in kind):
                return await _merge(response, merge)
            return merge.whole(await _read(response, MAX_RESPONSE_BYTES))
        except client.network_errors:
            raise failures.broken_stream() from None
        finally:
            with suppress(*client.network_errors):
                await response.aclose()

    async def _refused(self, client: _OpenClient, response: "httpx2.Response") -> ModelError:
        """Return the error for an HTTP status, even if the body with the explanation does not
        arrive."""
        body = b""
        with suppress(*client.network_errors, ModelError):
            await limit_body(response)
            body = await _read(response, MAX_ERROR_BYTES, cut=True)
        return failures.http_failure(
            response.status_code,
            response.headers,
            body,
            secret="" if self._api_key == PLACEHOLDER_KEY else self._api_key,
        )


async def _merge(response: "httpx2.Response", merge: ResponseMerger) -> ModelResponse:
    """Pass the stream to `merge`. Chunks that have already arrived come without a pause. So this
    function yields to the event loop now and then, so that deadlines are checked and other runs
    continue."""
    lines, size, paused_at = EventLines(), 0, 0
    chunks = _chunks(response)
    async for chunk in chunks:
        size += len(chunk)
        if size > MAX_RESPONSE_BYTES:
            raise failures.too_large()
        for frame in lines.feed(chunk):
            merge.feed(frame)
        if size - paused_at > PAUSE_BYTES:
            paused_at = size
            await asyncio.sleep(0)
        if merge.done:
            await _drain(chunks)
            return merge.result()
    for frame in lines.end():
        merge.feed(frame)
    return merge.result()


def _chunks(response: "httpx2.Response") -> AsyncIterator[bytes]:
    """Return the chunks as they arrive. This bypasses two layers of httpx2, which take a twentieth
    of the CPU time of a token."""
    return aiter(cast("httpx2.AsyncByteStream", response.stream))


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end of a finished stream, so that its connection can be reused. If that fails,
    close the connection."""
    with suppress(Exception):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


async def _read(response: "httpx2.Response", max_bytes: int, *, cut: bool = False) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            if cut:
                break
            raise failures.too_large()
    return bytes(body[:max_bytes])


def _headers(given: Mapping[str, object]) -> dict[str, str]:
    """Return the headers without the SDK's telemetry about this machine, which is half of the
    headers."""
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, str) and not name.lower().startswith("x-stainless-")
    }
