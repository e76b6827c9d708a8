"""The HTTP application: its routers, middleware and error handlers."""

from collections.abc import Iterable, Set
from typing import Final

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import Scope

from runward.api.http.middleware import AllowedHosts, CompressionMiddleware, RequestMiddleware
from runward.api.http.problems import log_unavailable, make_error_response, make_framework_problem
from runward.api.openapi import docs, document
from runward.api.openapi.descriptions import VERSION
from runward.domain.errors import AppError
from runward.services import Services

COMPRESSED_BYTES: Final = 1024
"""Minimum size of a compressed response, in bytes. Smaller responses fit into one packet. Event
streams are never compressed."""


def create_app(
    services: Services | None,
    routers: Iterable[APIRouter] = (),
    *,
    hosts: Set[str] = frozenset({"*"}),
) -> FastAPI:
    """Return the application. `hosts`: the patterns of `AllowedHosts`."""
    app = FastAPI(
        title="Runward",
        version=VERSION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"operation_spans": False},
    )
    app.state.services = services
    # The middleware that is added last is the outermost.
    app.add_middleware(CompressionMiddleware, minimum_size=COMPRESSED_BYTES, compresslevel=5)
    app.add_middleware(AllowedHosts, patterns=hosts)
    app.add_middleware(RequestMiddleware)
    for kind in (AppError, RequestValidationError):
        app.add_exception_handler(kind, _handle_known_error)
    app.add_exception_handler(HTTPException, _handle_http_exception)
    for router in (*routers, docs.make_docs_router()):
        # include_router is not used, because it would match every path twice.
        app.router.routes.extend(router.routes)
    document.install(app)
    return app


async def _handle_known_error(request: Request, error: Exception) -> Response:
    answer = make_error_response(request, error)
    assert answer is not None
    log_unavailable(request, answer, error)
    return answer


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code != 405:
        return make_framework_problem(request, error.status_code, error.headers)
    headers = {"Allow": ", ".join(_list_allowed_methods(request.app, request.scope))}
    if request.method == "OPTIONS":
        return Response(status_code=204, headers=headers)
    return make_framework_problem(request, 405, headers)


def _list_allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """Return the methods of all routes with the path. The framework lists only those of the first
    route."""
    methods = {"OPTIONS"}
    for route in app.router.routes:
        if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
