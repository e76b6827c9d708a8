"""The HTTP application: what is between the server and a route."""

from collections.abc import Iterable, Set
from functools import cached_property
from time import perf_counter
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from runward.api.http.hosts import AllowedHosts
from runward.api.http.problems import (
    describe_request,
    log_unavailable,
    make_error_response,
    make_framework_problem,
)
from runward.api.http.response_sender import ResponseSender, TruncatedResponseError
from runward.api.http.route_table import RouteTable
from runward.api.openapi import docs, document
from runward.services import Services
from runward.store.postgres.db import is_outage, log_fields
from runward.store.postgres.project_scope import allow_no_project
from runward.tracing import enter_trace

PROBES: Final = frozenset({"/livez", "/readyz", "/metrics"})
"""Paths that are requested every few seconds, so they are not logged."""
MAX_LOGGED_PATH: Final = 512
log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class Application:
    """The ASGI application. An unexpected exception is logged with the request ID. The client
    receives only the ID."""

    def __init__(
        self,
        services: Services | None,
        routers: Iterable[APIRouter],
        hosts: Set[str],
        *,
        logs_requests: bool = False,
    ) -> None:
        self.services = services
        self._logs_requests = logs_requests
        self.routes = [route for router in routers for route in router.routes]
        self._table = RouteTable(self.routes)
        self._hosts = AllowedHosts(hosts)

    @cached_property
    def openapi(self) -> dict[str, Any]:
        return document.build_document(self.routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        began, sender = perf_counter(), ResponseSender(scope, send)
        enter_trace(scope["headers"])
        allow_no_project()
        bind_contextvars(request_id=sender.request_id)
        try:
            await self._respond(scope, receive, sender)
        finally:
            if self._logs_requests and scope["path"] not in PROBES:
                _log_request(scope, sender, perf_counter() - began)

    async def _respond(self, scope: Scope, receive: Receive, sender: ResponseSender) -> None:
        if sender.for_head:
            scope = {**scope, "method": "GET"}
        scope["app"] = self
        scope["state"] = {
            "request_id": sender.request_id,
            "response_headers": sender.more_headers,
        }
        receive = sender.wrap_receive(receive)
        try:
            self._hosts.check(scope)
            route, scope["path_params"] = self._table.find(scope["path"], scope["method"])
            scope["route"] = route
            await route.app(scope, receive, sender.send)
        except ClientDisconnect:
            return
        except Exception as error:
            request = Request(scope)
            if sender.started:
                _log_truncated(request, error)
                raise TruncatedResponseError from error
            await _respond_to(error, request)(scope, receive, sender.send)


def create_app(
    services: Services | None,
    routers: Iterable[APIRouter] = (),
    *,
    hosts: Set[str] = frozenset({"*"}),
    logs_requests: bool = False,
) -> Application:
    """Return the application. `hosts`: the patterns of `AllowedHosts`. `logs_requests`: whether
    each request is logged when its response has ended."""
    all_routers = (*routers, docs.make_docs_router())
    return Application(services, all_routers, hosts, logs_requests=logs_requests)


def _respond_to(error: Exception, request: Request) -> Response:
    match request.method, error:
        case "OPTIONS", HTTPException(status_code=405, headers=headers):
            return Response(status_code=204, headers=headers)
        case _:
            response = make_error_response(request, error)
    if response is None:
        log.exception("request.failed", **describe_request(request), exc_info=error)
        return make_framework_problem(request, 500)
    log_unavailable(request, response, error)
    return response


def _log_request(scope: Scope, sender: ResponseSender, seconds: float) -> None:
    """Log a request. Its path can contain a token, so the path of its route is logged. The IDs of
    its project and run are bound to the context."""
    route = scope.get("route")
    log.info(
        "request",
        method=scope["method"],
        path=scope["path"][:MAX_LOGGED_PATH] if route is None else route.path_format,
        status=sender.status,
        seconds=round(seconds, 4),
    )


def _log_truncated(request: Request, error: Exception) -> None:
    if is_outage(error):
        log.warning("request.cut", **describe_request(request), **log_fields(error))
    else:
        log.error("request.failed", **describe_request(request), exc_info=error)
