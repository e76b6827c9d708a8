"""What each provider's strict mode takes of JSON Schema, as data with its source.

The table is what the providers document. Where the documentation is silent, it follows the
rewriters of the providers' own client libraries and of pydantic-ai, which were tried against the
services. Read in November 2026.
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
"""The words that every strict mode takes."""
_FORMATS: Final = frozenset(
    {
        *("date", "date-time", "duration", "email", "hostname"),
        *("ipv4", "ipv6", "time", "uuid"),
    }
)


@dataclass(frozen=True, slots=True)
class StrictMode:
    """`words`: the keywords that may stand in a schema; `formats`: the values of `format`, None:
    any. `any_items`: whether an array may hold anything. `max_depth`: objects inside each other,
    `max_properties` and `max_enum_values`: in the whole schema; None: no limit is documented.
    `min_items`: the largest `minItems`."""

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
"""By the provider's name in `provider:model`. Gemini reads these words and refuses none, so its
schemas keep what it reads, and the run is told the rest."""
