"""The usage of models that a plugin's function reports with `ctx.add_usage`."""

import math
from typing import Final

from runward.domain.json import clean_text
from runward.domain.run.bounds import MAX_TOKENS
from runward.domain.run.response import ReportedUsage, Usage
from runward.tools.plugin.errors import ToolContextError

MAX_MODEL: Final = 256
"""Maximum number of characters of a model's name."""
MAX_MODELS: Final = 32
"""Maximum number of models for which one attempt can report usage."""
MAX_COST_USD: Final = 1e6


def make_usage(model: object, tokens: dict[str, object], cost_usd: object) -> ReportedUsage:
    """Return the usage. `tokens`: the numbers of tokens by the names of the arguments. Raises
    ToolContextError."""
    if not isinstance(model, str) or not 0 < len(model) <= MAX_MODEL:
        raise ToolContextError(f"model must be a string of 1 to {MAX_MODEL} characters")
    counts = {name: _count(name, number) for name, number in tokens.items()}
    usage = Usage(
        input=counts["input_tokens"],
        output=counts["output_tokens"],
        cached_input=counts["cached_tokens"],
        reasoning=counts["reasoning_tokens"],
        cost=0.0 if cost_usd is None else _cost(cost_usd),
    )
    for name, part, total in (
        ("cached_tokens", usage.cached_input, usage.input),
        ("reasoning_tokens", usage.reasoning, usage.output),
    ):
        if part > total:
            whole = "input_tokens" if name == "cached_tokens" else "output_tokens"
            raise ToolContextError(f"{name} must not exceed {whole}, which include these tokens")
    return ReportedUsage(clean_text(model), usage, priced=cost_usd is not None)


def _count(name: str, number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MAX_TOKENS:
        raise ToolContextError(f"{name} must be a whole number from 0 to {MAX_TOKENS}")
    return number


def _cost(cost: object) -> float:
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        value = float(cost) if abs(cost) <= MAX_COST_USD else math.nan
        if value >= 0:
            return value
    raise ToolContextError(f"cost_usd must be a number from 0 to {MAX_COST_USD:.0f}")
