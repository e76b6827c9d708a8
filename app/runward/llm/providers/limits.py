"""The most that models can write, where the provider wants a number or has a low default."""

import re
from typing import Final

from pydantic_ai.models import Model
from pydantic_ai.profiles.anthropic import ANTHROPIC_THINKING_BUDGET_MAP

from runward.llm.providers.access import ProviderName

_MAX_OUTPUT: Final = (
    ("claude-3-7-sonnet", 64_000),
    ("claude-3-5-", 8_192),
    ("claude-3-", 4_096),
    ("claude-4-opus", 32_000),
    ("claude-4-sonnet", 64_000),
    ("claude-opus-4", 32_000),
    ("claude-sonnet-4", 64_000),
)
"""Limits of models that pydantic-ai does not know, by the beginning of the name.
https://platform.claude.com/docs/en/about-claude/models/overview"""
UNKNOWN_MODEL: Final = 16_384
"""The limit of a model that neither table has: a new one, or one behind an endpoint of the user's
own."""
_AFTER_THOUGHT: Final = 4_096
_NO_ROOM: Final = re.compile(r"exceed context limit: (\d+) \+ \d+ > (\d+)")


def default_max_tokens(model: Model, provider: ProviderName, thinking: object) -> int | None:
    """Return the limit to send if the request has none. None: the provider's own default, which is
    its maximum. `thinking` is the effort, which some models get as a budget within the limit."""
    known = model.profile.get("anthropic_max_output_tokens")
    if isinstance(known, int) or provider != "anthropic":
        return known if isinstance(known, int) else None
    for beginning, tokens in _MAX_OUTPUT:
        if model.model_name.startswith(beginning):
            return tokens
    budgets: dict[object, int] = {**ANTHROPIC_THINKING_BUDGET_MAP}
    return max(UNKNOWN_MODEL, budgets.get(thinking, 0) + _AFTER_THOUGHT)


def remaining_tokens(message: str) -> int | None:
    """Return the number of tokens that fit in an answer, from Anthropic's error: "input length and
    `max_tokens` exceed context limit: 190000 + 64000 > 200000"."""
    if (found := _NO_ROOM.search(message)) is None:
        return None
    room = int(found[2]) - int(found[1])
    return room if room > 0 else None
