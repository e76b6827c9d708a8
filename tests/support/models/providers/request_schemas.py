"""The providers' own descriptions of their requests as closed JSON Schemas: what a client library
says a request may hold, and nothing else, is what its server takes."""

import gzip
import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import jsonschema_rs
import typing_extensions

from tests.support.models.chat_rules import Body

MAX_COMPLAINTS = 3
NUMBERS = {
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
}


class Shape:
    def __init__(self, schema: Body) -> None:
        self._validator = jsonschema_rs.Draft202012Validator(schema)

    def complaints(self, body: Body) -> list[str]:
        """The first few, each with its path."""
        found: list[str] = []
        for error in self._validator.iter_errors(body):
            path = ".".join(map(str, error.instance_path))
            found.append(f"{path}: {error.message[:400]}")
            if len(found) == MAX_COMPLAINTS:
                break
        return found


def of_typed_dict(kind: Any, *, without: frozenset[str], older: Body) -> Shape:
    """Of a TypedDict like those of Stainless's libraries. `without`: parameters of the method that
    become headers. `older`: properties that the library has dropped, and the server has not. A
    union with a response's model, or with a file, is what it is without: neither can be JSON."""
    schemas = _TypedDicts()
    name = schemas.of(kind)["$ref"].rpartition("/")[2]
    for field in without:
        schemas.defs[name]["properties"].pop(field, None)
    schemas.defs[name]["properties"] |= older
    return Shape({"$ref": f"#/$defs/{name}", "$defs": schemas.defs})


class _TypedDicts:
    def __init__(self) -> None:
        self.defs: dict[str, Body] = {}

    def of(self, kind: Any) -> Body:
        kind = _bare(kind)
        if typing_extensions.is_typeddict(kind):
            return self._object(kind)
        origin, args = get_origin(kind), get_args(kind)
        if origin is Literal:
            return {"enum": list(args)}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(arg) for arg in args if _is_json(arg)] or [False]}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.of(args[1])}
        if origin is not None and args:  # Iterable, List, SequenceNotStr
            return {"type": "array", "items": self.of(args[0])}
        names = {str: "string", int: "integer", float: "number", bool: "boolean"}
        if kind in names:
            return {"type": names[kind]}
        return {"type": "null"} if kind in (None, types.NoneType) else {}

    def _object(self, kind: Any) -> Body:
        name = f"{kind.__module__}.{kind.__name__}"
        if name not in self.defs:
            self.defs[name] = {}
            hints = typing_extensions.get_type_hints(kind, include_extras=True)
            self.defs[name] = {
                "type": "object",
                "properties": {field: self.of(hint) for field, hint in hints.items()},
                "required": [field for field, hint in hints.items() if _is_required(hint)],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}


def _bare(kind: Any) -> Any:
    """Without Required, NotRequired and Annotated."""
    wrappers = (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired)
    while get_origin(kind) in wrappers:
        kind = get_args(kind)[0]
    return kind


def _is_required(hint: Any) -> bool:
    return get_origin(hint) is typing_extensions.Required


def _is_json(kind: Any) -> bool:
    kind = _bare(kind)
    if get_origin(kind) is not None or typing_extensions.is_typeddict(kind):
        return True
    return kind in (str, int, float, bool, object, None, types.NoneType)


def of_aws(service: str, operation: str) -> Shape:
    """Of the body of an operation, from the service model that botocore ships."""
    import botocore  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs]

    folder = max((Path(botocore.__file__).parent / "data" / service).iterdir())
    model = json.loads(gzip.decompress((folder / "service-2.json.gz").read_bytes()))
    names: dict[str, Body] = model["shapes"]
    given = model["operations"][operation]["input"]["shape"]
    defs = {name: _aws(shape) for name, shape in names.items() if not shape.get("eventstream")}
    return Shape({"$ref": f"#/$defs/{given}", "$defs": defs})


def _aws(shape: Body) -> Body:
    kind = shape["type"]
    if kind == "structure":
        return {} if shape.get("document") else _structure(shape)
    if kind == "list":
        schema: Body = {"type": "array", "items": _reference(shape["member"])}
        return schema | dict(_limits(shape, "minItems", "maxItems"))
    if kind == "map":
        return {"type": "object", "additionalProperties": _reference(shape["value"])}
    if kind in NUMBERS:
        return {"type": NUMBERS[kind], **dict(_limits(shape, "minimum", "maximum"))}
    if kind != "string":  # blob, timestamp
        return {"type": "string"}
    schema = {"type": "string", **dict(_limits(shape, "minLength", "maxLength"))}
    if "enum" in shape:
        schema["enum"] = shape["enum"]
    if "pattern" in shape:
        schema["pattern"] = f"^(?:{shape['pattern']})$"
    return schema


def _structure(shape: Body) -> Body:
    members = {
        name: _reference(member)
        for name, member in shape["members"].items()
        if member.get("location") is None
    }
    schema: Body = {"type": "object", "properties": members, "additionalProperties": False}
    schema["required"] = [name for name in shape.get("required", []) if name in members]
    return schema | ({"minProperties": 1, "maxProperties": 1} if shape.get("union") else {})


def _reference(member: Body) -> Body:
    return {"$ref": f"#/$defs/{member['shape']}"}


def _limits(shape: Body, least: str, most: str) -> Iterator[tuple[str, Any]]:
    for name, key in (("min", least), ("max", most)):
        if name in shape:
            yield key, shape[name]
