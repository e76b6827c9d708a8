"""JSON Schemas of the parameters of functions."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from runward_client.errors import RunwardError

PRIMITIVES: Final[Mapping[Any, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def make_parameters(function: Callable[..., Any], injected: type) -> dict[str, Any]:
    """Return the JSON Schema of a function's arguments. Parameters of the type `injected` are left
    out. Raises RunwardError for a type that has no schema."""
    hints = get_type_hints(function, include_extras=True)
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if hints.get(name) is injected:
            continue
        if name not in hints or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise RunwardError(f"{function.__name__}: give the parameter {name} a type.")
        properties[name] = make_schema(hints[name])
        if parameter.default is parameter.empty:
            required.append(name)
        elif parameter.default is not None:
            properties[name] |= {"default": parameter.default}
    return _object(properties, required)


def injected_name(function: Callable[..., Any], injected: type) -> str | None:
    """Return the name of the parameter of the type `injected`."""
    hints = get_type_hints(function)
    return next((name for name, hint in hints.items() if hint is injected), None)


def make_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type. A text in `Annotated[…, "text"]` is the description."""
    origin, arguments = get_origin(hint) or hint, get_args(hint)
    if origin is Annotated:
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return make_schema(arguments[0]) | ({"description": notes[0]} if notes else {})
    if origin in (Union, types.UnionType):
        return {"anyOf": [make_schema(argument) for argument in arguments]}
    if is_typeddict(origin):
        fields = {name: make_schema(field) for name, field in get_type_hints(origin).items()}
        return _object(fields, sorted(origin.__required_keys__))
    return _make_plain_schema(origin, arguments)


def _make_plain_schema(origin: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    if origin in PRIMITIVES:
        return {"type": PRIMITIVES[origin]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list:
        return {"type": "array", "items": make_schema(arguments[0] if arguments else Any)}
    if origin is dict:
        values = make_schema(arguments[1] if arguments else Any)
        return {"type": "object", "additionalProperties": values}
    if origin is Any:
        return {}
    raise RunwardError(f"There is no JSON Schema of {origin}. Pass `parameters`.")


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
