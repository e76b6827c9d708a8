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
EFFORT: Final = 50_000
EFFORT_PER_PART: Final = 8
"""How many parts of a value are compared with subschemas in all: some milliseconds, and for each
part of a large value this many times."""
MAX_CHAIN: Final = 100
"""References that lead to each other, one after the other."""
MAX_STEPS: Final = 10_000
"""Parts of a value that are looked at one by one."""
DEFINITIONS: Final = ("$defs", "definitions")

_MAPS: Final = (
    *(*DEFINITIONS, "properties", "patternProperties", "dependentSchemas"),
    "dependencies",  # of draft 7; the validator knows it in later drafts too
)
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


class LongChainError(ValueError):
    """References lead to references more than MAX_CHAIN times."""


def expansion(root: JsonObject) -> int:
    """How many subschemas the schema would have with every reference replaced by its target,
    recursion counted once. Work and memory of a validation can grow with it. Raises
    LongChainError."""
    return _Expansion(root).size(root)


class _Expansion:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._sizes: dict[str, int] = {}
        self._chain = 0

    def size(self, schema: JsonValue) -> int:
        total = 1
        if not isinstance(schema, dict):
            return total
        reference = schema.get("$ref")
        if isinstance(reference, str):
            total += self._of(reference)
        for step, child in below(schema):
            if step[0] not in DEFINITIONS:
                total += self.size(child)
        return total

    def _of(self, reference: str) -> int:
        if reference not in self._sizes:
            if self._chain >= MAX_CHAIN:
                raise LongChainError
            self._sizes[reference] = 1  # what a recursion finds
            self._chain += 1
            self._sizes[reference] = self.size(follow(self._root, pointer_of(reference) or ()))
            self._chain -= 1
        return self._sizes[reference]


class Effort:
    """Limit the work of comparing one value with subschemas.

    Each comparison costs as many parts as the compared value has, because the validator reads all
    of them. The total is linear in the size of the value, however unions are nested. A limit on
    steps bounds the part of the work that Python does."""

    def __init__(self, value: JsonValue) -> None:
        self._sizes: dict[int, int] = {}
        self._value = value  # kept, so that the ids of its containers stay taken
        self._left = EFFORT + EFFORT_PER_PART * self._measure(value)
        self._steps = MAX_STEPS

    @property
    def is_spent(self) -> bool:
        return self._left < 0 or self._steps < 0

    def step(self) -> bool:
        """Look at one more part. False: the limit is reached."""
        self._steps -= 1
        return not self.is_spent

    def compare(self, value: JsonValue) -> bool:
        """Compare `value`, a part of the whole, once more. False: the limit is reached."""
        self._left -= self._sizes.get(id(value), 1)
        return not self.is_spent

    def _measure(self, value: JsonValue) -> int:
        """Store the size of each container, which is at most MAX_ARGUMENTS_DEPTH deep."""
        if not isinstance(value, (dict, list)):
            return 1
        children = value.values() if isinstance(value, dict) else value
        size = 1 + sum(map(self._measure, children))
        self._sizes[id(value)] = size
        return size


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

    def plausible(
        self, branches: Iterable[Pointer], value: JsonValue, effort: Effort
    ) -> list[Pointer]:
        """Those of `branches` that `value` seems meant for: its type, and the constants that
        its properties must have, fit."""
        return [one for one in branches if effort.compare(value) and _fits(self, one, value)]

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
