"""The model settings of a request for a response."""

from typing import Final

from runward.api.responses.models import CreateResponse
from runward.domain.errors import FieldError
from runward.domain.json import JsonObject

PARAMETERS: Final = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
"""Parameters that are model settings with the same name."""
_HINTS: Final = frozenset(
    {"user", "safety_identifier", "prompt_cache_key", "service_tier", "verbosity"}
)
_PENALTIES: Final = frozenset({"presence_penalty", "frequency_penalty"})
_PLACES: Final = {"verbosity": "text.verbosity"}


def list_settings(body: CreateResponse) -> JsonObject:
    """Return the model settings of the request. OpenAI's API also accepts the tiers `auto` and
    `default`, which providers need not receive."""
    given: JsonObject = {name: getattr(body, name) for name in PARAMETERS}
    given["reasoning"] = (body.reasoning and body.reasoning.model_dump(exclude_none=True)) or None
    given["verbosity"] = body.text.verbosity if body.text else None
    tier = body.service_tier
    given["service_tier"] = None if tier in ("auto", "default") else tier
    return {name: value for name, value in given.items() if value is not None}


def select_hints(settings: JsonObject) -> JsonObject:
    """Return the settings that OpenAI's clients send to all providers, and that do not change what
    the model does. If the provider does not support them, the run omits them and records an
    event. A request with any other unsupported setting is refused."""
    return {name: value for name, value in settings.items() if _is_hint(name, value)}


def _is_hint(name: str, value: object) -> bool:
    if name == "reasoning":
        return isinstance(value, dict) and "summary" in value
    return name in _HINTS or (name in _PENALTIES and value == 0)


def locate_setting(error: FieldError) -> FieldError:
    """Return the error of a model setting with the place of its parameter."""
    if error.path != "model_settings":
        return error
    name, _, message = error.message.partition(": ")
    return FieldError(_PLACES.get(name, name), message)
