"""The HTTP transport for MCP servers. It sends requests through the egress, and turns every failure
into a response.

The SDK's transport ends the whole session, and all calls in it, with the first network error. This
one answers with a JSON-RPC error instead. The error code is specific to Runward. It shows whether
the request was sent, and with which status the server rejected it."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import httpx2
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from runward.domain.json import MAX_VALUES, holds_too_many_values
from runward.domain.registry.mcp_servers import MAX_TOOLS
from runward.egress.connections import RefusedAddressError
from runward.egress.responses import describe_error

NOT_SENT: Final = -31_001
CONNECTION_LOST: Final = -31_002
ERROR_STATUS: Final = -31_003
UNREADABLE: Final = -31_004
"""Runward's own codes. JSON-RPC reserves only codes up to -32000."""

MAX_MESSAGE_BYTES: Final = 11 * 1_048_576
"""Bytes of one response: the largest output of a tool, and the message around it."""
MAX_LIST_BYTES: Final = 8_192 * MAX_TOOLS
MAX_LIST_OBJECTS: Final = 64 * MAX_TOOLS
TOO_MANY_VALUES: Final = f"a message with more than {MAX_VALUES:,} values"
TOO_LARGE: Final = f"the response has more than {MAX_MESSAGE_BYTES} bytes or {MAX_VALUES:,} values"
COMPRESSED: Final = "the response is compressed, although the request did not allow it"
_DROPPED: Final = frozenset({"set-cookie", "location", "content-length", "transfer-encoding"})


class NotAuthorizedError(Exception):
    """The request was not authorized: no access token could be fetched, or a new one was refused.
    `permanent`: a retry cannot help."""

    def __init__(self, detail: str, *, permanent: bool = False) -> None:
        super().__init__(detail)
        self.permanent = permanent


class LongListError(httpx2.SSEError):
    """A list of tools exceeds a limit while it is read. For an `SSEError`, the SDK ends only the
    request and not the session."""


class ListMeter:
    """Limits a response with a list of tools by its bytes and by the number of objects in it,
    because parsing a list of 60,000 tools takes seconds."""

    def __init__(self) -> None:
        self._bytes = 0
        self._objects = 0

    def add(self, chunk: bytes) -> None:
        """Count a chunk. Raises LongListError."""
        self._bytes += len(chunk)
        self._objects += chunk.count(b"{")
        if self._bytes > MAX_LIST_BYTES or self._objects > MAX_LIST_OBJECTS:
            raise LongListError(
                f"the server's list has more than {MAX_TOOLS} tools or {MAX_LIST_BYTES} bytes"
            )


class _ListStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner
        self._meter = ListMeter()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._meter.add(chunk)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class AnsweringTransport(httpx2.AsyncBaseTransport):
    """A transport that never raises an error of the network or of the server. It returns an error
    response."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except RefusedAddressError as error:
            detail = f"Runward must not call {request.url.host}: {error}"
            return _error_response(NOT_SENT, detail, permanent=True)
        except NotAuthorizedError as error:
            return _error_response(NOT_SENT, str(error), permanent=error.permanent)
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            return _error_response(NOT_SENT, f"no connection: {describe_error(error)}")
        except (httpx2.TransportError, OSError) as error:
            return _error_response(CONNECTION_LOST, f"no complete answer: {describe_error(error)}")
        lists = _asks_for_list(request)
        if response.is_success and _kind(response) == "text/event-stream":
            return await _event_stream(response, lists=lists)
        meter = ListMeter() if lists else None
        try:
            return await _read_whole(
                response, meter, in_session="mcp-session-id" in request.headers
            )
        except LongListError as error:
            return _error_response(UNREADABLE, str(error))

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _event_stream(response: httpx2.Response, *, lists: bool) -> httpx2.Response:
    """Return a response that is a stream of events. A compressed one is refused, because a few
    bytes of it can block the event loop for seconds."""
    if _is_compressed(response):
        with suppress(httpx2.TransportError, OSError):
            await response.aclose()
        return _error_response(UNREADABLE, COMPRESSED)
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    return httpx2.Response(
        response.status_code,
        headers=_response_headers(response),
        stream=_ListStream(stream) if lists else stream,
    )


async def _read_whole(
    response: httpx2.Response, meter: ListMeter | None, *, in_session: bool
) -> httpx2.Response:
    """Read a response to its end. A 404 in a session means that the session has ended and that the
    server executed nothing."""
    status = response.status_code
    try:
        body = await _read(response, meter)
    except LongListError:
        raise
    except (httpx2.TransportError, OSError) as error:
        return _error_response(
            CONNECTION_LOST, f"no complete answer: {describe_error(error)}", status=status
        )
    finally:
        with suppress(httpx2.TransportError, OSError):
            await response.aclose()
    if 300 <= status < 400:
        return _error_response(
            ERROR_STATUS, f"HTTP {status}: Runward does not follow redirects.", status=status
        )
    if status >= 400:
        expired = status == 404 and in_session
        if _is_rpc_error(body) and not expired:
            return httpx2.Response(status, headers=_response_headers(response), content=body)
        return _error_response(ERROR_STATUS, _refusal(response), status=status, expired=expired)
    if body is None:
        return _error_response(UNREADABLE, TOO_LARGE)
    if _is_compressed(response):
        return _error_response(UNREADABLE, COMPRESSED)
    return httpx2.Response(status, headers=_response_headers(response), content=body)


def _is_compressed(response: httpx2.Response) -> bool:
    return response.headers.get("content-encoding", "identity") != "identity"


def _asks_for_list(request: httpx2.Request) -> bool:
    try:
        content = request.content
    except httpx2.StreamError:  # the body is a stream
        return False
    if b"tools/list" not in content:
        return False
    match from_json(content):
        case {"method": "tools/list"}:
            return True
        case _:
            return False


def _refusal(response: httpx2.Response) -> str:
    if response.status_code == 401:
        return (
            "HTTP 401: the server requires authentication. Set `headers` or `oauth`. To let a "
            'person log in, set `oauth` to {"grant_type": "authorization_code"}.'
        )
    return f"HTTP {response.status_code}."


async def _read(response: httpx2.Response, meter: ListMeter | None) -> bytes | None:
    """Return the body, or None if it is too long or holds too many values. Raises LongListError."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_raw():
        if meter is not None:
            meter.add(chunk)
        size += len(chunk)
        if size > MAX_MESSAGE_BYTES:
            return None
        chunks.append(chunk)
    body = b"".join(chunks)
    return None if holds_too_many_values(body) else body


def _is_rpc_error(body: bytes | None) -> bool:
    try:
        message = from_json(body or b"")
    except ValueError:
        return False
    return isinstance(message, dict) and "error" in message and "jsonrpc" in message


def _error_response(code: int, detail: str, **data: JsonValue) -> httpx2.Response:
    message: JsonValue = {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": detail, "data": data},
    }
    return httpx2.Response(
        503, headers={"content-type": "application/json"}, content=to_json(message)
    )


def _kind(response: httpx2.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _response_headers(response: httpx2.Response) -> list[tuple[bytes, bytes]]:
    return [
        (name, value)
        for name, value in response.headers.raw
        if name.decode("latin-1").lower() not in _DROPPED
    ]
