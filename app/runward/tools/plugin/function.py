"""A Python function as a tool. One Pydantic model generates its JSON Schema and validates its
calls."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter
from types import UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, JsonSchemaWarningKind
from pydantic_core import SchemaError, core_schema

from runward.domain.json import JsonObject, compact
from runward.domain.schema.subschemas import map_children
from runward.tools.plugin.context import ToolContext
from runward.tools.plugin.docstrings import ParsedDocstring
from runward.tools.plugin.errors import PluginError
from runward.tools.plugin.typed_dicts import readable_hint


class ArgumentsError(Exception):
    """The arguments have the right types but cannot be passed to the function."""


_BY_NAME: Final = (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)


class _Schema(GenerateJsonSchema):
    """A schema generator that adds no titles, and does not warn about a default that is not
    JSON."""

    ignored_warning_kinds: set[JsonSchemaWarningKind] = {  # noqa: RUF012  # never changed
        "skipped-choice",
        "non-serializable-default",
    }

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def field_is_present(self, field: Any) -> bool:
        """Hide a field of a dataclass that its `__init__` does not take."""
        taken = self.mode != "validation" or field.get("init") is not False
        return taken and super().field_is_present(field)

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        return _temporal(_DATE + "[T ]" + _TIME, schema) or super().datetime_schema(schema)

    def time_schema(self, schema: core_schema.TimeSchema) -> JsonSchemaValue:
        return _temporal(_TIME, schema) or super().time_schema(schema)

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        members = [one for one in schema["expected"] if isinstance(one, Enum)]
        if members and self.mode == "validation":
            raise PydanticUserError(
                f"a Literal of the enum member {members[0]} inside a class cannot "
                "be read from JSON; use the enum, or a Literal of its values",
                code=None,
            )
        return super().literal_schema(schema)


_DATE: Final = r"\d{4}-\d{2}-\d{2}"
_TIME: Final = r"\d{2}:\d{2}(:\d{2}(\.\d+)?)?"
_OFFSET: Final = r"(Z|[+-]\d{2}:?\d{2})?"


def _temporal(
    pattern: str, schema: core_schema.DatetimeSchema | core_schema.TimeSchema
) -> JsonSchemaValue | None:
    """Return a schema with a pattern instead of the JSON Schema format, which requires a UTC
    offset. Return None if the type also requires an offset."""
    constraint = schema.get("tz_constraint")
    if constraint is not None and constraint != "naive":
        return None
    offset = _OFFSET if constraint is None else ""
    return {"type": "string", "pattern": f"^{pattern}{offset}$"}


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a function. `context` is the name of the first parameter if this parameter
    receives the ToolContext."""

    function: Callable[..., Any]
    model: type[BaseModel]
    parameters: Mapping[str, Parameter]
    context: str | None

    def call(self, ctx: ToolContext, arguments: JsonObject) -> Callable[[], Any]:
        """Return a callable that makes the call. Raises pydantic.ValidationError, or ArgumentsError
        if `**kwargs` repeat a parameter."""
        given = self.model.model_validate_json(compact(arguments))
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for index, (name, parameter) in enumerate(self.parameters.items()):
            value = self._value(given, index, name, ctx)
            if parameter.kind is Parameter.VAR_POSITIONAL:
                positional += value
            elif parameter.kind is Parameter.VAR_KEYWORD:
                repeated: list[str] = sorted(value.keys() & {*self.parameters, *named})
                if repeated:
                    raise ArgumentsError(
                        f"{name}: must not contain the names of other parameters: "
                        f"{', '.join(repeated)}"
                    )
                named |= value
            elif parameter.kind in _BY_NAME:
                named[name] = value
            else:
                positional.append(value)
        return lambda: self.function(*positional, **named)

    def _value(self, given: BaseModel, index: int, name: str, ctx: ToolContext) -> Any:
        return ctx if name == self.context else getattr(given, _field(index))

    def schema(self) -> JsonObject:
        """Return the parameters' schema. Raises PluginError."""
        try:
            made = self.model.model_json_schema(schema_generator=_Schema)
        except PydanticUserError as error:
            raise PluginError(f"{name_of(self.function)}: {_reason(error)}") from None
        return without_titles(made)


def read_signature(function: Callable[..., Any], docstring: ParsedDocstring) -> Signature:
    """Read a function's signature. Raises PluginError."""
    where = name_of(function)
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(function, include_extras=True)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise PluginError(f"{where}: the type hints cannot be read: {error}") from None
    context: str | None = None
    fields: dict[str, Any] = {}
    for index, (name, parameter) in enumerate(parameters.items()):
        hint = readable_hint(hints.get(name, Any))
        if _is_context(hint):
            if index > 0 or parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
                raise PluginError(
                    f"{where}: parameter '{name}' is a ToolContext, but only the first parameter "
                    "can be a ToolContext"
                )
            context = name
            continue
        fields[_field(index)] = _argument(parameter, hint, docstring.parameters.get(name))
    try:
        model = create_model(
            "Arguments",
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False),
            **fields,
        )
    except (PydanticUserError, SchemaError, TypeError, NameError) as error:
        raise PluginError(f"{where}: {_invalid_parameter(fields, parameters, error)}") from None
    return Signature(function, model, parameters, context)


def return_schema(function: Callable[..., Any]) -> JsonObject:
    """Return the schema of the function's return type. Raises PluginError."""
    where = name_of(function)
    hint = get_type_hints(function, include_extras=True).get("return", Parameter.empty)
    if hint is Parameter.empty:
        raise PluginError(f"{where}: output_schema=True requires a return annotation")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable_hint(hint))
        made = adapter.json_schema(mode="serialization", schema_generator=_Schema)
    except (PydanticUserError, SchemaError) as error:
        raise PluginError(
            f"{where}: the return annotation is not valid: {_reason(error)}"
        ) from None
    return without_titles(made)


def name_of(function: Any) -> str:
    """Return the function's name as `package.module:function`."""
    module = getattr(function, "__module__", None) or type(function).__module__
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{module}:{name}"


def without_titles(schema: JsonObject) -> JsonObject:
    """Return the schema without the names of Python classes, and without `default: null`, which has
    no meaning."""

    def bare(node: JsonValue, class_name: str | None = None) -> JsonValue:
        if not isinstance(node, dict):
            return node
        node = map_children(node, bare)
        if class_name is not None and node.get("title") == class_name:
            del node["title"]
        if "default" in node and node["default"] is None:
            del node["default"]
        return node

    made = cast(JsonObject, bare(schema))
    made.pop("title", None)
    definitions = made.get("$defs")
    if isinstance(definitions, dict):
        made["$defs"] = {name: bare(node, name) for name, node in definitions.items()}
    return made


def _field(index: int) -> str:
    """Return the name of a field of the model. Fields have generated names, so that a parameter can
    have any name."""
    return f"p{index}"


def _argument(parameter: Parameter, hint: Any, description: str | None) -> tuple[Any, Any]:
    """Return the parameter's field in the form that create_model takes."""
    default: Any = ... if parameter.default is Parameter.empty else parameter.default
    if parameter.kind is Parameter.VAR_POSITIONAL:
        hint, default = list[hint], Field(default_factory=list)
    elif parameter.kind is Parameter.VAR_KEYWORD:
        hint, default = dict[str, hint], Field(default_factory=dict)
    stated = _field_annotations(hint, default)
    if default is ...:
        default = next((_default(one) for one in stated if not one.is_required()), ...)
    about = Field(
        alias=next((one.alias for one in stated if one.alias), parameter.name),
        description=next((one.description for one in stated if one.description), description),
    )
    return Annotated[hint, about], default


def _field_annotations(hint: Any, default: Any) -> list[FieldInfo]:
    """Return the `Field(...)`s that the author wrote for a parameter, the strongest first."""
    found: list[FieldInfo] = [default] if isinstance(default, FieldInfo) else []
    if get_origin(hint) is Annotated:
        found += [one for one in reversed(get_args(hint)[1:]) if isinstance(one, FieldInfo)]
    return found


def _default(stated: FieldInfo) -> Any:
    if stated.default_factory is not None:
        return Field(default_factory=stated.default_factory)
    return stated.default


def _is_context(hint: Any) -> bool:
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_context(get_args(hint)[0])
    if origin in (Union, UnionType):
        return any(_is_context(one) for one in get_args(hint))
    return hint is ToolContext


def _invalid_parameter(
    fields: Mapping[str, Any], parameters: Mapping[str, Parameter], error: Exception
) -> str:
    """Return the parameter that Pydantic does not support."""
    for index, name in enumerate(parameters):
        if _field(index) in fields:
            try:
                create_model("Arguments", **{_field(index): fields[_field(index)]})
            except (PydanticUserError, SchemaError, TypeError, NameError) as own:
                return f"parameter '{name}': {_reason(own)}"
    return _reason(error)


def _reason(error: Exception) -> str:
    """Return the line with the reason. For an error from inside a schema, this is the last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return lines[-1] if isinstance(error, SchemaError) else lines[0]
