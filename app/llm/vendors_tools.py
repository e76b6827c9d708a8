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
        parameters, lost = worded(spec.parameters, vendor)
        made = ToolDefinition(
            name=spec.name,
            parameters_json_schema=parameters,
            description=spec.description or None,
            strict=spec.strict and strict,
        )
        self._kept[key] = spec, made, lost
        return made, lost


def worded(schema: JsonObject, vendor: VendorName) -> tuple[JsonObject, list[str]]:
    """The schema in the words that the vendor (or its library) reads, and those that it does
    not."""
    match vendor:
        case "gemini":
            lost: set[str] = set()
            return cast(JsonObject, _reduced(schema, lost)), sorted(lost)
        case "anthropic":
            return cast(JsonObject, _single_types(schema)), []
        case "bedrock":
            return schema, []


def is_open(schema: JsonValue) -> bool:
    """Whether an object in it takes any property: Anthropic's strict schemas have none such, and
    an open map would come back empty."""
    if isinstance(schema, list):
        return any(is_open(one) for one in schema)
    if not isinstance(schema, dict):
        return False
    return schema.get("additionalProperties", False) is not False or any(
        is_open(one) for word, one in schema.items() if word not in ("enum", "const", "default")
    )


def _single_types(schema: JsonValue) -> JsonValue:
    """With `anyOf` for a list of types, of which `anthropic.transform_schema` knows nothing."""
    if isinstance(schema, list):
        return [_single_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: JsonObject = {}
    for word, value in schema.items():
        if word in _MAPS and isinstance(value, dict):
            made[word] = {name: _single_types(one) for name, one in value.items()}
        else:
            made[word] = _single_types(value) if word in _SCHEMAS else value
    types = made.get("type")
    if not isinstance(types, list) or "anyOf" in made:
        return made
    del made["type"]
    told: JsonObject = {word: made.pop(word) for word in ("title", "description") if word in made}
    told["anyOf"] = [{"type": kind} if kind == "null" else {"type": kind, **made} for kind in types]
    return told


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
