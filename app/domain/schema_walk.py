"""A JSON Schema as a tree of subschemas, each known by its pointer into the root.

Only references into the schema itself exist (`#`, `#/…`); registration refuses every other.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias, cast
from urllib.parse import quote, unquote

import jsonschema_rs
from pydantic import JsonValue

from app.domain.json import JsonObject

Pointer: TypeAlias = tuple[str, ...]

ROOT_URI: Final = "urn:runward:schema"
DEFINITIONS: Final = ("$defs", "definitions")

_MAPS: Final = (*DEFINITIONS, "properties", "patternProperties", "dependentSchemas")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_ONES: Final = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("not", "if", "then", "else", "contentSchema"),
)


class RemoteReferenceError(ValueError):
    """A schema refers to something outside itself."""


def refuse_remote(uri: str) -> JsonValue:
    """The retriever of every validator: nothing is ever fetched or read."""
    raise RemoteReferenceError(f"{uri} is outside the schema")


def below(schema: JsonValue) -> Iterator[tuple[Pointer, JsonValue]]:
    """The subschemas directly inside `schema`; not what is data (`enum`, `const`, `default`)."""
    if not isinstance(schema, dict):
        return
    for keyword in _MAPS:
        children = schema.get(keyword)
        if isinstance(children, dict):
            yield from (((keyword, name), child) for name, child in children.items())
    for keyword in _LISTS:
        children = schema.get(keyword)
        if isinstance(children, list):
            yield from (((keyword, str(i)), child) for i, child in enumerate(children))
    for keyword in _ONES:
        child = schema.get(keyword)
        if isinstance(child, (dict, bool)):
            yield (keyword,), child


def rebuilt(schema: JsonObject, change: Callable[[JsonValue], JsonValue]) -> JsonObject:
    """A copy in which each subschema directly inside is what `change` makes of it."""
    node: JsonObject = {}
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, dict):
            node[keyword] = {name: change(child) for name, child in value.items()}
        elif keyword in _LISTS and isinstance(value, list):
            node[keyword] = [change(child) for child in value]
        elif keyword in _ONES and isinstance(value, dict):
            node[keyword] = change(value)
        else:
            node[keyword] = value
    return node


def walk(schema: JsonValue, pointer: Pointer = ()) -> Iterator[tuple[Pointer, JsonObject]]:
    """Every subschema that is an object, the root first."""
    if isinstance(schema, dict):
        yield pointer, schema
    for step, child in below(schema):
        yield from walk(child, pointer + step)


def pointer_of(reference: str) -> Pointer | None:
    """Where `#/…` points; None for a reference that leaves the schema."""
    if reference == "#":
        return ()
    if not reference.startswith("#/"):
        return None
    steps = unquote(reference[2:]).split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def follow(root: JsonValue, pointer: Pointer) -> JsonValue:
    """Raises LookupError."""
    at = root
    for step in pointer:
        if isinstance(at, list) and step.isdecimal() and int(step) < len(at):
            at = at[int(step)]
        elif isinstance(at, dict) and step in at:
            at = at[step]
        else:
            raise LookupError(step)
    return at


def expansion(root: JsonObject) -> int:
    """How many subschemas the schema would have with every reference replaced by its target,
    recursion counted once. Work and memory of a validation can grow with it."""
    sizes: dict[str, int] = {}

    def size(schema: JsonValue) -> int:
        total = 1
        if not isinstance(schema, dict):
            return total
        reference = schema.get("$ref")
        if isinstance(reference, str):
            total += of(reference)
        for step, child in below(schema):
            if step[0] not in DEFINITIONS:
                total += size(child)
        return total

    def of(reference: str) -> int:
        if reference not in sizes:
            sizes[reference] = 1  # what a recursion finds
            sizes[reference] = size(follow(root, pointer_of(reference) or ()))
        return sizes[reference]

    return size(root)


class Subschemas:
    """The parts of one schema, and whether values are valid against them; each part is compiled
    when it is first asked about."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self._registry: jsonschema_rs.Registry | None = None
        self._compiled: dict[Pointer, jsonschema_rs.Validator] = {}

    def resolve(self, pointer: Pointer) -> tuple[Pointer, JsonValue]:
        """The subschema at `pointer`, its reference followed where it is nothing but one."""
        for _ in range(32):
            schema = follow(self.root, pointer)
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            target = pointer_of(reference) if isinstance(reference, str) else None
            if target is None:
                break
            pointer = target
        return pointer, follow(self.root, pointer)

    def plausible(self, branches: Iterable[Pointer], value: JsonValue) -> list[Pointer]:
        """Those of `branches` that `value` seems meant for: its type, and the constants that
        its properties must have, fit."""
        return [pointer for pointer in branches if _fits(self, pointer, value)]

    def is_valid(self, pointer: Pointer, value: JsonValue) -> bool:
        if pointer not in self._compiled:
            if self._registry is None:
                resources = [(ROOT_URI, cast("jsonschema_rs.JSONType", self.root))]
                self._registry = jsonschema_rs.Registry(resources, retriever=refuse_remote)
            path = "".join("/" + _escaped(step) for step in pointer)
            part: JsonObject = {"$ref": f"{ROOT_URI}#{path}"}
            self._compiled[pointer] = jsonschema_rs.Draft202012Validator(
                part, registry=self._registry, retriever=refuse_remote, validate_formats=True
            )
        return self._compiled[pointer].is_valid(value)


def _escaped(step: str) -> str:
    return quote(step.replace("~", "~0").replace("/", "~1"), safe="~$")


def _fits(parts: Subschemas, pointer: Pointer, value: JsonValue) -> bool:
    pointer, schema = parts.resolve(pointer)
    if not isinstance(schema, dict):
        return schema is True
    plain: JsonObject = {k: schema[k] for k in ("type", "const", "enum") if k in schema}
    if not jsonschema_rs.is_valid(plain, value):
        return False
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(value, dict):
        return True
    for name, child in properties.items():
        if name in value and isinstance(child, dict) and ("const" in child or "enum" in child):
            plain = {k: child[k] for k in ("const", "enum") if k in child}
            if not jsonschema_rs.is_valid(plain, value[name]):
                return False
    return True
