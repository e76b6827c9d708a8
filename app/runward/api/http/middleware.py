"""Middleware around every request: the request ID, HEAD, security headers, errors without a
handler, allowed `Host` names, and compression."""

import logging
import re
from collections.abc import Set
from typing import Final
from uuid import uuid4

import structlog
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runward.api.http.problems import (
    describe_request,
    log_unavailable,
    make_error_response,
    make_framework_problem,
)
from runward.domain.errors import BadRequestError
from runward.store.postgres.db import is_outage, log_fields

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_FIXED_HEADERS: Final = ((b"x-content-type-options", b"nosniff"),)
_DEFAULT_CACHE_CONTROL: Final = (b"cache-control", b"no-store")

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TruncatedResponseError(Exception):
    """A response failed after its first bytes were sent. The server closes the connection, so that
    the client notices that the response is incomplete. The cause has been logged."""


class RequestMiddleware:
    """The outermost middleware of Runward. If an exception reaches it, it logs the exception with
    the request ID. The client receives only the ID."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = _read_request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        answer = _ResponseSender(send, request_id, head=scope["method"] == "HEAD")
        if answer.head:
            scope = {**scope, "method": "GET"}
        try:
            await self.app(scope, answer.wrap_receive(receive), answer.send)
        except ClientDisconnect:
            return
        except Exception as error:
            if answer.started:
                _log_truncated(Request(scope), error)
                raise TruncatedResponseError from error
            await self._send_error(error, Request(scope), receive, answer)

    async def _send_error(
        self, error: Exception, request: Request, receive: Receive, answer: "_ResponseSender"
    ) -> None:
        response = make_error_response(request, error)
        if response is None:
            log.exception("request.failed", **describe_request(request), exc_info=error)
            response = make_framework_problem(request, 500)
        log_unavailable(request, response, error)
        await response(request.scope, receive, answer.send)


def should_log(record: logging.LogRecord) -> bool:
    """Return False for a TruncatedResponseError, because the server would log its stack trace."""
    return not (record.exc_info and isinstance(record.exc_info[1], TruncatedResponseError))


def _log_truncated(request: Request, error: Exception) -> None:
    if is_outage(error):
        log.warning("request.cut", **describe_request(request), **log_fields(error))
    else:
        log.error("request.failed", **describe_request(request), exc_info=error)


class _ResponseSender:
    """Sends the response. For HEAD, it sends only the headers and then reports a disconnect to the
    handler, which also ends streams."""

    def __init__(self, send: Send, request_id: str, *, head: bool) -> None:
        self._send = send
        self.request_id = request_id
        self.head = head
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = list(message.get("headers", ()))
            headers.append((b"x-request-id", self.request_id.encode()))
            headers.extend(_FIXED_HEADERS)
            if not any(name == _DEFAULT_CACHE_CONTROL[0] for name, _ in headers):
                headers.append(_DEFAULT_CACHE_CONTROL)
            await self._send({**message, "headers": headers})
            if self.head:
                await self._send({"type": "http.response.body", "body": b""})
        elif not self.head:
            await self._send(message)

    def wrap_receive(self, receive: Receive) -> Receive:
        if not self.head:
            return receive

        async def until_answered() -> Message:
            return {"type": "http.disconnect"} if self.started else await receive()

        return until_answered


def _read_request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value.decode()
    return f"req_{uuid4().hex}"


PROBE_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths that are accepted for every `Host`, because probes request them by IP address."""

_BRACKETED: Final = re.compile(r"\[[^\]]*\]")


class AllowedHosts:
    """Rejects requests for other hosts. `patterns`: names in lower case without ports.
    `*.example.com` matches subdomains, and `*` matches every name."""

    def __init__(self, app: ASGIApp, patterns: Set[str]) -> None:
        self.app = app
        self._patterns = patterns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the host, then call the application. Raises BadRequestError."""
        if scope["type"] == "http" and scope["path"] not in PROBE_PATHS:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            if len(hosts) != 1 or not self._allows(normalize_host(hosts[0].decode("latin-1"))):
                raise BadRequestError(
                    "The `Host` header of this request does not name this service. "
                    "To allow this host, add the host to RUNWARD_ALLOWED_HOSTS."
                )
        await self.app(scope, receive, send)

    def _allows(self, host: str) -> bool:
        if host in self._patterns or "*" in self._patterns:
            return True
        parents = host.split(".")[1:]
        return any(
            f"*.{'.'.join(parents[at:])}" in self._patterns for at in range(min(len(parents), 32))
        )


def normalize_host(host: str) -> str:
    """Return the host in lower case, without port, brackets and trailing dot."""
    name = host[1:].partition("]")[0] if _BRACKETED.match(host) else host.partition(":")[0]
    return name.lower().removesuffix(".")


_WEIGHT: Final = re.compile(r"q=(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)", re.ASCII)


class CompressionMiddleware(GZipMiddleware):
    """Compresses responses. The framework's middleware would also compress for `gzip;q=0`, because
    it only searches the header for the word gzip."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = ",".join(Headers(scope=scope).getlist("accept-encoding"))
            others = [pair for pair in scope["headers"] if pair[0] != b"accept-encoding"]
            taken = [(b"accept-encoding", b"gzip")] if accepts_gzip(given) else []
            scope = {**scope, "headers": [*others, *taken]}
        await super().__call__(scope, receive, send)


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
