"""Strict tool schemas: the form that the model reads, and the form that its calls are checked
against.

Providers accept a schema as strict only if every object is closed and requires all its properties.
So a registered schema has two forms:

- `strict_form`, shown to the model: objects are closed, every property is required, optional ones
  may be null, and `oneOf` becomes `anyOf`.
- `close_objects`, used to check calls: the registered schema with its objects closed.

`NullRemover` connects them: a null for an optional property that must not be null means that it is
missing. It is removed before the call is checked, shown, digested and sent. A model may also leave
out an optional property.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.schema.subschemas import Effort, Pointer, Subschemas, map_children, walk

KEYWORDS_NOT_STRICT: Final = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"),
)
"""Keywords that no provider accepts in a strict schema."""

_HINT: Final = 'or register the tool with "strict": false'
_BRANCHES: Final = ("allOf", "anyOf", "oneOf")


def strict_problems(schema: JsonObject) -> Iterator[tuple[Pointer, str]]:
    """Return the reasons why `schema` has no strict form. Returns none if it has one."""
    for keyword in (*_BRANCHES, "not", "enum", "const", "$ref"):
        if keyword in schema:
            message = f"is not allowed at the root of a strict schema; nest it, {_HINT}"
            yield (keyword,), message
    for pointer, node in walk(schema):
        for keyword, message in (*_keyword_problems(node), *_object_problems(node)):
            yield (*pointer, keyword), f"{message}, {_HINT}"


def _keyword_problems(node: JsonObject) -> Iterator[tuple[str, str]]:
    for keyword in KEYWORDS_NOT_STRICT:
        if keyword in node:
            yield keyword, "is not allowed in a strict schema; remove it"
    all_of = node.get("allOf")
    if isinstance(all_of, list) and len(all_of) > 1:
        yield "allOf", "must have exactly one entry in a strict schema; merge the entries"
    if "anyOf" in node and "oneOf" in node:
        yield "oneOf", "is not allowed together with anyOf in a strict schema; nest one of them"


def _object_problems(node: JsonObject) -> Iterator[tuple[str, str]]:
    if node.get("additionalProperties", False) is not False:
        message = "must be false or omitted in a strict schema; declare the properties"
        yield "additionalProperties", message
    properties = node.get("properties")
    if isinstance(properties, dict):
        for keyword in _BRANCHES:
            if keyword in node:
                message = (
                    "is not allowed together with properties in a strict schema; move "
                    "the properties inside"
                )
                yield keyword, message
    for name in _required(node):
        if not isinstance(properties, dict) or name not in properties:
            yield (
                "required",
                (f"names '{name}', which is not a declared property; declare it in properties"),
            )


def strict_form(schema: JsonObject) -> JsonObject:
    """Return the strict form of a schema. `strict_problems` of the schema must be empty."""
    form = _strict(schema)
    assert isinstance(form, dict)
    return form


def close_objects(schema: JsonObject) -> JsonObject:
    """Return `schema` with `additionalProperties: false` wherever it is missing."""
    form = _close(schema)
    assert isinstance(form, dict)
    return form


def _strict(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    node = map_children(schema, _strict)
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    all_of = node.get("allOf")
    if isinstance(all_of, list) and len(all_of) == 1 and isinstance(all_of[0], dict):
        del node["allOf"]
        node = {**all_of[0], **node}
    if _is_object(schema):
        properties = node.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        required = frozenset(_required(schema))
        node["properties"] = {
            name: child if name in required else _nullable(child)
            for name, child in properties.items()
        }
        node["required"] = list(properties)
        node["additionalProperties"] = False
    return node


def _close(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    node = map_children(schema, _close)
    if _is_object(schema):
        node["additionalProperties"] = False
    return node


def _is_object(schema: JsonObject) -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "properties" in schema or "object" in kinds


def _required(schema: JsonObject) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _nullable(schema: JsonValue) -> JsonValue:
    """Return a schema that accepts `schema` or null."""
    if not isinstance(schema, dict):
        return schema
    null: JsonObject = {"type": "null"}
    kind, branches, enum = schema.get("type"), schema.get("anyOf"), schema.get("enum")
    if isinstance(branches, list) and kind is None:
        return schema if null in branches else {**schema, "anyOf": [*branches, null]}
    if kind is not None and not {"$ref", "const", "anyOf"} & schema.keys():
        kinds: list[JsonValue] = kind if isinstance(kind, list) else [kind]
        node: JsonObject = {**schema}
        node["type"] = kinds if "null" in kinds else [*kinds, "null"]
        if isinstance(enum, list) and None not in enum:
            node["enum"] = [*enum, None]
        return node
    about: JsonObject = {k: v for k, v in schema.items() if k == "description"}
    rest: JsonObject = {k: v for k, v in schema.items() if k != "description"}
    return {**about, "anyOf": [rest, null]} if rest else schema


class NullRemover:
    """Removes the nulls of optional properties from a value that is invalid with them.

    When `effort` is spent, the rest of the value stays unchanged, because unions inside unions
    could otherwise take forever.
    """

    def __init__(self, parts: Subschemas, effort: Effort) -> None:
        self._parts = parts
        self._effort = effort

    def clean(self, value: JsonValue, pointer: Pointer = ()) -> JsonValue:
        if not self._effort.step():
            return value
        pointer, schema = self._parts.resolve(pointer)
        if not isinstance(schema, dict):
            return value
        for keyword in _BRANCHES:
            branches = schema.get(keyword)
            if isinstance(branches, list):
                found = [(*pointer, keyword, str(i)) for i in range(len(branches))]
                return self._through(found, value)
        if isinstance(value, dict):
            return self._object(schema, pointer, value)
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            return [self.clean(item, (*pointer, "items")) for item in value]
        return value

    def _through(self, branches: list[Pointer], value: JsonValue) -> JsonValue:
        for branch in self._parts.plausible_branches(branches, value, self._effort):
            candidate = self.clean(value, branch)
            if not self._effort.compare(value):
                return value
            if self._parts.is_valid(branch, candidate, self._effort):
                return candidate
        return value

    def _object(self, schema: JsonObject, pointer: Pointer, value: JsonObject) -> JsonObject:
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            return value
        required = frozenset(_required(schema))
        kept: JsonObject = {}
        for name, item in value.items():
            at = (*pointer, "properties", name)
            if name not in properties:
                kept[name] = item
            elif item is not None:
                kept[name] = self.clean(item, at)
            elif name in required or self._parts.is_valid(at, None, self._effort):
                kept[name] = None
        return kept
