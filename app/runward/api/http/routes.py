"""Everything that a route does around its handler: authenticate the request, check its path and
query names, validate its body, compute the handler's arguments, and encode the result. The checks
are in this order, so that unauthenticated requests cost little."""

import re
from collections.abc import Callable, Coroutine, Generator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Annotated, Any, Final, cast
from warnings import catch_warnings, simplefilter

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from runward.api.http.arguments import Arguments, make_missing_error
from runward.api.http.auth import Requirement
from runward.api.http.body import NO_BODY, read_body
from runward.api.http.requests import ApiRequest, get_services
from runward.api.http.responses import apply_etag, json_response
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.json import clean_text
from runward.domain.not_found import NotFoundError

_NUMBER_FORMATS: Final[Mapping[type, tuple[re.Pattern[str], str]]] = {
    int: (
        re.compile(r"-?[0-9]+"),
        "must be a valid integer, unable to parse string as an integer",
    ),
    float: (
        re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"),
        "must be a valid number, unable to parse string as a number",
    ),
}
"""How a query parameter must represent a number. Pydantic would also accept `+1`, `1_0` and
surrounding spaces."""
SINGLE_HEADERS: Final = ("Idempotency-Key", "Last-Event-ID")


class StrictRoute(Route):
    """A route that processes requests without FastAPI. FastAPI only describes it, for openapi.json
    and for the rules of its requests. That takes memory and milliseconds, so it happens at the
    first request of the route."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        assert iscoroutinefunction(endpoint)
        methods, shown = options["methods"], options["include_in_schema"]
        super().__init__(path, endpoint, name=options["name"], include_in_schema=shown)
        self.methods = set(methods or ["GET"])
        self.app = self._serve
        self._options = options

    @cached_property
    def described(self) -> APIRoute:
        return _DescribedRoute(self.path, self.endpoint, **self._options)

    @cached_property
    def rules(self) -> "RouteRules":
        return RouteRules.from_route(self.described)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._respond(ApiRequest(scope, receive))
        await response(scope, receive, send)

    async def _respond(self, request: ApiRequest) -> Response:
        rules = self.rules
        bind_path_ids(request)
        if rules.requirement is not None:
            request.principal = await rules.requirement.authenticate(request)
        check_path(request)
        rules.check_query(request)
        check_headers(request)
        limits = get_services(request).limits
        body = await read_body(request, limits.max_body_bytes, rules.body)
        result = await self.endpoint(**rules.compute_arguments(request, body))
        if not isinstance(result, Response):
            status = self._options["status_code"] or 200
            empty = result is None
            result = Response(status_code=204) if empty else json_response(result, status)
        return apply_etag(request, result)


class _DescribedRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return no handler, because only a StrictRoute processes requests."""
        return None  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class RouteRules:
    requirement: Requirement | None
    arguments: Arguments
    query_names: frozenset[str]
    """Query parameters. All except `lists` may occur at most once in a request."""
    lists: frozenset[str]
    """Query parameters that may occur several times in a request."""
    numbers: Mapping[str, type]
    """The query parameters that are numbers."""
    body: TypeAdapter[Any] | None
    body_argument: str | None
    body_default: Any
    """The argument for a request without a body. NO_BODY: the body is required."""
    has_inputs: bool
    """Whether the operation has a body, or parameters other than those in its path."""

    @classmethod
    def from_route(cls, route: APIRoute) -> "RouteRules":
        arguments = Arguments.from_dependant(route.dependant)
        dependencies = [one.call for one in route.dependant.dependencies]
        parameters = [one for one in arguments.list_parameters() if one.place != "path"]
        in_query = [one for one in parameters if one.place == "query"]
        body = route.body_field
        info = None if body is None else body.field_info
        return cls(
            requirement=next((one for one in dependencies if isinstance(one, Requirement)), None),
            arguments=arguments,
            query_names=frozenset(one.name for one in in_query),
            lists=frozenset(one.name for one in in_query if one.is_list),
            numbers={
                one.name: kind for one in in_query for kind in _NUMBER_FORMATS if kind in one.types
            },
            body=None if info is None else _make_adapter(info),
            body_argument=None if body is None else body.name,
            body_default=NO_BODY if info is None or info.is_required() else info.default,
            has_inputs=bool(body or parameters),
        )

    def compute_arguments(self, request: ApiRequest, body: Any) -> dict[str, Any]:
        """Return the arguments of the handler. `body`: the validated body, or NO_BODY. Raises
        RequestValidationError, and the AppErrors of functions that compute an argument."""
        errors: list[Any] = []
        values = self.arguments.compute(request, errors)
        if self.body_argument is not None:
            value = self.body_default if body is NO_BODY else body
            if value is NO_BODY:
                errors.append(make_missing_error("body"))
            values[self.body_argument] = value
        if errors:
            raise RequestValidationError(errors)
        return values

    def check_query(self, request: Request) -> None:
        if not request.scope["query_string"]:
            return
        errors: list[FieldError] = []
        seen: set[str] = set()
        for name, value in request.query_params.multi_items():
            path = f"query.{name[:64]}"
            if (message := self._check_parameter(name, value, seen)) is not None:
                errors.append(FieldError(path, message))
            seen.add(name)
        if errors:
            raise InvalidRequestError(errors=errors[:20])

    def _check_parameter(self, name: str, value: str, seen: Set[str]) -> str | None:
        if name not in self.query_names:
            return "unknown query parameter"
        if name in seen and name not in self.lists:
            return "must appear only once"
        if not is_text(value):
            return "must be text without the NUL character"
        if (kind := self.numbers.get(name)) is not None:
            pattern, message = _NUMBER_FORMATS[kind]
            return None if pattern.fullmatch(value) else message
        return None


def _make_adapter(info: FieldInfo) -> TypeAdapter[Any]:
    shape: Any = Annotated[info.annotation, info]  # pyright: ignore
    with ignore_aliases():
        return TypeAdapter[Any](shape)


@contextmanager
def ignore_aliases() -> Generator[None]:
    """Suppress Pydantic's warning that the alias of a parameter has no effect on its type, as
    FastAPI does."""
    with catch_warnings():
        simplefilter("ignore", UnsupportedFieldAttributeWarning)
        yield


def make_router(tag: str, prefix: str = "/v1") -> APIRouter:
    """Return the router of one resource. The names of its handlers are the operation IDs in
    openapi.json."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=cast(Any, StrictRoute),
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )


def check_path(request: Request) -> None:
    if not all(is_text(value) for value in request.path_params.values()):
        raise NotFoundError


def bind_path_ids(request: Request) -> None:
    """Add the IDs in the path to all log lines of the request, such as `run`. `call_id` keeps its
    name, because it is the ID that the model gave the call."""
    ids = [pair for pair in request.path_params.items() if pair[0].endswith("_id")]
    bind_contextvars(
        **{name if name == "call_id" else name.removesuffix("_id"): one[:64] for name, one in ids}
    )


def check_headers(request: ApiRequest) -> None:
    """Raise InvalidRequestError if a header occurs twice, because a proxy may have read the other
    value."""
    if not request.has_repeated_headers:
        return
    names = [name.decode("latin-1") for name, _ in request.scope["headers"]]
    twice = [name for name in SINGLE_HEADERS if names.count(name.lower()) > 1]
    if twice:
        errors = [FieldError(f"header.{name}", "must appear only once") for name in twice]
        raise InvalidRequestError(errors=errors)


def is_text(value: str) -> bool:
    """Return whether PostgreSQL can store the text: it has no NUL and no lone surrogates."""
    return clean_text(value) is value
