"""The part of JSON Schema that each provider's strict mode accepts, with its source.

The table is what the providers document. Where the documentation is silent, it follows the
providers' own client libraries and pydantic-ai, which were tested against the services. Read in
November 2026.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
    of `format`; None: any. `any_items`: an array may hold anything. `max_depth`: objects inside
    each other. `max_properties` and `max_enum_values`: in the whole schema. None: no limit is
    documented. `min_items`: the largest `minItems`."""

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
"""Strict modes by the provider's name in `provider:model`. Gemini ignores other keywords and
refuses none, so its schemas keep the ones that it reads, and the run records the rest as lost."""
