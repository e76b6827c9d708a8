"""Guesses of the tool that a message describes and of the tool's arguments, from a plain text and
the tool's schema. The same text always gives the same result. Values next to a parameter's name
have precedence over other values of the right type."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import JsonValue

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec

# Maximum number of characters that are read of the user's message and of a tool.
MAX_TEXT: Final = 16_384
MAX_GUESSES: Final = 8  # Maximum number of tools whose arguments are searched for.
NAME_WEIGHT: Final = 3
SENSIBLE_SCORE: Final = 3
"""Minimum score of a guess: one word of the tool's name, or three words of its description and
parameters."""
MAX_DEPTH: Final = 8
MAX_LOOKS: Final = 1_000
"""Maximum number of searches in one text. Further searches find nothing."""

_EMAIL: Final = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_URL: Final = re.compile(r"https?://[^\s\"'<>)]+")
_DATE: Final = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})?)?"
)
_QUOTED: Final = re.compile(r"\"([^\"]+)\"|(?<!\w)'([^']+)'(?!\w)|“([^“”]+)”")
_ASSIGNED: Final = re.compile(r"(?<=[=:])\s*([^\s,;]+)")
_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,15}(?:,\d{3}){0,5}(?:\.\d{1,15})?(?!\w)")
_ID: Final = re.compile(r"(?<!\w)#?(?=[\w-]{0,64}\d)[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*(?!\w)")
_PLACE: Final = re.compile(
    r"\b(?:in|for|to|at|from|about|of|on)\s+((?:[A-Z][\w-]*)(?:\s+[A-Z][\w-]*)*)"
)
_WORD: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ID_NAMES: Final = frozenset({"id", "number", "code", "key", "reference", "ref", "sku", "order"})
_NEGATIONS: Final = frozenset({"no", "not", "without", "never", "don"})
_FILLER: Final = frozenset(
    """a an and are as at be but by can could do does for from get give has have how i if in is it
    its let me my need now of on or our please should so tell that the their them then there this
    to us use using want was we what when where which who will with would you your""".split()  # noqa: SIM905
)


def words(text: str) -> list[str]:
    """Return the lower-case words without fillers. Names are split at `_`, `-` and capitals."""
    found = (word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text)))
    return [_stem(word) for word in found if word not in _FILLER]


def fill_arguments(
    schema: JsonObject, text: str, *, known: frozenset[str] = frozenset(), force: bool = False
) -> JsonObject | None:
    """Return the arguments, or None if the text lacks a required one. With `force`, a missing value
    is invented. `known`: words of the tool's name, which are not arguments."""
    return _Source(text, known, force=force).object(schema, 0)


def guess_call(said: str, tools: Sequence[ToolSpec]) -> tuple[str, JsonObject] | None:
    """Return a call of the best tool for which the message contains arguments, or None. If several
    tools have the same score, the first one is used."""
    heard = frozenset(words(said))
    for spec in _rank_tools(heard, tools)[:MAX_GUESSES]:
        if _score(heard, spec) < SENSIBLE_SCORE:
            return None
        arguments = fill_arguments(spec.parameters, said, known=frozenset(words(spec.name)))
        if arguments is not None:
            return spec.name, arguments
    return None


def force_call(said: str, tools: Sequence[ToolSpec]) -> tuple[str, JsonObject]:
    spec = _rank_tools(frozenset(words(said)), tools)[0]
    known = frozenset(words(spec.name))
    return spec.name, fill_arguments(spec.parameters, said, known=known, force=True) or {}


def _rank_tools(heard: frozenset[str], tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    return sorted(tools, key=lambda spec: -_score(heard, spec))


def _score(heard: frozenset[str], spec: ToolSpec) -> int:
    name = set(words(spec.name))
    properties = spec.parameters.get("properties")
    schema = compact(properties)[:MAX_TEXT] if properties else ""
    other = set(words(spec.description[:MAX_TEXT])) | set(words(schema))
    return NAME_WEIGHT * len(heard & name) + len(heard & (other - name))


class _Source:
    """A text from which each value is taken only once."""

    def __init__(self, text: str, known: frozenset[str], *, force: bool) -> None:
        self._left = text
        self._known = known
        self._force = force
        self._looks = MAX_LOOKS
        self._words = words(text)

    def object(self, schema: Mapping[str, Any], depth: int) -> JsonObject | None:
        properties = _mapping(schema.get("properties"))
        required = set(_texts(schema.get("required")))
        taken = self._named_values(properties)
        # Parameters with specific types come first, because a free text takes the remaining words.
        for name in sorted(properties, key=lambda name: _is_free_text(name, properties[name])):
            if name in taken:
                continue
            shape = _shape(properties[name])
            found, value = self._value(name, shape, depth, needed=name in required)
            if found:
                taken[name] = value
            elif name in required:
                if _nullable(properties[name]):
                    taken[name] = None
                elif not self._force:
                    return None
                else:
                    taken[name] = _placeholder(shape)
        return {name: taken[name] for name in properties if name in taken}

    def _named_values(self, properties: Mapping[str, Any]) -> dict[str, JsonValue]:
        """Return the values that directly follow their parameter's name. They are taken before any
        guess."""
        taken: dict[str, JsonValue] = {}
        for name in properties:
            shape = _shape(properties[name])
            kind = shape.get("type", "string")
            value: JsonValue = None
            if {"enum", "const"} & set(shape):
                continue
            if kind in ("integer", "number"):
                value = _number_of(self._next_to(name, _NUMBER), whole=kind == "integer")
            elif kind == "string" and _ID_NAMES & set(words(name)):
                value = self._next_to(name, _ID)
            elif kind == "string" and "format" not in shape:
                value = self._next_to(name, _QUOTED) or self._next_to(name, _ASSIGNED)
            if value is not None:
                taken[name] = value.removeprefix("#") if isinstance(value, str) else value
        return taken

    def _value(
        self, name: str, shape: Mapping[str, Any], depth: int, *, needed: bool
    ) -> tuple[bool, JsonValue]:
        """Return whether a value was found, and the value."""
        if "const" in shape:
            return True, shape["const"]
        if "enum" in shape:
            return self._choice(shape["enum"])
        if "default" in shape and not self._named(name):
            return needed, shape["default"]
        if shape.get("type", "string") == "string":
            return self._text(name, shape, needed=needed)
        return self._typed(name, shape, depth, needed=needed)

    def _typed(
        self, name: str, shape: Mapping[str, Any], depth: int, *, needed: bool
    ) -> tuple[bool, JsonValue]:
        match shape.get("type"):
            case "integer" | "number" as kind:
                return self._number(whole=kind == "integer")
            case "boolean":
                return self._flag(name, needed=needed)
            case "array":
                return self._list(name, shape, depth)
            case "object" if depth < MAX_DEPTH:
                value = self.object(shape, depth + 1)
                return value is not None and (needed or bool(value)), value
            case _:
                return False, None

    def _choice(self, choices: Any) -> tuple[bool, JsonValue]:
        for choice in cast(list[JsonValue], choices) if isinstance(choices, list) else []:
            if self._looks <= 0:
                break
            if choice is None:
                continue
            pattern = re.compile(rf"(?<!\w){re.escape(str(choice))}(?!\w)", re.IGNORECASE)
            if self._take(pattern) is not None:
                return True, choice
        return False, None

    def _number(self, *, whole: bool) -> tuple[bool, JsonValue]:
        value = _number_of(self._take(_NUMBER), whole=whole)
        return value is not None, value

    def _flag(self, name: str, *, needed: bool) -> tuple[bool, JsonValue]:
        said, named = self._words, set(words(name))
        for at, word in enumerate(said):
            if word in named:
                return True, not _NEGATIONS.intersection(said[max(0, at - 2) : at])
        return needed, False

    def _list(self, name: str, shape: Mapping[str, Any], depth: int) -> tuple[bool, JsonValue]:
        values: list[JsonValue] = []
        item = _shape(shape.get("items"))
        limit: Any = shape.get("maxItems", 16)
        while depth < MAX_DEPTH and len(values) < limit:
            before = self._left
            found, value = self._value(name, item, depth + 1, needed=False)
            if not found or self._left == before:
                break
            values.append(value)
        return bool(values), values

    def _text(self, name: str, shape: Mapping[str, Any], *, needed: bool) -> tuple[bool, JsonValue]:
        about = {shape.get("format"), *words(name)}
        for kinds, pattern in (
            ({"email", "mail"}, _EMAIL),
            ({"uri", "url", "link"}, _URL),
            ({"date", "date-time", "day"}, _DATE),
        ):
            if kinds & about:
                value = self._take(pattern)
                return value is not None, value
        if _ID_NAMES & about and (value := self._take(_ID)) is not None:
            return True, value.removeprefix("#")
        value = self._take(_QUOTED)
        if value is None and not _ID_NAMES & about:
            value = self._take(_PLACE) or (self._rest() if needed else None)
        return value is not None, value

    def _rest(self) -> str | None:
        """Return the remaining words that do not name the tool, or None if there are none."""
        left = [
            word
            for word in re.findall(r"\S+", self._left)
            if not self._known.issuperset(words(word))
        ]
        self._left = ""
        return " ".join(left).strip(" .,;:!?") or None

    def _named(self, name: str) -> bool:
        return not set(words(name)).isdisjoint(self._words)

    def _next_to(self, name: str, pattern: re.Pattern[str]) -> str | None:
        """Return the value directly after the parameter's name, as in `amount 5`, `amount: 5` or
        `amount of 5`. Returns None if no such value follows."""
        parts = [part for part in _CAMEL.sub("_", name).split("_") if part]
        shorter = [part for part in parts if part.lower() not in ("id", "number", "code")]
        for spoken in (parts, shorter or parts):
            if self._looks <= 0:
                break
            self._looks -= 1
            said = r"[\s_-]{0,4}".join(map(re.escape, spoken))
            between = r"\s{0,8}(?:[=:]|is\b|of\b|to\b)?\s{0,8}[$€£]?"
            behind = re.compile(
                rf"(?<!\w){said}(?!\w){between}(?={pattern.pattern})", re.IGNORECASE
            )
            found = behind.search(self._left)
            if found is not None:
                return self._take(pattern, found.end())
        return None

    def _take(self, pattern: re.Pattern[str], at: int = 0) -> str | None:
        self._looks -= 1
        found = pattern.search(self._left, at) if self._looks >= 0 else None
        if found is None:
            return None
        self._left = self._left[: found.start()] + " " + self._left[found.end() :]
        return next((group for group in found.groups() if group), found[0])


def _number_of(digits: str | None, *, whole: bool) -> int | float | None:
    if digits is None:
        return None
    value = float(digits.replace(",", ""))
    return int(value) if whole or value.is_integer() else value


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s"):
        if len(word) > len(ending) + 3 and word.endswith(ending) and not word.endswith("ss"):
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word


def _shape(schema: Any) -> Mapping[str, Any]:
    """Return the schema of the first variant that is not null."""
    shape = _mapping(schema)
    for word in ("anyOf", "oneOf"):
        for option in cast(list[Any], shape.get(word) or []):
            if _mapping(option).get("type") != "null":
                return {**shape, **_shape(option)}
    kinds: Any = shape.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in cast(list[Any], kinds) if kind != "null"]
        return {**shape, "type": others[0] if others else "null"}
    return shape


def _nullable(schema: Any) -> bool:
    shape = _mapping(schema)
    options = [
        *cast(list[Any], shape.get("anyOf") or []),
        *cast(list[Any], shape.get("oneOf") or []),
    ]
    kinds: Any = shape.get("type")
    return (
        kinds == "null"
        or (isinstance(kinds, list) and "null" in kinds)
        or any(_nullable(option) for option in options)
    )


def _is_free_text(name: str, schema: Any) -> bool:
    shape = _shape(schema)
    special = {"format", "enum", "const"} & set(shape) or _ID_NAMES & set(words(name))
    return shape.get("type", "string") == "string" and not special


def _placeholder(shape: Mapping[str, Any]) -> JsonValue:
    """Return a placeholder of the right type."""
    if isinstance(shape.get("enum"), list) and shape["enum"]:
        return shape["enum"][0]
    match shape.get("type"):
        case "integer" | "number":
            return shape.get("minimum", 0)
        case "boolean":
            return False
        case "array":
            return []
        case "object":
            return _Source("", frozenset(), force=True).object(shape, 0)
        case "null":
            return None
        case _:
            return ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _texts(value: Any) -> list[str]:
    return [str(text) for text in cast(list[Any], value)] if isinstance(value, list) else []
