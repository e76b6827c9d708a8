"""Everything that a route does before its handler: authenticate the request, check its path and
query names, and validate its body. The checks are in this order, so that unauthenticated requests
cost little."""

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi import APIRouter, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from runward.api.http import body
from runward.api.http.auth import Requirement
from runward.api.http.dependencies import RouteDependency, extract_dependencies, get_services
from runward.api.http.responses import apply_etag, json_response
from runward.domain.errors import FieldError, InvalidRequestError, NotFoundError
from runward.domain.json import clean_text

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


class StrictRoute(APIRoute):
    rules: "RouteRules"

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        self.rules = rules = RouteRules.from_route(self)
        assert self.dependant.call is not None
        self.dependant.call = _encode_result(self.dependant.call, self.status_code or 200)
        handle = super().get_route_handler()

        async def strictly(request: Request) -> Response:
            for given in rules.dependencies:
                await given.prepare(request)
            check_path(request)
            rules.check_query(request)
            check_headers(request)
            limits = get_services(request).limits
            read = await body.read_request(request, limits.max_body_bytes, rules.body)
            response = await handle(read)
            return apply_etag(request, response)

        return strictly


def _encode_result(handler: Callable[..., Any], status: int) -> Callable[..., Any]:
    """Return the handler with its result as a response. A Response stays unchanged, a model becomes
    JSON, and None becomes an empty body."""

    async def call(**values: Any) -> Response:
        result = await handler(**values)
        if isinstance(result, Response):
            return result
        return Response(status_code=204) if result is None else json_response(result, status)

    return call


@dataclass(frozen=True, slots=True)
class RouteRules:
    dependencies: tuple[RouteDependency, ...]
    query_names: frozenset[str]
    """Query parameters. All except `lists` may occur at most once in a request."""
    lists: frozenset[str]
    """Query parameters that may occur several times in a request."""
    numbers: Mapping[str, type]
    """The query parameters that are numbers."""
    body: TypeAdapter[Any] | None
    has_inputs: bool
    """Whether the operation has a body, or parameters other than those in its path."""

    @classmethod
    def from_route(cls, route: APIRoute) -> "RouteRules":
        given = extract_dependencies(route.dependant)
        parts = list(_iterate_dependants(route.dependant))
        fields = [field for part in parts for field in part.query_params]
        body = _make_body_adapter(route)
        return cls(
            dependencies=given,
            query_names=frozenset(field.alias for field in fields),
            lists=frozenset(
                field.alias
                for field in fields
                if any(get_origin(one) is list for one in get_args(field.field_info.annotation))
            ),
            numbers={
                field.alias: kind
                for field in fields
                for kind in _NUMBER_FORMATS
                if kind in (field.field_info.annotation, *get_args(field.field_info.annotation))
            },
            body=body,
            has_inputs=bool(body or fields or any(part.header_params for part in parts)),
        )

    @property
    def requirement(self) -> Requirement | None:
        return next((given for given in self.dependencies if isinstance(given, Requirement)), None)

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


def make_router(tag: str, prefix: str = "/v1") -> APIRouter:
    """Return the router of one resource. The names of its handlers are the operation IDs in
    openapi.json."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=StrictRoute,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )


def check_path(request: Request) -> None:
    if not all(is_text(str(value)) for value in request.path_params.values()):
        raise NotFoundError


def check_headers(request: Request) -> None:
    """Raise InvalidRequestError if a header occurs twice, because a proxy may have read the other
    value."""
    names = [name.decode("latin-1") for name, _ in request.scope["headers"]]
    twice = [name for name in SINGLE_HEADERS if names.count(name.lower()) > 1]
    if twice:
        errors = [FieldError(f"header.{name}", "must appear only once") for name in twice]
        raise InvalidRequestError(errors=errors)


def is_text(value: str) -> bool:
    """Return whether PostgreSQL can store the text: it has no NUL and no lone surrogates."""
    return clean_text(value) is value


def _iterate_dependants(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _iterate_dependants(inner)


def _make_body_adapter(route: APIRoute) -> TypeAdapter[Any] | None:
    if route.body_field is None:
        return None
    info = route.body_field.field_info
    shape: Any = Annotated[info.annotation, info]  # pyright: ignore
    return TypeAdapter[Any](shape)
