"""Tools as vendors' functions, each written once: a tool version keeps its ToolSpec between turns
and runs."""

from typing import Final, cast

from pydantic import JsonValue
from pydantic_ai import ToolDefinition

from app.domain.json import JsonObject
from app.domain.tools import ToolSpec
from app.llm.vendors_access import VendorName

MAX_DEFINITIONS: Final = 4096

_GEMINI: Final = frozenset(
    {
        *("$anchor", "$defs", "$id", "$ref", "additionalProperties", "anyOf", "const", "default"),
        *("description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties"),
        *("maximum", "minItems", "minLength", "minProperties", "minimum", "oneOf", "pattern"),
        *("prefixItems", "properties", "propertyOrdering", "required", "title", "type"),
    }
)
"""What Gemini reads of JSON Schema (`parametersJsonSchema`, `responseJsonSchema`, and the words of
its own `Schema`), and `const`, which pydantic-ai writes as an enum.
https://ai.google.dev/gemini-api/docs/structured-output"""
_SAYS_NOTHING: Final = frozenset(
    {"$comment", "$schema", "deprecated", "examples", "readOnly", "writeOnly"}
)
_SAYS_WHAT: Final = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
_MAPS: Final = frozenset({"$defs", "properties"})
_SCHEMAS: Final = frozenset({"additionalProperties", "anyOf", "items", "oneOf", "prefixItems"})


class Definitions:
    """Strict is asked for where the tool is; models that have no strict tools are not told. The
    arguments are validated here in any case."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], tuple[ToolSpec, ToolDefinition, list[str]]] = {}

    def of(
        self, spec: ToolSpec, vendor: VendorName, *, strict: bool
    ) -> tuple[ToolDefinition, list[str]]:
        """And the words of its parameters' schema that had to be left out."""
        key = id(spec), strict  # the spec is kept, so its id stays taken
        if (kept := self._kept.get(key)) is not None:
            return kept[1], kept[2]
        if len(self._kept) >= MAX_DEFINITIONS:
            self._kept.clear()
        parameters, lost = spec.parameters, list[str]()
        strict = spec.strict and strict
        if vendor == "gemini":
            parameters, lost = reduced(parameters)
        elif vendor == "anthropic" and strict:
            told = enforceable(parameters)
            parameters, strict = told or parameters, told is not None
        made = ToolDefinition(
            name=spec.name,
            parameters_json_schema=parameters,
            description=spec.description or None,
            strict=strict,
        )
        self._kept[key] = spec, made, lost
        return made, lost


def reduced(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """The schema in the words that Gemini reads, and those that it does not."""
    lost: set[str] = set()
    return cast(JsonObject, _reduced(schema, lost)), sorted(lost)


def enforceable(schema: JsonObject) -> JsonObject | None:
    """As the `anthropic` library, which prepares schemas that are enforced, takes them: several
    types are alternatives. None: something in it may be anything, which cannot be enforced."""
    try:
        return cast(JsonObject, _enforceable(schema))
    except _AnythingError:
        return None


class _AnythingError(Exception):
    pass


def _enforceable(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict) or schema.get("additionalProperties", False) is not False:
        raise _AnythingError
    if not schema.keys() & _SAYS_WHAT:
        raise _AnythingError
    kinds = schema.get("type")
    if isinstance(kinds, list):
        told = {word: schema[word] for word in schema.keys() & {"description", "title", "$defs"}}
        rest = {word: value for word, value in schema.items() if word not in told}
        return {**told, "anyOf": [_of_kind(rest, kind) for kind in kinds]}
    kept: JsonObject = {}
    for word, value in schema.items():
        if word in _MAPS and isinstance(value, dict):
            kept[word] = {name: _enforceable(one) for name, one in value.items()}
        elif word in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
            kept[word] = [_enforceable(one) for one in value]
        else:
            kept[word] = _enforceable(value) if word == "items" else value
    return kept


def _of_kind(schema: JsonObject, kind: JsonValue) -> JsonValue:
    return {"type": "null"} if kind == "null" else _enforceable(schema | {"type": kind})


def _reduced(schema: JsonValue, lost: set[str]) -> JsonValue:
    if isinstance(schema, list):
        return [_reduced(one, lost) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: JsonObject = {}
    for word, value in schema.items():
        if word not in _GEMINI:
            if word not in _SAYS_NOTHING:
                lost.add(word)
        elif word in _MAPS and isinstance(value, dict):
            kept[word] = {name: _reduced(one, lost) for name, one in value.items()}
        else:
            kept[word] = _reduced(value, lost) if word in _SCHEMAS else value
    return kept
