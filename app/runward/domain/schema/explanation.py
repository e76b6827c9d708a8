"""Explanations of why a value does not match a schema, so that a model can correct it. They contain
the path, the expected value, and the actual value.

The library's list of errors is not used for a complete value. It builds an error tree for every
branch of every union, which took seconds and hundreds of megabytes for a small nested value.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import jsonschema_rs
from pydantic import JsonValue

from runward.domain.errors import FieldError
from runward.domain.json import JsonObject, compact
from runward.domain.schema.subschemas import Effort, Pointer, Subschemas

MAX_PROBLEMS: Final = 10
MAX_SHOWN: Final = 80
"""Maximum number of characters of a quoted value, name or list."""

_NO_MATCH: Final = "does not match the tool's schema"
_TYPES: Final = {
    "string": "text",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
_WORDS: Final[dict[str, Callable[[JsonValue], str]]] = {
    "type": lambda limit: f"must be {_kinds(limit)}",
    "enum": lambda limit: f"must be one of {_short(compact(limit)[1:-1])}",
    "const": lambda limit: f"must be {_short(compact(limit))}",
    "minimum": lambda limit: f"must be at least {limit}",
    "maximum": lambda limit: f"must be at most {limit}",
    "exclusiveMinimum": lambda limit: f"must be more than {limit}",
    "exclusiveMaximum": lambda limit: f"must be less than {limit}",
    "multipleOf": lambda limit: f"must be a multiple of {limit}",
    "minLength": lambda limit: f"must have at least {limit} characters",
    "maxLength": lambda limit: f"must have at most {limit} characters",
    "pattern": lambda limit: f"must match the pattern {_short(compact(limit))}",
    "format": lambda limit: f"must have the format {_short(compact(limit))}",
    "minItems": lambda limit: f"must have at least {limit} items",
    "maxItems": lambda limit: f"must have at most {limit} items",
    "uniqueItems": lambda limit: "must not contain the same item twice",
    "minProperties": lambda limit: f"must have at least {limit} properties",
    "maxProperties": lambda limit: f"must have at most {limit} properties",
}


class Explanation:
    """Collects at most MAX_PROBLEMS problems, in the order of the schema."""

    def __init__(self, parts: Subschemas, effort: Effort) -> None:
        self.problems: list[FieldError] = []
        self._parts = parts
        self._effort = effort
        self._summaries: dict[Pointer, str] = {}

    def explain(self, value: JsonValue, path: str) -> list[FieldError]:
        """Return the problems of an invalid value: at least one."""
        self.collect(value, path)
        if not self.problems:  # The problem is in a part that was not examined.
            self.problems.append(FieldError(path, _NO_MATCH))
        return self.problems

    def collect(self, value: JsonValue, path: str, pointer: Pointer = ()) -> None:
        self._effort.step()
        if self._is_full() or not self._effort.compare(value):
            return
        if self._parts.is_valid(pointer, value, self._effort):
            return
        before = len(self.problems)
        pointer, schema = self._parts.resolve(pointer)
        if isinstance(schema, dict):
            self._look_at(value, path, pointer, schema)
        if len(self.problems) == before:
            self._add(path, _NO_MATCH, value)

    def _look_at(self, value: JsonValue, path: str, pointer: Pointer, schema: JsonObject) -> None:
        self._plain(value, path, schema)
        match value:
            case dict():
                self._members(value, path, pointer, schema)
            case list():
                self._items(value, path, pointer, schema)
            case _:
                pass
        all_of = schema.get("allOf")
        for i in range(len(all_of) if isinstance(all_of, list) else 0):
            self.collect(value, path, (*pointer, "allOf", str(i)))
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list):
                self._union(
                    value, path, [(*pointer, keyword, str(i)) for i in range(len(branches))]
                )

    def _plain(self, value: JsonValue, path: str, schema: JsonObject) -> None:
        """Check the keywords that concern only the value itself."""
        for keyword, words in _WORDS.items():
            if keyword not in schema or not self._effort.compare(value):
                continue
            alone: JsonObject = {keyword: schema[keyword]}
            # In draft 4, exclusiveMinimum can be true.
            with suppress(jsonschema_rs.ValidationError):
                if self._parts.patterns.validator(alone).is_valid(value):
                    continue
                self._add(path, words(schema[keyword]), value)
                if keyword == "type":
                    return

    def _members(self, value: JsonObject, path: str, pointer: Pointer, schema: JsonObject) -> None:
        declared = schema.get("properties")
        properties = declared if isinstance(declared, dict) else {}
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                at = (*pointer, "properties", name)
                expected = self._summary(at) if name in properties else "any value"
                self._add(f"{path}.{_short(name)}", f"is missing; it must be {expected}")
        other = schema.get("additionalProperties", True)
        known = _short(", ".join(properties)) or "none"
        for name, item in value.items():
            if self._is_full():
                return
            at = f"{path}.{_short(name)}"
            if name in properties:
                self.collect(item, at, (*pointer, "properties", name))
            elif other is False and "patternProperties" not in schema:
                self._add(at, f"is an unknown property; the known properties are: {known}")
            elif isinstance(other, dict) and "patternProperties" not in schema:
                self.collect(item, at, (*pointer, "additionalProperties"))

    def _items(
        self, value: list[JsonValue], path: str, pointer: Pointer, schema: JsonObject
    ) -> None:
        first = schema.get("prefixItems")
        count = len(first) if isinstance(first, list) else 0
        for i, item in enumerate(value):
            if i < count:
                self.collect(item, f"{path}.{i}", (*pointer, "prefixItems", str(i)))
            elif isinstance(schema.get("items"), dict):
                self.collect(item, f"{path}.{i}", (*pointer, "items"))

    def _union(self, value: JsonValue, path: str, branches: list[Pointer]) -> None:
        valid = sum(self._is_valid(branch, value) for branch in branches)
        if valid > 1 and branches[0][-2] == "oneOf":
            self._add(
                path, f"must match exactly one of {len(branches)} alternatives, but matches {valid}"
            )
        if valid:
            return
        plausible = self._parts.plausible_branches(branches, value, self._effort)
        if len(plausible) == 1:
            self.collect(value, path, plausible[0])
            return
        choices = dict.fromkeys(self._summary(branch) for branch in plausible or branches)
        self._add(path, f"must be {_short(' or '.join(choices), 3 * MAX_SHOWN)}", value)

    def _is_valid(self, pointer: Pointer, value: JsonValue) -> bool:
        return self._effort.compare(value) and self._parts.is_valid(pointer, value, self._effort)

    def _summary(self, pointer: Pointer) -> str:
        pointer, schema = self._parts.resolve(pointer)
        if pointer not in self._summaries:
            self._summaries[pointer] = _summary(schema)
        return self._summaries[pointer]

    def _add(self, path: str, words: str, *came: JsonValue) -> None:
        if not self._is_full():
            message = f"{words}, but is {preview(came[0])}" if came else words
            self.problems.append(FieldError(path, message))

    def _is_full(self) -> bool:
        return len(self.problems) >= MAX_PROBLEMS or self._effort.is_spent


def _summary(schema: JsonValue) -> str:
    if not isinstance(schema, dict):
        return "any value"
    for keyword in ("const", "enum"):
        if keyword in schema:
            return _WORDS[keyword](schema[keyword]).removeprefix("must be ")
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        return f"an object with {_short(', '.join(properties))}"
    return _kinds(schema["type"]) if "type" in schema else "a value that matches the schema"


def preview(value: JsonValue) -> str:
    """Return a short description of a value."""
    match value:
        case dict():
            return f"an object with {_short(', '.join(value))}" if value else "an empty object"
        case list():
            return f"an array of {len(value)}"
        case str():
            return f"the text {_short(compact(value[: MAX_SHOWN + 1]))}"
        case _:
            return _short(compact(value))


def _kinds(kinds: JsonValue) -> str:
    names = kinds if isinstance(kinds, list) else [kinds]
    return " or ".join(_TYPES.get(str(name), str(name)) for name in names)


def _short(text: str, limit: int = MAX_SHOWN) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
