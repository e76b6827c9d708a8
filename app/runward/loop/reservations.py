"""Reservations of the estimated usage of model requests in the budgets of a project."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from runward.domain.json import compact
from runward.domain.run.budgets import DEFAULT_OUTPUT_TOKENS, Estimate
from runward.domain.run.history import BYTES_A_TOKEN, estimate_bytes
from runward.domain.run.response import Usage
from runward.llm.base import ModelRequest
from runward.llm.prices import Prices
from runward.store.budgets import Reserved

UNPRICED: Final = (
    "A budget limits this run, and Runward knows no price for one of its models. Ask the operator "
    "to add the model to RUNWARD_MODEL_PRICES."
)

Reserve: TypeAlias = Callable[[Estimate], Awaitable[Reserved]]
"""Reserves the estimated usage of a model request."""


def estimate_usage(prices: Prices, models: Iterable[str], request: ModelRequest) -> Estimate:
    """Return the estimated usage of a request to the most expensive of the models. The cost is
    unknown if one of their prices is unknown."""
    size = count_fixed_bytes(request) + estimate_bytes(request.items)
    asked = request.settings.get("max_output_tokens")
    output = asked if isinstance(asked, int) else DEFAULT_OUTPUT_TOKENS
    usage = Usage(input=-(-size // BYTES_A_TOKEN), output=output)
    costs = [prices.cost_usd(model, usage) for model in models]
    known = [cost for cost in costs if cost is not None]
    cost = max(known) if len(known) == len(costs) else None
    return Estimate(cost, usage.input + usage.output)


def count_fixed_bytes(request: ModelRequest) -> int:
    """Return the size of the instructions and the tools."""
    return len(request.instructions.encode()) + sum(
        len(compact([tool.name, tool.description, tool.parameters]).encode())
        for tool in request.tools
    )
