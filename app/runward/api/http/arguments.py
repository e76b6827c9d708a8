"""The arguments of a handler: parts of the services, the principal, and values in the path, the
query and the headers.

FastAPI reads the signatures of the handlers, and describes them in openapi.json. Its own code for
requests is not used. It examines the signature at each request, which takes most of the CPU time of
a small request.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any, Protocol, get_args, get_origin

from fastapi.dependencies.models import Dependant
from fastapi.params import Param
from pydantic.fields import FieldInfo

from runward.api.http.auth import Requirement
from runward.api.http.dependencies import ServicePart
from runward.api.http.requests import ApiRequest, get_services


class _Field(Protocol):
    """FastAPI's description of a parameter."""

    name: str
    field_info: FieldInfo

    @property
    def alias(self) -> str: ...

    def validate(
        self, value: Any, values: dict[str, Any], *, loc: tuple[str, ...]
    ) -> tuple[Any, list[Any]]: ...


def make_missing_error(*place: str) -> dict[str, Any]:
    """Return Pydantic's error for a missing value."""
    return {"type": "missing", "loc": place, "msg": "Field required", "input": None}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path, the query or a header."""

    field: _Field
    place: str
    """`path`, `query` or `header`."""
    name: str
    """Its name in the request."""
    key: bytes
    """The name in lower case, as in the headers of a request."""
    types: tuple[Any, ...]
    is_list: bool

    @classmethod
    def from_field(cls, field: _Field) -> "Parameter":
        info = field.field_info
        assert isinstance(info, Param) and info.default_factory is None
        types = (info.annotation, *get_args(info.annotation))
        is_list = any(get_origin(one) is list for one in types)
        name, place = field.alias, info.in_.value
        return cls(field, place, name, name.lower().encode(), types, is_list)

    def read(self, request: ApiRequest, values: dict[str, Any], errors: list[Any]) -> None:
        """Add the value to `values`, or its errors to `errors`."""
        given = self._find(request)
        if given is not None:
            value, wrong = self.field.validate(given, {}, loc=(self.place, self.name))
        elif self.field.field_info.is_required():
            value, wrong = None, [make_missing_error(self.place, self.name)]
        else:
            value, wrong = self.field.field_info.default, []
        if wrong:
            errors.extend(wrong)
        else:
            values[self.field.name] = value

    def _find(self, request: ApiRequest) -> Any:
        if self.place == "header":
            return request.get_header(self.key)
        if self.place == "path":
            return request.path_params[self.name]
        if not request.scope["query_string"]:
            return None
        if self.is_list:
            return request.query_params.getlist(self.name) or None
        return request.query_params.get(self.name)


@dataclass(frozen=True, slots=True)
class Arguments:
    """How to compute the arguments of a function."""

    parts: tuple[tuple[str, str], ...]
    """The arguments that are parts of the services, and the names of these parts."""
    principal: str | None
    computed: tuple[tuple[str, Callable[..., Any], "Arguments"], ...]
    """The arguments that another function returns, for example from several parameters."""
    parameters: tuple[Parameter, ...]
    request: str | None

    @classmethod
    def from_dependant(cls, dependant: Dependant) -> "Arguments":
        parts: list[tuple[str, str]] = []
        principal: str | None = None
        computed: list[tuple[str, Callable[..., Any], Arguments]] = []
        for one in dependant.dependencies:
            name, function = one.name, one.call
            assert name is not None and not iscoroutinefunction(function)
            if isinstance(function, ServicePart):
                parts.append((name, function.name))
            elif isinstance(function, Requirement):
                principal = name
            elif function is not None:
                computed.append((name, function, cls.from_dependant(one)))
        assert not dependant.cookie_params
        fields = (*dependant.path_params, *dependant.query_params, *dependant.header_params)
        return cls(
            tuple(parts),
            principal,
            tuple(computed),
            tuple(map(Parameter.from_field, fields)),
            dependant.request_param_name,
        )

    def list_parameters(self) -> Iterator[Parameter]:
        """Yield all parameters in the path, the query and the headers."""
        yield from self.parameters
        for _, _, arguments in self.computed:
            yield from arguments.list_parameters()

    def compute(self, request: ApiRequest, errors: list[Any]) -> dict[str, Any]:
        """Return the arguments. `errors` receives Pydantic's errors for those that are not
        valid."""
        services = get_services(request)
        values = {name: getattr(services, part) for name, part in self.parts}
        if self.principal is not None:
            values[self.principal] = request.principal
        for name, function, arguments in self.computed:
            before = len(errors)
            given = arguments.compute(request, errors)
            if len(errors) == before:
                values[name] = function(**given)
        for parameter in self.parameters:
            parameter.read(request, values, errors)
        if self.request is not None:
            values[self.request] = request
        return values
