"""Calls of tools that a message describes in words."""

from collections.abc import Sequence
from typing import Final

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec
from runward.llm.offline.arguments import fill_arguments, words

MAX_TEXT: Final = 16_384  # characters of the user's message, and of a tool, that are read
MAX_GUESSES: Final = 8  # tools whose arguments are searched for
NAME_WEIGHT: Final = 3
SENSIBLE_SCORE: Final = 3
"""The least score of a guess: one word of the tool's name, or three of its description and
parameters."""


def guess_call(said: str, tools: Sequence[ToolSpec]) -> tuple[str, JsonObject] | None:
    """Return a call of the best tool for which the message contains arguments. The first of equals
    wins."""
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
