"""A cache of tools' definitions for providers. A tool version keeps its ToolSpec between turns and
runs."""

from typing import Final, cast

from pydantic import JsonValue
from pydantic_ai import ToolDefinition

from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.response import Loss
from runward.domain.schema.strict import close_objects
from runward.domain.schema.subschemas import map_children
from runward.llm.providers.access import ProviderName
from runward.llm.strict_mode import STRICT_MODES, UnenforceableError, enforceable_schema

MAX_DEFINITIONS: Final = 4096
MAX_PARTS: Final = 10_000
"""Maximum number of parts of a schema after its lists of types became alternatives."""

_GEMINI_WORDS: Final = STRICT_MODES["gemini"].words
_SAYS_NOTHING: Final = frozenset(
    {"$comment", "$schema", "deprecated", "examples", "readOnly", "writeOnly"}
)
_MAPS: Final = frozenset({"$defs", "properties"})
_SCHEMAS: Final = frozenset({"additionalProperties", "anyOf", "items", "oneOf", "prefixItems"})


class ToolDefinitions:
    """The definitions of tools by their specs. A strict tool is sent as strict if the model
    supports it. Runward validates the arguments in any case."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], tuple[ToolSpec, ToolDefinition, list[Loss]]] = {}

    def definition(
        self, spec: ToolSpec, provider: ProviderName, *, strict: bool
    ) -> tuple[ToolDefinition, list[Loss]]:
        """Return the definition, and the losses. `why`: the end of a sentence for each loss."""
        key = id(spec), strict  # The cache keeps the spec, so that its `id` is not reused.
        if (kept := self._kept.get(key)) is not None:
            return kept[1], kept[2]
        if len(self._kept) >= MAX_DEFINITIONS:
            self._kept.clear()
        parameters, lost, what = spec.parameters, list[Loss](), f"tools.{spec.name}"
        strict = spec.strict and strict
        if provider == "gemini":
            parameters, words = reduce_for_gemini(parameters)
            if words:
                lost.append(
                    Loss(
                        what,
                        f"does not support these keywords in the parameters: {', '.join(words)}",
                    )
                )
        elif strict:
            try:
                parameters = enforce_schema(provider, close_objects(parameters))
            except UnenforceableError as error:
                strict = False
                why = (
                    f"cannot enforce the parameters: {error}; Runward still validates the arguments"
                )
                lost.append(Loss(f"{what}.strict", why))
        made = ToolDefinition(
            name=spec.name,
            parameters_json_schema=parameters,
            description=spec.description or None,
            strict=strict,
        )
        self._kept[key] = spec, made, lost
        return made, lost


def enforce_schema(provider: ProviderName, schema: JsonObject) -> JsonObject:
    """Return the schema in the form of the provider's strict mode. Raises UnenforceableError."""
    told = enforceable_schema(schema, STRICT_MODES[provider])
    return split_types(told) if provider == "anthropic" else told


def reduce_for_gemini(schema: JsonObject) -> tuple[JsonObject, list[str]]:
    """Return the schema with only the keywords that Gemini reads, and the names of the other
    keywords."""
    lost: set[str] = set()
    return cast(JsonObject, _reduce(schema, lost)), sorted(lost)


def split_types(schema: JsonObject) -> JsonObject:
    """Return the schema with each list of types as alternatives, because the `anthropic` library
    requires this form of enforced schemas. Raises UnenforceableError for more than MAX_PARTS parts,
    because nested lists of types multiply."""
    return cast(JsonObject, _split_types(schema, _Parts()))


class _Parts:
    """A counter of a schema's parts. Long texts and lists count as several."""

    def __init__(self) -> None:
        self._left = MAX_PARTS

    def add(self, schema: JsonObject) -> None:
        length = sum(len(value) for value in schema.values() if isinstance(value, str | list))
        self._left -= 1 + length // 16
        if self._left < 0:
            raise UnenforceableError(
                (), f"has more than {MAX_PARTS} parts when each type is written separately"
            )


def _split_types(schema: JsonValue, parts: _Parts) -> JsonValue:
    if not isinstance(schema, dict):
        return schema
    parts.add(schema)
    kinds = schema.get("type")
    if isinstance(kinds, list):
        told = {word: schema[word] for word in schema.keys() & {"description", "title", "$defs"}}
        rest = {word: value for word, value in schema.items() if word not in told}
        return {**told, "anyOf": [_of_kind(rest, kind, parts) for kind in kinds]}
    return map_children(schema, lambda child: _split_types(child, parts))


def _of_kind(schema: JsonObject, kind: JsonValue, parts: _Parts) -> JsonValue:
    return {"type": "null"} if kind == "null" else _split_types(schema | {"type": kind}, parts)


def _reduce(schema: JsonValue, lost: set[str]) -> JsonValue:
    if isinstance(schema, list):
        return [_reduce(one, lost) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: JsonObject = {}
    for word, value in schema.items():
        if word not in _GEMINI_WORDS:
            if word not in _SAYS_NOTHING:
                lost.add(word)
        elif word in _MAPS and isinstance(value, dict):
            kept[word] = {name: _reduce(one, lost) for name, one in value.items()}
        else:
            kept[word] = _reduce(value, lost) if word in _SCHEMAS else value
    return kept
