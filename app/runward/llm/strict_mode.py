"""The part of JSON Schema that each provider's strict mode accepts, and the conversion of schemas
to it.

If the mode does not support a limit on single values (`uniqueItems`, a `format`), the limit moves
to the description. The model reads it there, and Runward validates it. A reference with a
description is wrapped. If the mode does not support the structure of a schema, the schema is not
converted, and its tool is not strict.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject, compact
from runward.domain.schema.subschemas import Pointer, map_children, pointer_of, walk

SHAPE: Final = frozenset(
    {
        *("$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions"),
        *("description", "enum", "items", "properties", "required", "title", "type"),
    }
)
"""The keywords that every strict mode accepts."""
_FORMATS: Final = frozenset(
    {
        *("date", "date-time", "duration", "email", "hostname"),
        *("ipv4", "ipv6", "time", "uuid"),
    }
)


@dataclass(frozen=True, slots=True)
class StrictMode:
    """The limits of one strict mode. `words`: the accepted keywords. `formats`: the accepted values
    of `format`, or None if all are accepted. `any_items`: whether an array can contain any values.
    `max_depth`: maximum nesting of objects. `max_properties` and `max_enum_values`: limits for the
    whole schema, or None if no limit is documented. `min_items`: the maximum of `minItems`."""

    source: str
    words: frozenset[str]
    formats: frozenset[str] | None
    any_items: bool = False
    max_depth: int | None = None
    max_properties: int | None = None
    max_enum_values: int | None = None
    min_items: int | None = None


_OPENAI: Final = StrictMode(
    source="https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas",
    words=SHAPE
    | {
        *("exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maximum"),
        *("minItems", "minimum", "multipleOf", "pattern"),
    },
    formats=_FORMATS,
    max_depth=10,
    max_properties=5000,
    max_enum_values=1000,
)
_CLAUDE: Final = StrictMode(
    source="https://platform.claude.com/docs/en/build-with-claude/structured-outputs"
    "#json-schema-limitations",
    words=SHAPE | {"allOf", "format", "minItems", "oneOf", "pattern"},
    formats=_FORMATS | {"uri"},
    min_items=1,
)
STRICT_MODES: Final[Mapping[str, StrictMode]] = {
    "openai": _OPENAI,
    "openai-responses": _OPENAI,
    "anthropic": _CLAUDE,
    "bedrock": StrictMode(
        source="https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html",
        words=_CLAUDE.words,
        formats=_CLAUDE.formats,
        min_items=1,
    ),
    "gemini": StrictMode(
        source="https://ai.google.dev/gemini-api/docs/structured-output",
        words=SHAPE
        | {
            *("$anchor", "$id", "default", "format", "maxItems", "maxLength", "maxProperties"),
            *("maximum", "minItems", "minLength", "minProperties", "minimum", "oneOf", "pattern"),
            *("prefixItems", "propertyOrdering"),
        }
        - {"definitions"},
        formats=None,
        any_items=True,
    ),
}
"""Strict modes by the provider's name in `provider:model`. They follow the providers' documentation
of November 2026. If the documentation does not specify a limit, they follow the providers' client
libraries and pydantic-ai, which were tested against the services.

Gemini ignores unsupported keywords. Its schemas keep the supported keywords, and the run records
the others as lost. """


_DESCRIBED_KEYWORDS: Final = frozenset(
    {
        *("contentEncoding", "contentMediaType", "default", "examples", "exclusiveMaximum"),
        *("exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties", "maximum"),
        *("minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern"),
        *("contains", "maxContains", "minContains", "uniqueItems"),
    }
)
"""Keywords that limit a value and can be moved to the description."""
_SHAPE_KEYWORDS: Final = frozenset(
    {
        *("additionalItems", "allOf", "dependencies", "dependentRequired", "dependentSchemas"),
        *("else", "if", "not", "oneOf", "patternProperties", "prefixItems", "propertyNames"),
        *("then", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords that change the structure of a value. Other unsupported keywords have no effect and are
dropped."""
_TYPE_KEYWORDS: Final = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf", "type"})
_KEYWORDS_REFUSED_WITH_REF: Final = _TYPE_KEYWORDS - {"$ref"} | {"items", "properties", "required"}
_KEYWORDS_KEPT_WITH_REF: Final = frozenset({"$ref", "$defs", "definitions"})
_LOOKAROUND: Final = re.compile(r"\(\?(?:[=!]|<[=!])")
MAX_DESCRIBED_CHARS: Final = 200
"""Maximum number of characters of one value that is moved to a description."""


class UnenforceableError(ValueError):
    """Raised if the strict mode does not support the schema. The message contains the path and the
    reason."""

    def __init__(self, pointer: Pointer, why: str) -> None:
        super().__init__(f"{'.'.join(('the schema', *pointer))} {why}")


def enforceable_schema(schema: JsonObject, mode: StrictMode) -> JsonObject:
    """Return the schema in the form of the strict mode. Its objects must be closed. Raises
    UnenforceableError."""
    for pointer, node in walk(schema):
        _check_shape(pointer, node, mode)
    form = _rewrite(schema, mode)
    assert isinstance(form, dict)
    _check_size(form, mode)
    return form


def _check_shape(pointer: Pointer, node: JsonObject, mode: StrictMode) -> None:
    if unknown := sorted(node.keys() & (_SHAPE_KEYWORDS - mode.words)):
        raise UnenforceableError(
            pointer, f"has keywords that strict mode does not support: {', '.join(unknown)}"
        )
    if node.get("additionalProperties", False) is not False:
        raise UnenforceableError(pointer, "allows properties that it does not declare")
    for step, child in _parts(node):
        if not isinstance(child, dict) or not child.keys() & _TYPE_KEYWORDS:
            raise UnenforceableError((*pointer, *step), "allows any value")
    kinds = node.get("type")
    is_array = kinds == "array" or (isinstance(kinds, list) and "array" in kinds)
    if is_array and not mode.any_items and "items" not in node:
        raise UnenforceableError(pointer, "is an array without an items schema")
    if "$ref" in node:
        _check_reference(pointer, node)


def _check_reference(pointer: Pointer, node: JsonObject) -> None:
    reference = str(node["$ref"])
    if not _is_definition(reference):
        raise UnenforceableError(
            pointer,
            f"has a $ref that is not a definition of the schema: {reference[:MAX_DESCRIBED_CHARS]}",
        )
    if beside := sorted(node.keys() & _KEYWORDS_REFUSED_WITH_REF):
        raise UnenforceableError(
            pointer,
            f"has keywords that strict mode does not allow together with $ref: {', '.join(beside)}",
        )


def _parts(node: JsonObject) -> Iterator[tuple[Pointer, JsonValue]]:
    """Yield the subschemas whose values the model writes."""
    for word in ("properties", "$defs", "definitions"):
        children = node.get(word)
        if isinstance(children, dict):
            yield from (((word, name), child) for name, child in children.items())
    for word in ("anyOf", "oneOf", "allOf"):
        children = node.get(word)
        if isinstance(children, list):
            yield from (((word, str(at)), child) for at, child in enumerate(children))
    if "items" in node:
        yield ("items",), node["items"]


def _is_definition(reference: str) -> bool:
    target = pointer_of(reference)
    return target == () or (
        target is not None and len(target) == 2 and target[0] in ("$defs", "definitions")
    )


def _rewrite(schema: JsonValue, mode: StrictMode) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    told = {
        word: schema[word]
        for word in schema
        if word in _DESCRIBED_KEYWORDS and not _supports(schema, word, mode)
    }
    kept: JsonObject = {
        word: value for word, value in schema.items() if word in mode.words and word not in told
    }
    node = map_children(kept, lambda child: _rewrite(child, mode))
    if told:
        node["description"] = _extend_description(schema.get("description"), told)
    if "$ref" in node and node.keys() - _KEYWORDS_KEPT_WITH_REF:
        node["anyOf"] = [{"$ref": node.pop("$ref")}]
    return node


def _supports(schema: JsonObject, word: str, mode: StrictMode) -> bool:
    value = schema[word]
    if word not in mode.words:
        return False
    if word == "format":
        return mode.formats is None or value in mode.formats
    if word == "pattern":
        return not _LOOKAROUND.search(str(value))
    if word == "minItems" and mode.min_items is not None and isinstance(value, int | float):
        return value <= mode.min_items
    return True


def _extend_description(description: JsonValue, limits: JsonObject) -> str:
    notes = "; ".join(
        f"{word}: {compact(value)[:MAX_DESCRIBED_CHARS]}" for word, value in limits.items()
    )
    return f"{description} ({notes})" if isinstance(description, str) else f"({notes})"


def _check_size(schema: JsonObject, mode: StrictMode) -> None:
    properties = values = 0
    for pointer, node in walk(schema):
        named, listed = node.get("properties"), node.get("enum")
        properties += len(named) if isinstance(named, dict) else 0
        values += len(listed) if isinstance(listed, list) else 0
        inside = pointer[2:] if pointer[:1] in (("$defs",), ("definitions",)) else pointer
        depth = _objects_above(inside) + 1
        if named is not None and mode.max_depth is not None and depth > mode.max_depth:
            raise UnenforceableError(pointer, f"is an object inside {mode.max_depth} other objects")
    if mode.max_properties is not None and properties > mode.max_properties:
        raise UnenforceableError((), f"has more than {mode.max_properties} properties")
    if mode.max_enum_values is not None and values > mode.max_enum_values:
        raise UnenforceableError((), f"has more than {mode.max_enum_values} values in its enums")


def _objects_above(pointer: Pointer) -> int:
    """Return the number of properties in a pointer. Each property is two steps: `properties` and
    its name."""
    count = at = 0
    while at < len(pointer):
        is_property = pointer[at] == "properties"
        count += is_property
        at += 2 if is_property or pointer[at] in ("anyOf", "$defs") else 1
    return count
