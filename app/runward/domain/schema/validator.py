"""JSON Schemas of tools. They are checked at registration, compiled once, and used for every call.

Paths are dotted: `parameters.properties.amount.type` in a schema, `arguments.items.0.amount` in a
call. Nothing outside a schema is ever downloaded.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final, cast

import jsonschema_rs
from pydantic import JsonValue

from runward.domain.errors import FieldError
from runward.domain.json import (
    JsonObject,
    UnstorableError,
    clean_json,
    compact,
    is_nested_deeper,
    parse,
)
from runward.domain.schema.explanation import MAX_PROBLEMS, MAX_SHOWN, Explanation, preview
from runward.domain.schema.patterns import PatternError, Patterns, refuse_remote
from runward.domain.schema.strict import NullRemover, close_objects, strict_problems
from runward.domain.schema.subschemas import (
    MAX_CHAIN,
    Effort,
    LongChainError,
    Pointer,
    Subschemas,
    expanded_size,
    is_excessive,
    pointer_of,
    resolve_pointer,
    walk,
)

MAX_SCHEMA_BYTES: Final = 65_536
MAX_SCHEMA_DEPTH: Final = 100
"""Maximum depth of nested objects and arrays."""
MAX_EXPANSION: Final = 100_000
"""Maximum number of subschemas, with every reference replaced by its target."""
MAX_ARGUMENTS_DEPTH: Final = 64
MAX_ARGUMENTS: Final = 1_048_576
"""Maximum number of characters of the arguments of one call, as the model wrote them."""

_DRAFTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
)
_INDIRECT: Final = ("$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor")
_TOO_LARGE: Final = (
    "has too many values to be validated against a schema of this size; send fewer values at once"
)
_TOO_LONG: Final = (
    "has too many or too long strings for the patterns of the schema; send shorter strings"
)
_TYPES: Final = "array, boolean, integer, null, number, object, string"


class SchemaError(ValueError):
    """Raised if registration rejects the schema. `pointer`: the invalid place in the schema."""

    def __init__(self, message: str, pointer: Pointer = ()) -> None:
        super().__init__(message)
        self.pointer = pointer


def check_schema(
    schema: JsonValue, *, strict: bool, at: str = "parameters", object_root: bool = True
) -> list[FieldError]:
    """Return the problems of a schema for its registration. `object_root`: the schema describes the
    arguments of a call, which are always an object."""
    if not isinstance(schema, dict):
        return [FieldError(at, f"must be a JSON Schema object, but is {preview(schema)}")]
    if is_nested_deeper(schema, MAX_SCHEMA_DEPTH):
        return [FieldError(at, f"must not be nested more than {MAX_SCHEMA_DEPTH} levels deep")]
    if (size := len(compact(schema).encode())) > MAX_SCHEMA_BYTES:
        return [FieldError(at, f"must have at most {MAX_SCHEMA_BYTES} bytes, but has {size}")]
    for find in (_meta_problems, _reference_problems, _compile_problems):
        if found := list(_field_errors(at, find(schema))):
            return found
    if object_root and schema.get("type") != "object":
        kind = preview(schema.get("type")) if "type" in schema else "missing"
        return [FieldError(f"{at}.type", f'must be "object" at the root, but is {kind}')]
    return list(_field_errors(at, strict_problems(schema))) if strict else []


class Validator:
    """A compiled schema. `strict`: whether it is checked as domain/schema/strict.py describes.
    `at`: the beginning of every path.

    Compiled parts are cached, so create one validator for each version of a tool. A value that
    would take too long to check is invalid. Raises SchemaError.
    """

    def __init__(self, schema: JsonObject, *, strict: bool = False, at: str = "arguments") -> None:
        schema = {key: value for key, value in schema.items() if key != "$id"}
        self._schema = close_objects(schema) if strict else schema
        self._strict = strict
        self._field_errors = at
        self._patterns = Patterns()
        self._validator = _compile(self._schema, self._patterns)
        self._parts = Subschemas(self._schema, self._patterns)
        self._size = _size(self._schema, self._patterns)

    def without_nulls(self, value: JsonObject) -> JsonObject:
        """Return `value` as it is checked and sent. For a strict tool, nulls of missing optional
        properties are removed."""
        self._patterns.begin()
        if not self._strict or is_excessive(self._size, value) or self._validator.is_valid(value):
            return value
        return cast(JsonObject, NullRemover(self._parts, Effort(value)).clean(value))

    def problems(self, value: JsonValue) -> list[FieldError]:
        """Return at most MAX_PROBLEMS problems of `value`. If there are none,
        `without_nulls(value)` is valid."""
        if is_excessive(self._size, value):
            return [FieldError(self._field_errors, _TOO_LARGE)]
        if isinstance(value, dict):
            value = self.without_nulls(value)
        self._patterns.begin()
        is_valid = self._validator.is_valid(value)
        if self._patterns.is_spent:
            return [FieldError(self._field_errors, _TOO_LONG)]
        return (
            []
            if is_valid
            else Explanation(self._parts, Effort(value)).explain(value, self._field_errors)
        )


class RefusedSchema(Validator):
    """Replaces a registered schema that exceeds a newer limit."""

    def __init__(self, reason: str, at: str) -> None:
        self._problem = FieldError(at, f"cannot be validated: {reason}")

    def without_nulls(self, value: JsonObject) -> JsonObject:
        return value

    def problems(self, value: JsonValue) -> list[FieldError]:
        return [self._problem]


def stored_validator(schema: JsonObject, *, strict: bool = False, at: str) -> Validator:
    """Return the validator of a registered schema. If registration would reject the schema today,
    the validator accepts no value."""
    try:
        return Validator(schema, strict=strict, at=at)
    except SchemaError as error:
        return RefusedSchema(
            f"this version of Runward no longer accepts the registered schema: {error}", at
        )


def parse_arguments(raw: str) -> JsonObject | list[FieldError]:
    """Return the parsed arguments of a call, or their problems. An empty text gives `{}`. Values
    that PostgreSQL cannot store are replaced."""
    at = "arguments"
    if not raw.strip():
        return {}
    if len(raw) > MAX_ARGUMENTS:
        return [FieldError(at, f"must have at most {MAX_ARGUMENTS} characters")]
    try:
        value = parse(raw, max_depth=2 * MAX_ARGUMENTS_DEPTH)  # The problem is reported below.
    except ValueError as error:
        return [FieldError(at, f"are not valid JSON: {_shortened(str(error))}")]
    if not isinstance(value, dict):
        return [FieldError(at, f"must be a JSON object, but is {preview(value)}")]
    if is_nested_deeper(value, MAX_ARGUMENTS_DEPTH):
        return [FieldError(at, f"must not be nested more than {MAX_ARGUMENTS_DEPTH} levels deep")]
    try:
        return cast(JsonObject, clean_json(value)[0])
    except UnstorableError as error:
        return [FieldError(at, f"cannot be stored: {error}")]


def _compile(schema: JsonObject, patterns: Patterns) -> jsonschema_rs.Validator:
    try:
        return patterns.validator(schema)
    except jsonschema_rs.ValidationError as error:
        pointer = tuple(str(step) for step in error.instance_path)
        message = error.message.rpartition(f"{PatternError.__name__}: ")[2]
        raise SchemaError(_shortened(message), pointer) from None
    except ValueError as error:
        raise SchemaError(_shortened(str(error))) from None


def _size(schema: JsonObject, patterns: Patterns) -> int:
    try:
        return expanded_size(schema, patterns)
    except LongChainError:
        text = (
            f"the schema has a chain of more than {MAX_CHAIN} references; refer to the last one "
            "directly"
        )
    except LookupError as error:
        text = f"the schema refers to {_shortened(str(error))}, which does not exist"
    raise SchemaError(text)


@lru_cache(maxsize=2 * len(_DRAFTS))
def _meta_validator(draft: str) -> jsonschema_rs.Validator:
    """Return the validator of a draft. It is cached, because compiling it takes longer than
    checking most schemas."""
    return jsonschema_rs.validator_for({"$schema": draft, "$ref": draft}, retriever=refuse_remote)


def _meta_problems(schema: JsonObject) -> Iterator[tuple[Pointer, str]]:
    draft = schema.get("$schema", _DRAFTS[0])
    if not isinstance(draft, str) or draft.removesuffix("#") not in _DRAFTS:
        yield ("$schema",), f"must be one of {', '.join(_DRAFTS)}, or be omitted"
        return
    seen: set[Pointer] = set()
    for error in _meta_validator(draft).iter_errors(schema):
        pointer = tuple(str(step) for step in error.instance_path)
        if pointer in seen:
            continue
        seen.add(pointer)
        if pointer and pointer[-1] == "type":
            yield pointer, f"must be one of {_TYPES}, or an array of them"
        else:
            yield pointer, _shortened(error.message)


def _reference_problems(schema: JsonObject) -> Iterator[tuple[Pointer, str]]:
    for pointer, node in walk(schema):
        for keyword in (*_INDIRECT, *(("$id",) if pointer else ())):
            if keyword in node:
                yield (*pointer, keyword), 'is not supported; use "$ref": "#/$defs/…" instead'
        reference = node.get("$ref")
        if not isinstance(reference, str):
            continue
        target = pointer_of(reference)
        if target is None:
            yield (
                (*pointer, "$ref"),
                "must point into the schema itself (#/$defs/…), because Runward "
                "never fetches a schema",
            )
            continue
        try:
            resolve_pointer(schema, target)
        except LookupError:
            yield (*pointer, "$ref"), f"points to {_shortened(reference)}, which does not exist"


def _compile_problems(schema: JsonObject) -> Iterator[tuple[Pointer, str]]:
    patterns = Patterns()
    try:
        size = _size(schema, patterns)
    except SchemaError as error:
        yield (), f"cannot be used: {error}"
        return
    if size > MAX_EXPANSION:
        yield (
            (),
            f"expands to more than {MAX_EXPANSION} subschemas when its references "
            "are followed; use fewer references to schemas that contain references",
        )
        return
    try:
        _compile(schema, patterns)
    except SchemaError as error:
        yield error.pointer, f"cannot be used: {error}"


def _field_errors(at: str, problems: Iterator[tuple[Pointer, str]]) -> Iterator[FieldError]:
    for pointer, message in islice(problems, MAX_PROBLEMS):
        yield FieldError(".".join((at, *(_shortened(step) for step in pointer))), message)


def _shortened(text: str) -> str:
    half = MAX_SHOWN
    return text if len(text) <= 2 * half else f"{text[:half]} … {text[-half:]}"
