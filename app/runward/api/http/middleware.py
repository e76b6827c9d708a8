"""Around every request: its id, HEAD, safe headers, and the last answer when all else failed."""

import logging
import re
from typing import Final
from uuid import uuid4

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runward.api.http.problems import (
    get_request_id,
    log_unavailable,
    make_error_response,
    make_framework_problem,
)
from runward.store.postgres.db import is_outage, log_fields

_REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_FIXED_HEADERS: Final = ((b"x-content-type-options", b"nosniff"),)
_DEFAULT_CACHE_CONTROL: Final = (b"cache-control", b"no-store")

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class TruncatedResponseError(Exception):
    """A response failed after it had begun. The server closes the connection, so that the client
    notices that the response is incomplete. The cause has been logged."""


class RequestMiddleware:
    """Outermost of ours. An exception that reaches it has no handler: it is logged under the
    request's id, and the client learns the id alone."""

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
            log.exception(
                "request.failed",
                request_id=answer.request_id,
                method=request.method,
                route=getattr(request.scope.get("route"), "path", None),
                exc_info=error,
            )
            response = make_framework_problem(request, 500)
        log_unavailable(request, response, error)
        await response(request.scope, receive, answer.send)


def should_log(record: logging.LogRecord) -> bool:
    """Return False for records of an AnswerCutError: the server would log its stack."""
    return not (record.exc_info and isinstance(record.exc_info[1], TruncatedResponseError))


def _log_truncated(request: Request, error: Exception) -> None:
    place = {
        "request_id": get_request_id(request),
        "method": request.method,
        "route": getattr(request.scope.get("route"), "path", None),
    }
    if is_outage(error):
        log.warning("request.cut", **place, **log_fields(error))
    else:
        log.error("request.failed", **place, exc_info=error)


class _ResponseSender:
    """The way out. For HEAD it lets the head pass, then tells the handler that the client left,
    which ends streams too."""

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
