"""The regular expressions of a schema, compiled and matched within limits.

The time of the validator's engine is proportional to the length of the text, multiplied by the size
of the compiled pattern. Lookaround and back references need backtracking, whose time is
proportional to the square of the length.
"""

import re
from typing import Any, Final, cast

import jsonschema_rs
from pydantic import JsonValue

from runward.domain.json import JsonObject

PATTERN_BYTES: Final = 8 * 1_048_576
"""Maximum size in bytes of one compiled pattern."""
PATTERNS_BYTES: Final = 32 * 1_048_576
"""Maximum size in bytes of all compiled patterns of a schema."""
PATTERN_STEPS: Final = 200_000_000
"""Maximum number of steps of all matches for one value: one or two seconds."""
BACKTRACKS: Final = 10_000

_LIMITS: Final = (*(1024 * 4**power for power in range(6)), PATTERN_BYTES)
_STATE_BYTES: Final = 100
"""The approximate size in bytes of a state of a compiled pattern. A match may visit each state for
each character."""
_CALL: Final = 50
"""Minimum number of steps that a match counts as."""
_BACKTRACKING: Final = 50_000
"""Minimum number of steps that a match with backtracking counts as."""
_LOOKS: Final = re.compile(r"\^(?:\(\?[=!](?:[^()\\]|\\[^1-9k])*\))*")
"""The beginning of a pattern with lookaheads, which are evaluated only once."""


class RemoteReferenceError(ValueError):
    """Raised if a schema contains a reference to something outside itself."""


def refuse_remote(uri: str) -> JsonValue:
    """Raise RemoteReferenceError. Every validator uses this retriever, so no remote schema is ever
    downloaded or read."""
    raise RemoteReferenceError(f"{uri} is outside the schema")


class PatternError(ValueError):
    """Raised if a pattern is invalid or too large."""


class _Pattern:
    def __init__(self, source: str) -> None:
        self.size = next((limit for limit in _LIMITS if _compiled(source, limit)), 0)
        if not self.size:
            most = f"{PATTERN_BYTES // 1_048_576} MiB"
            raise PatternError(
                f"{source[:80]!r} is not a valid regular expression, or needs more than {most} of "
                "memory"
            )
        self.states = self.size // _STATE_BYTES
        self._validator = _compiled(source, self.size)
        plain = _LOOKS.sub("^", source, count=1)
        options = jsonschema_rs.RegexOptions(size_limit=self.size)
        self.is_linear = _build(plain, options) is not None

    def steps(self, text: str) -> int:
        if self.is_linear:
            return _CALL + self.states * len(text)
        return _BACKTRACKING + self.states * len(text) ** 2 // 4

    def matches(self, text: str) -> bool:
        """Return whether a part of the text matches."""
        assert self._validator is not None
        return self._validator.is_valid(text)


def _compiled(source: str, size: int) -> jsonschema_rs.Validator | None:
    options = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACKS, size_limit=size)
    return _build(source, options)


def _build(
    source: str, options: jsonschema_rs.FancyRegexOptions | jsonschema_rs.RegexOptions
) -> jsonschema_rs.Validator | None:
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": source}, pattern_options=options)
    except ValueError:  # jsonschema_rs.ValidationError is a ValueError.
        return None


class Patterns:
    """The patterns of a schema, each compiled once. Call `begin` before each value."""

    def __init__(self) -> None:
        self._kept: dict[str, _Pattern] = {}
        self._bytes = 0
        self._left = 0

    def begin(self) -> None:
        self._left = PATTERN_STEPS

    @property
    def is_spent(self) -> bool:
        return self._left < 0

    def compile(self, source: str) -> _Pattern:
        """Return a compiled pattern, which is cached. Raises PatternError."""
        if source not in self._kept:
            pattern = _Pattern(source)
            self._bytes += pattern.size
            if self._bytes > PATTERNS_BYTES:
                most = f"{PATTERNS_BYTES // 1_048_576} MiB"
                raise PatternError(
                    f"the patterns of the schema need more than {most} of memory in total; use "
                    "fewer or smaller repetitions"
                )
            self._kept[source] = pattern
        return self._kept[source]

    def matches(self, source: str, text: str) -> bool:
        """Return whether a part of the text matches. After `is_spent`, it always returns False,
        because the value is then rejected anyway."""
        pattern = self.compile(source)
        self._left -= pattern.steps(text)
        return not self.is_spent and pattern.matches(text)

    def validator(
        self, schema: JsonObject, registry: jsonschema_rs.Registry | None = None
    ) -> jsonschema_rs.Validator:
        """Return a compiled schema whose patterns are matched by this module. `registry`: the
        schemas that it refers to, in the dialect of this module's readers. Raises ValueError."""
        make = jsonschema_rs.Draft202012Validator if registry else jsonschema_rs.validator_for
        return make(
            schema,
            registry=registry,
            retriever=refuse_remote,
            validate_formats=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(
                backtrack_limit=BACKTRACKS, size_limit=PATTERN_BYTES
            ),
            keywords={"pattern": cast(Any, self._keyword)},
        )

    def _keyword(self, _parent: object, source: str, _path: object) -> "_Keyword":
        self.compile(source)
        return _Keyword(self, source)


class _Keyword:
    """The keyword `pattern`, called by the validator."""

    def __init__(self, patterns: Patterns, source: str) -> None:
        self._patterns = patterns
        self._source = source

    def validate(self, instance: object) -> None:
        if isinstance(instance, str) and not self._patterns.matches(self._source, instance):
            raise ValueError
