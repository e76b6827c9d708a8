"""A JSON Schema as a tree of subschemas, each identified by its pointer from the root. All
references stay inside the schema (`#`, `#/…`), because registration rejects others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, cast
from urllib.parse import quote, unquote

import jsonschema_rs
from pydantic import JsonValue

from runward.domain.json import JsonObject, compact
from runward.domain.schema.patterns import PatternError, Patterns, refuse_remote

Pointer: TypeAlias = tuple[str, ...]

ROOT_URI: Final = "urn:runward:schema"
EFFORT: Final = 50_000
EFFORT_PER_PART: Final = 8
"""Limits on the comparisons between parts of a value and subschemas. The limit for a value is
EFFORT, which takes some milliseconds, plus EFFORT_PER_PART for each part of the value."""
MAX_CHAIN: Final = 100
"""Maximum length of a chain of references."""
MAX_STEPS: Final = 10_000
"""Maximum number of parts of a value that are examined one by one."""
MAX_COMPARED: Final = 100_000_000
"""Maximum product of a value's parts and its schema's expansion: about a second."""
FREE_SIZE: Final = 200
"""Expansion of a schema that is small enough that no accepted value can exceed MAX_COMPARED."""
MAX_COMPILED: Final = 262_144
"""Maximum number of characters of the compiled parts of a schema. Each character may take 200
bytes."""
TEXT_A_PART: Final = 16
"""Number of characters of a constant that count as one subschema."""
NAME_A_PART: Final = 8
"""Number of characters of a property's name that count as one value."""
TEXT_A_COMPARISON: Final = 64
"""Number of characters of a schema whose compilation costs as much as one comparison."""
DEFINITIONS: Final = ("$defs", "definitions")

_MAPS: Final = (
    *(*DEFINITIONS, "properties", "patternProperties", "dependentSchemas"),
    "dependencies",  # A keyword of draft 7, which the validator also supports in later drafts.
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_ONES: Final = (
    *("items", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("not", "if", "then", "else", "contentSchema"),
)


def child_schemas(schema: JsonValue) -> Iterator[tuple[Pointer, JsonValue]]:
    """Yield the subschemas directly inside `schema`. Data (`enum`, `const`, `default`) are not
    schemas."""
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


def map_children(schema: JsonObject, change: Callable[[JsonValue], JsonValue]) -> JsonObject:
    """Return a copy in which `change` is applied to each direct subschema."""
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
    """Yield every subschema that is an object, with its pointer. The root is first."""
    if isinstance(schema, dict):
        yield pointer, schema
    for step, child in child_schemas(schema):
        yield from walk(child, pointer + step)


def pointer_of(reference: str) -> Pointer | None:
    """Return the pointer of a reference `#/…`, or None for a reference that leaves the schema."""
    if reference == "#":
        return ()
    if not reference.startswith("#/"):
        return None
    steps = unquote(reference[2:]).split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def resolve_pointer(root: JsonValue, pointer: Pointer) -> JsonValue:
    """Return the value at a pointer. Raises LookupError."""
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
    """Raised if a chain of references is longer than MAX_CHAIN."""


def expanded_size(root: JsonObject, patterns: Patterns) -> int:
    """Return the number of subschemas after every reference is replaced by its target. A recursive
    reference counts once. Long constants and the patterns of names count as several subschemas. The
    time and memory of a validation can grow with this number. Raises LongChainError and
    LookupError."""
    return _Expansion(root, patterns).size(root)


class _Expansion:
    def __init__(self, root: JsonObject, patterns: Patterns) -> None:
        self._root = root
        self._patterns = patterns
        self._sizes: dict[str, int] = {}
        self._chain = 0

    def size(self, schema: JsonValue) -> int:
        if not isinstance(schema, dict):
            return 1
        total = 1 + self._weight(schema)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            total += self._of(reference)
        for step, child in child_schemas(schema):
            if step[0] not in DEFINITIONS:
                total += self.size(child)
        return total

    def _weight(self, schema: JsonObject) -> int:
        constants = [schema[keyword] for keyword in ("const", "enum") if keyword in schema]
        total = len(compact(constants)) // TEXT_A_PART if constants else 0
        names = schema.get("patternProperties")
        for source in names if isinstance(names, dict) else ():
            with suppress(PatternError):  # Compiling the complete schema reports this error.
                pattern = self._patterns.compile(source)
                total += NAME_A_PART * pattern.states + (0 if pattern.is_linear else FREE_SIZE)
        return total

    def _of(self, reference: str) -> int:
        if reference not in self._sizes:
            if self._chain >= MAX_CHAIN:
                raise LongChainError
            self._sizes[reference] = 1  # A recursive reference reads this value.
            self._chain += 1
            self._sizes[reference] = self.size(
                resolve_pointer(self._root, pointer_of(reference) or ())
            )
            self._chain -= 1
        return self._sizes[reference]


def is_excessive(size: int, value: JsonValue) -> bool:
    """Return whether validating the value against a schema of this expansion would take too
    long."""
    return size > FREE_SIZE and size * _parts(value) > MAX_COMPARED


def _parts(value: JsonValue) -> int:
    """Return the number of values in `value`. Long names count as several values, because they are
    matched with patterns."""
    total, left = 0, [value]
    while left:
        one = left.pop()
        total += 1
        if isinstance(one, dict):
            total += sum(len(name) * (1 + len(name) // 1000) for name in one) // NAME_A_PART
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
    return total


class Effort:
    """A limit on the work of comparing one value with subschemas.

    Each comparison costs as many parts as the compared value has, because the validator reads all
    of them. The total is linear in the size of the value, however deep unions are nested. A limit
    on steps bounds the work in Python.
    """

    def __init__(self, value: JsonValue) -> None:
        self._sizes: dict[int, int] = {}
        self._value = value  # Held, so that the IDs of its containers are not reused.
        self._left = EFFORT + EFFORT_PER_PART * self._measure(value)
        self._steps = MAX_STEPS

    @property
    def is_spent(self) -> bool:
        return self._left < 0 or self._steps < 0

    def step(self) -> bool:
        """Count one more examined part. Returns False if the limit is reached."""
        self._steps -= 1
        return not self.is_spent

    def compare(self, value: JsonValue) -> bool:
        """Count a comparison of `value`, which is a part of the complete value. Returns False if
        the limit is reached."""
        self._left -= self._sizes.get(id(value), 1)
        return not self.is_spent

    def compile(self, characters: int) -> bool:
        """Count the cost of compiling this many characters of the schema. Returns False if the
        limit is reached."""
        self._left -= characters // TEXT_A_COMPARISON
        return not self.is_spent

    def _measure(self, value: JsonValue) -> int:
        """Store the size of each container, and return the size of `value`. The recursion is safe,
        because `value` is at most MAX_ARGUMENTS_DEPTH deep."""
        if not isinstance(value, (dict, list)):
            return 1
        children = value.values() if isinstance(value, dict) else value
        size = 1 + sum(map(self._measure, children))
        self._sizes[id(value)] = size
        return size


class Subschemas:
    """The parts of one schema, and the validation of values against them. Each part is compiled at
    first use. Few parts of a large schema stay compiled."""

    def __init__(self, root: JsonObject, patterns: Patterns | None = None) -> None:
        self.root = root
        self.patterns = patterns or Patterns()
        self._registry: jsonschema_rs.Registry | None = None
        self._characters = len(compact(root))
        self._compiled: dict[tuple[Pointer, str], jsonschema_rs.Validator] = {}
        self._kept = 0

    def resolve(self, pointer: Pointer) -> tuple[Pointer, JsonValue]:
        """Return the subschema at `pointer`, or its target if it is only a reference."""
        for _ in range(32):
            schema = resolve_pointer(self.root, pointer)
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            target = pointer_of(reference) if isinstance(reference, str) else None
            if target is None:
                break
            pointer = target
        return pointer, resolve_pointer(self.root, pointer)

    def plausible_branches(
        self, branches: Iterable[Pointer], value: JsonValue, effort: Effort
    ) -> list[Pointer]:
        """Return those of `branches` whose type and whose constants match `value`."""
        return [one for one in branches if effort.compare(value) and self._fits(one, value, effort)]

    def is_valid(self, pointer: Pointer, value: JsonValue, effort: Effort) -> bool:
        """Return whether `value` is valid. Returns False if the effort is too small to compile the
        part."""
        pointer = self._target(pointer)
        if self._registry is None:
            resources = [(ROOT_URI, cast("jsonschema_rs.JSONType", self.root))]
            self._registry = jsonschema_rs.Registry(resources, retriever=refuse_remote)
        path = "".join("/" + _escaped(step) for step in pointer)
        part: JsonObject = {"$ref": f"{ROOT_URI}#{path}"}
        return self._is_valid((pointer, ""), part, value, effort)

    def _target(self, pointer: Pointer) -> Pointer:
        """Return `pointer`, or its target if it is only a reference, so that all references to a
        part share its compiled form."""
        for _ in range(MAX_CHAIN):
            schema = resolve_pointer(self.root, pointer)
            if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
                break
            pointer = pointer_of(str(schema["$ref"])) or ()
        return pointer

    def _is_valid(
        self, key: tuple[Pointer, str], part: JsonObject, value: JsonValue, effort: Effort
    ) -> bool:
        if key not in self._compiled:
            text = compact(resolve_pointer(self.root, key[0]))
            size = len(text) + ('"$ref"' in text) * self._characters
            if not effort.compile(size):
                return False
            if self._kept + size > MAX_COMPILED:
                self._compiled.clear()
                self._kept = 0
            self._kept += size
            self._compiled[key] = self.patterns.validator(part, self._registry)
        return self._compiled[key].is_valid(value)

    def _fits(self, pointer: Pointer, value: JsonValue, effort: Effort) -> bool:
        pointer, schema = self.resolve(pointer)
        if not isinstance(schema, dict):
            return schema is True
        if not self._has_constants(pointer, schema, ("type", "const", "enum"), value, effort):
            return False
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not isinstance(value, dict):
            return True
        return all(
            self._has_constants(
                (*pointer, "properties", name),
                properties[name],
                ("const", "enum"),
                value[name],
                effort,
            )
            for name in value.keys() & properties.keys()
        )

    def _has_constants(
        self,
        pointer: Pointer,
        schema: JsonValue,
        words: Sequence[str],
        value: JsonValue,
        effort: Effort,
    ) -> bool:
        """Return whether `value` matches these keywords of the subschema."""
        if not isinstance(schema, dict):
            return True
        plain: JsonObject = {word: schema[word] for word in words if word in schema}
        return not plain or self._is_valid((pointer, words[0]), plain, value, effort)


def _escaped(step: str) -> str:
    return quote(step.replace("~", "~0").replace("/", "~1"), safe="~$")
