"""The `model_settings` and their valid values, checked when an agent or a run is created.

The names are OpenAI's. Each wire protocol translates them.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pydantic import JsonValue

from runward.domain.registry.synonyms import FIELD_NAMES_BY_SYNONYM

Check: TypeAlias = Callable[[JsonValue], bool]

MAX_STOPS: Final = 4
MAX_TEXT: Final = 512
OWN_FIELDS: Final = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "input",
        "instructions",
        "text",
        "include",
        "background",
        "conversation",
        "previous_response_id",
        "stream",
        "stream_options",
        "n",
    }
)
"""Fields that Runward sets in every request. `extra_body` cannot contain them."""


def all_settings() -> frozenset[str]:
    """Return the names of all model settings."""
    return frozenset(_SETTINGS)


def check_settings(settings: Mapping[str, JsonValue]) -> list[str]:
    """Return the problems of the settings. Each problem is one line that begins with the setting's
    name. A setting of null counts as not set."""
    problems: list[str] = []
    for name, value in settings.items():
        if name not in _SETTINGS:
            known, ours = ", ".join(sorted(_SETTINGS)), FIELD_NAMES_BY_SYNONYM.get(name)
            meant = f"Did you mean `{ours}`? " if ours in _SETTINGS else ""
            problems.append(
                f"{name}: is not a model setting. {meant}The model settings are: {known}"
            )
        elif value is not None:
            valid, expected = _SETTINGS[name]
            if not valid(value):
                problems.append(f"{name}: must be {expected}")
    return problems


def _number(low: float, high: float) -> Check:
    return lambda value: (
        isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    )


def _integer(low: int, high: int) -> Check:
    return lambda value: type(value) is int and low <= value <= high


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT


def _is_stop(value: JsonValue) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= MAX_STOPS and all(_is_text(text) for text in value)
    return _is_text(value)


def _is_reasoning(value: JsonValue) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and value.keys() <= {"effort", "summary"}
        and all(_is_text(said) for said in value.values())
    )


def _is_text_map(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(_is_text(text) for text in value.values())


def _is_extra_body(value: JsonValue) -> bool:
    return isinstance(value, dict) and not OWN_FIELDS.intersection(value)


_TEXT: Final = f"a string of 1 to {MAX_TEXT} characters"
_SETTINGS: Final[Mapping[str, tuple[Check, str]]] = {
    "temperature": (_number(0, 2), "a number from 0 to 2"),
    "top_p": (_number(0, 1), "a number from 0 to 1"),
    "max_output_tokens": (_integer(1, 10_000_000), "an integer from 1 to 10000000"),
    "presence_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "frequency_penalty": (_number(-2, 2), "a number from -2 to 2"),
    "seed": (_integer(-(2**63), 2**63 - 1), "a 64-bit integer"),
    "stop": (_is_stop, f"a string or an array of 1 to {MAX_STOPS} strings"),
    "reasoning": (
        _is_reasoning,
        'an object {"effort": "…", "summary": "…"} with one of them or both',
    ),
    "verbosity": (_is_text, _TEXT),
    "service_tier": (_is_text, _TEXT),
    "user": (_is_text, _TEXT),
    "safety_identifier": (_is_text, _TEXT),
    "prompt_cache_key": (_is_text, _TEXT),
    "metadata": (_is_text_map, "an object whose values are strings"),
    "store": (lambda value: isinstance(value, bool), "true or false"),
    "timeout_seconds": (_number(0.1, 3600), "a number from 0.1 to 3600"),
    "first_token_timeout_seconds": (_number(0.1, 3600), "a number from 0.1 to 3600"),
    "stream": (lambda value: isinstance(value, bool), "true or false"),
    "tools_in_prompt": (lambda value: isinstance(value, bool), "true or false"),
    "extra_body": (
        _is_extra_body,
        f"an object without the fields that Runward sets: {', '.join(sorted(OWN_FIELDS))}",
    ),
}
