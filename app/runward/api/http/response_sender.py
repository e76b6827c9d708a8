"""Send one response: add the headers that every response has, compress it, and send only the
headers for HEAD."""

import logging
import re
from os import urandom
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from runward.api.http import compression

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_CONTENT_TYPE_OPTIONS: Final = (b"x-content-type-options", b"nosniff")
_DEFAULT_CACHE_CONTROL: Final = (b"cache-control", b"no-store")
_VARY: Final = (b"vary", b"Accept-Encoding")
_GZIP: Final = (b"content-encoding", b"gzip")


class TruncatedResponseError(Exception):
    """A response failed after its first bytes were sent. The server closes the connection, so that
    the client notices that the response is incomplete. The cause has been logged."""


def should_log(record: logging.LogRecord) -> bool:
    """Return False for a TruncatedResponseError, because the server would log its stack trace."""
    return not (record.exc_info and isinstance(record.exc_info[1], TruncatedResponseError))


class ResponseSender:
    """Sends the response to one request. The headers of a complete response are sent together with
    its body, because compression changes them. For HEAD, only the headers are sent. The handler
    then receives a disconnect, which also ends streams."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._head: Message | None = None
        """The status and headers, until the first part of the body."""
        self.request_id = _read_request_id(scope)
        self.more_headers: list[tuple[bytes, bytes]] = []
        """Headers of the response that do not depend on its handler."""
        self.for_head = scope["method"] == "HEAD"
        self.started = False
        self.status: int | None = None
        """The status of the response, when its headers have been sent."""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
            if _is_event_stream(message):
                await self._send_head(message, [])
            return
        if self._head is not None:
            message = await self._send_head_before(self._head, message)
        if not self.for_head:
            await self._send(message)

    async def _send_head_before(self, head: Message, message: Message) -> Message:
        """Send the headers. Return the message with its body compressed if it is complete and the
        client accepts gzip."""
        body = message.get("body", b"")
        if len(body) < compression.MIN_BYTES or message.get("more_body"):
            await self._send_head(head, [])
            return message
        if not compression.client_accepts_gzip(self._scope):
            await self._send_head(head, [_VARY])
            return message
        body = await compression.compress(body)
        kept = [pair for pair in head["headers"] if pair[0] != b"content-length"]
        length = (b"content-length", b"%d" % len(body))
        await self._send_head({**head, "headers": kept}, [length, _VARY, _GZIP])
        return {**message, "body": body}

    async def _send_head(self, head: Message, added: list[tuple[bytes, bytes]]) -> None:
        self._head, self.started, self.status = None, True, head["status"]
        headers = [
            *head.get("headers", ()),
            *added,
            *self.more_headers,
            (b"x-request-id", self.request_id.encode()),
            _CONTENT_TYPE_OPTIONS,
        ]
        if not any(name == b"cache-control" for name, _ in headers):
            headers.append(_DEFAULT_CACHE_CONTROL)
        await self._send({**head, "headers": headers})
        if self.for_head:
            await self._send({"type": "http.response.body", "body": b""})

    def wrap_receive(self, receive: Receive) -> Receive:
        if not self.for_head:
            return receive

        async def until_answered() -> Message:
            return {"type": "http.disconnect"} if self.started else await receive()

        return until_answered


def _is_event_stream(head: Message) -> bool:
    return any(
        name == b"content-type" and value.startswith(b"text/event-stream")
        for name, value in head.get("headers", ())
    )


def _read_request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"req_{urandom(16).hex()}"
