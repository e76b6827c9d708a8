"""Rules in CEL, the Common Expression Language: `args.amount > 100 && context.tier != 'gold'`.

A rule reads `args`, `context`, `run` and `tool` and returns true or false. A concurrency key reads
`context` and `run` and returns a text, a number, true or false. Any other result (a missing key, a
comparison of a number with a string, a value of another type) is a RuleFailure. Callers must then
take the safe decision.

Integers and fractions compare as numbers: `args.amount > 100` is correct for 500 and 500.5.
Arithmetic between them is an error in CEL; write `double(args.amount) * 1.5 > 100.0` instead.

This module does not limit the time or memory of an evaluation. Therefore users' rules are compiled
and evaluated in a limited process, which `app/runward/tools/rules.py` starts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:  # The process that evaluates rules starts without pydantic.
    from pydantic import JsonValue

VARIABLES: Final = ("args", "context", "run", "tool")
MAX_RULE: Final = 4096
"""Maximum number of characters of a rule."""
MAX_NESTING: Final = 3
"""Maximum depth to which `all`, `exists`, `filter` and similar macros can be nested, or process
each other's results."""
MAX_MESSAGE: Final = 400
TOO_LARGE: Final = "The rule needs more memory than the limit for rules."
DECISION: Final = frozenset({"BOOL"})
CONCURRENCY_KEY: Final = frozenset({"BOOL", "DOUBLE", "INT", "STRING", "UINT"})
"""CEL types of the results of rules and of concurrency keys."""
_VARIABLES: Final = {DECISION: VARIABLES, CONCURRENCY_KEY: ("context", "run")}
_RESULTS: Final = {
    DECISION: "A rule must return true or false.",
    CONCURRENCY_KEY: "A concurrency key must return a string, a number, true or false.",
}
RuleValue: TypeAlias = bool | int | float | str


class RuleError(ValueError):
    """An invalid rule. The message contains the position and the reason."""


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """The rule has no result for these values."""

    reason: str


class Rule:
    """A compiled rule or concurrency key. It may be shared between tasks, but not between
    threads."""

    def __init__(self, expression: Any, names: frozenset[str], kinds: frozenset[str]) -> None:
        self._expression = expression
        self._names = names
        self._kinds = kinds

    def evaluate(self, variables: "Mapping[str, JsonValue]") -> RuleValue | RuleFailure:
        """Return the result. A missing variable or null counts as an empty object."""
        values = {name: variables.get(name) or {} for name in self._names}
        try:
            answer = self._expression.eval(data=values)
            kind, value = answer.type().name(), answer.value()
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            return RuleFailure(_readable(str(error)))
        except MemoryError:
            return RuleFailure(TOO_LARGE)
        if kind in self._kinds and isinstance(value, RuleValue):
            return value
        if kind == "ERROR":
            return RuleFailure(_readable(str(value)))
        return RuleFailure(f"The rule returned {kind.lower()}. {_RESULTS[self._kinds]}")


def compile_rule(text: str, kinds: frozenset[str] = DECISION) -> Rule:
    """Return a compiled rule. `kinds`: the types of its results. Raises RuleError."""
    if len(text) > MAX_RULE:
        raise RuleError(f"The rule is longer than {MAX_RULE} characters.")
    cel = _load_cel()
    variables = _VARIABLES[kinds]
    environment = cel.NewEnv(variables={name: cel.Type.DYN for name in variables})
    try:
        expression = environment.compile(text)
        kind = expression.return_type().name()
        nesting, names = _outline(expression.serialize())
    except (RuntimeError, ValueError) as error:
        raise RuleError(_readable(str(error), variables)) from None
    except MemoryError:
        raise RuleError(TOO_LARGE) from None
    if nesting > MAX_NESTING:
        raise RuleError(
            f"The rule nests macros such as `all` and `exists` more than {MAX_NESTING} levels deep."
        )
    if kind != "DYN" and kind not in kinds:
        raise RuleError(f"The rule returns {kind.lower()}. {_RESULTS[kinds]}")
    return Rule(expression, names, kinds)


def _load_cel() -> ModuleType:
    # The imports are inside the function, because they are slow and not every process evaluates
    # rules.
    from cel_expr_python import cel  # noqa: PLC0415  # pyright: ignore

    return cel


# The parsed expression as the library serializes it: a protobuf `Any` that contains a
# `cel.expr.CheckedExpr` (github.com/google/cel-spec, proto/cel/expr/checked.proto, syntax.proto).

_EXPR, _COMPREHENSION, _IDENT, _NAME = "Expr", "Comprehension", "Ident", "name"
_FIELDS: Final[Mapping[str, Mapping[int, str]]] = {
    "Any": {2: "CheckedExpr"},
    "CheckedExpr": {4: _EXPR},
    _EXPR: {4: _IDENT, 5: "Select", 6: "Call", 7: "CreateList", 8: "Struct", 9: _COMPREHENSION},
    _IDENT: {1: _NAME},
    "Select": {1: _EXPR},
    "Call": {1: _EXPR, 3: _EXPR},
    "CreateList": {1: _EXPR},
    "Struct": {2: "Entry"},
    "Entry": {3: _EXPR, 4: _EXPR},
    _COMPREHENSION: {2: _EXPR, 4: _EXPR, 5: _EXPR, 6: _EXPR, 7: _EXPR},
}
"""The messages that contain expressions, by their field numbers."""


def _outline(serialized: bytes) -> tuple[int, frozenset[str]]:
    """Return the depth to which list macros are nested or process each other's results, and the
    variables of the rule. Raises ValueError."""
    deepest, names = 0, set[str]()
    todo = [("Any", serialized, 0)]
    while todo:
        kind, message, depth = todo.pop()
        if kind == _NAME:
            names.add(message.decode())
            continue
        deepest = max(deepest, depth)
        for number, part in _parts(message):
            inner = _FIELDS[kind].get(number)
            if inner is not None:
                todo.append((inner, part, depth + (inner == _COMPREHENSION)))
    return deepest, frozenset(names & set(VARIABLES))


def _parts(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a protobuf message that have a length (protobuf.dev, Encoding)."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 2:
                size, at = _varint(message, at)
                yield tag >> 3, message[at : at + size]
                at += size
            case 5:
                at += 4
            case kind:
                raise ValueError(
                    f"the parsed rule contains a field of the unknown wire type {kind}"
                )


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number at position `at`, and the position after it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _readable(message: str, variables: tuple[str, ...] = VARIABLES) -> str:
    """Return the library's message without the prefix for the kind of error. `variables`: those
    that the rule can read."""
    text = re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", message.strip())
    place = re.search(r"<input>:(\d+):(\d+): ([^\n]*)", text)
    if place is None:
        return _shortened(text)
    line, column, what = place.groups()
    if what.startswith("undeclared reference"):
        what += f"; a rule can use {', '.join(variables)}"
    return _shortened(f"Line {line}, column {column}: {what}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
