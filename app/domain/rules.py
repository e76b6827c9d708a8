"""Rules in CEL, the Common Expression Language: `args.amount > 100 && context.tier != 'gold'`.

A rule sees `args`, `context`, `run` and `tool` and answers true or false. Whatever else comes out
of it (a missing key, a number compared with a text, an answer that is no truth value) is a
RuleFailure, which callers must take as the careful answer.

Whole numbers and fractions compare as one would expect: `args.amount > 100` is right for 500 and
500.5. Arithmetic between them is an error in CEL; `double(args.amount) * 1.5 > 100.0` is how to
say it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from pydantic import JsonValue

from app.domain.json import compact

VARIABLES: Final = ("args", "context", "run", "tool")
MAX_RULE: Final = 4096
"""Characters."""
MAX_NESTING: Final = 3
"""`all`, `exists`, `filter` … inside each other."""
MAX_WORK: Final = 5e8
"""Rule's length x bytes it looks at x times it may look; under a second at the very worst, since
the library bounds how often it looks (10,000 times) but not at how much."""
REGEX_WORK: Final = 500
"""How many times dearer a regular expression can be than anything else of its length."""
MAX_MESSAGE: Final = 400

_MACRO: Final = re.compile(r"\.\s*(all|exists|exists_one|filter|map)\s*\(")
_STRING: Final = re.compile(
    r"[rRbB]{0,2}(\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
)


class RuleError(ValueError):
    """A rule that cannot be used; the text says where and why."""


@dataclass(frozen=True, slots=True)
class RuleFailure:
    """The rule gave no answer for these values."""

    reason: str


class Rule:
    """A compiled rule. Deciding takes microseconds; it may be shared between threads of control,
    not between threads."""

    def __init__(self, text: str, expression: Any) -> None:
        self.text = text
        self._expression = expression
        bare = _STRING.sub("''", text)
        self._names = tuple(name for name in VARIABLES if re.search(rf"\b{name}\b", bare))
        self._nesting = _nesting(bare)
        self._literals = 1 + max(bare.count(","), bare.count("+"))
        self._length = len(text) * (REGEX_WORK if "matches" in bare else 1)

    def decide(self, variables: Mapping[str, JsonValue]) -> bool | RuleFailure:
        """A variable that is missing or null is an empty object."""
        values = {name: variables.get(name) or {} for name in self._names}
        try:
            if self._work(values) > MAX_WORK:
                return RuleFailure("The values are too large for this rule.")
            answer = self._expression.eval(data=values)
            kind, value = answer.type().name(), answer.value()
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            return RuleFailure(_readable(str(error)))
        if kind == "BOOL" and isinstance(value, bool):
            return value
        if kind == "ERROR":
            return RuleFailure(_readable(str(value)))
        return RuleFailure(f"The rule answered with {kind.lower()}; it must answer true or false.")

    def _work(self, values: Mapping[str, JsonValue]) -> float:
        times = 1.0
        if self._nesting:
            times = float(max(self._literals, *map(_longest, values.values()), 1)) ** self._nesting
        return self._length * len(compact(values)) * times


def compile_rule(text: str) -> Rule:
    """Raises RuleError."""
    if len(text) > MAX_RULE:
        raise RuleError(f"The rule is longer than {MAX_RULE} characters.")
    if _nesting(_STRING.sub("''", text)) > MAX_NESTING:
        raise RuleError(f"The rule looks through lists inside lists deeper than {MAX_NESTING}.")
    cel = _load_cel()
    environment = cel.NewEnv(variables={name: cel.Type.DYN for name in VARIABLES})
    try:
        expression = environment.compile(text)
        kind = expression.return_type().name()
    except (RuntimeError, ValueError) as error:
        raise RuleError(_readable(str(error))) from None
    if kind not in ("BOOL", "DYN"):
        raise RuleError(f"The rule answers with {kind.lower()}; it must answer true or false.")
    return Rule(text, expression)


def _load_cel() -> ModuleType:
    # Slow to import, and not every process has rules.
    from cel_expr_python import cel  # noqa: PLC0415  # pyright: ignore

    return cel


def _nesting(bare: str) -> int:
    """How deep list macros stand inside each other. `map` counts wherever it stands, since what
    one makes larger the next can take."""
    opened: list[bool] = []
    deepest = 0
    macros = {match.end() - 1 for match in _MACRO.finditer(bare)}
    for at, character in enumerate(bare):
        if character == "(":
            opened.append(at in macros)
            deepest = max(deepest, sum(opened))
        elif character == ")" and opened:
            opened.pop()
    maps = sum(match[1] == "map" for match in _MACRO.finditer(bare))
    return max(deepest, maps)


def _longest(value: JsonValue) -> int:
    """The most members of any array or object in `value`."""
    match value:
        case dict():
            return max(len(value), *map(_longest, value.values()), 0)
        case list():
            return max(len(value), *map(_longest, value), 0)
        case _:
            return 0


def _readable(message: str) -> str:
    """The library's text without its own words for what kind of error it is."""
    text = re.sub(r"^[A-Z_]+: |\s*\[[A-Z_]+\]$", "", message.strip())
    place = re.search(r"<input>:(\d+):(\d+): ([^\n]*)", text)
    if place is None:
        return _shortened(text)
    line, column, what = place.groups()
    if what.startswith("undeclared reference"):
        what += f"; a rule sees {', '.join(VARIABLES)}"
    return _shortened(f"Line {line}, column {column}: {what}")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]}…"
