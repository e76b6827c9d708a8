"""Tools and answers by schema, as all of OpenAI's protocols say them."""

from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from app.domain.json import JsonObject
from app.domain.schema import strict_form
from app.domain.tools import ToolSpec

OUTPUT_NAME: Final = "output"
MAX_FUNCTIONS: Final = 4096


class Functions:
    """Tools as functions, each written once: a tool version keeps its ToolSpec between turns and
    runs, and the strict form of a schema takes its time. `write` is the protocol's way to say
    what `function` says."""

    def __init__(self, write: Callable[[ToolSpec], JsonObject]) -> None:
        self._write = write
        self._kept: dict[int, tuple[ToolSpec, JsonObject]] = {}  # the spec keeps its id taken

    def of(self, spec: ToolSpec) -> JsonObject:
        kept = self._kept.get(id(spec))
        if kept is not None:
            return kept[1]
        if len(self._kept) >= MAX_FUNCTIONS:
            self._kept.clear()
        written = self._write(spec)
        self._kept[id(spec)] = spec, written
        return written


def function(spec: ToolSpec) -> JsonObject:
    said: JsonObject = {"name": spec.name}
    if spec.description:
        said["description"] = spec.description
    if spec.strict:
        said |= {"parameters": strict_form(spec.parameters), "strict": True}
    else:
        said["parameters"] = spec.parameters
    return said


def output_format(schema: JsonObject) -> JsonObject:
    """Strict where the schema is one that OpenAI takes as strict; the answer is validated here
    in any case."""
    shape: JsonObject = {"name": OUTPUT_NAME, "schema": schema}
    if is_strict(schema):
        shape["strict"] = True
    return shape


def is_strict(schema: JsonValue) -> bool:
    """Every object in it is closed, and requires all its properties."""
    if isinstance(schema, list):
        return all(is_strict(child) for child in schema)
    if not isinstance(schema, dict):
        return True
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return False
    if schema.get("type") == "object" or properties:
        required = schema.get("required", [])
        if schema.get("additionalProperties") is not False or not isinstance(required, list):
            return False
        if not properties.keys() <= {name for name in required if isinstance(name, str)}:
            return False
    children = [
        child for key, child in schema.items() if key not in ("properties", "enum", "const")
    ]
    return is_strict(children) and is_strict([*properties.values()])
