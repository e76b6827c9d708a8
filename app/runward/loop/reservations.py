"""Reservations of the estimated usage of model requests in the budgets of a project."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from runward.domain.events.values import RunErrorCode
from runward.domain.json import compact
from runward.domain.run.budgets import DEFAULT_OUTPUT_TOKENS, BudgetCharge, BudgetWait, Estimate
from runward.domain.run.decide import Finish
from runward.domain.run.history import BYTES_A_TOKEN, estimate_bytes
from runward.domain.run.response import Usage
from runward.domain.run.status import RunStatus
from runward.llm.base import ModelRequest
from runward.llm.prices import Prices
from runward.store.budgets import Reserved

UNPRICED: Final = (
    "A budget limits this run, and Runward knows no price for one of its models. Ask the operator "
    "to add the model to RUNWARD_MODEL_PRICES."
)

Reserve: TypeAlias = Callable[[Estimate], Awaitable[Reserved]]
"""Reserves the estimated usage of a model request."""


@dataclass(slots=True)
class Reservation:
    """The reservation of one model request, and its charge. `charge`: None if nothing was
    reserved."""

    fence: int
    charge: BudgetCharge | None = None
    _in_flight: Estimate | None = None

    async def make(self, reserve: Reserve, estimate: Estimate) -> BudgetWait | Finish | None:
        """Reserve the estimate. Return the budget that has no room, or the end of the run if a
        price is unknown."""
        # Set first, because the reservation may be committed after this task was cancelled.
        self.charge, self._in_flight = BudgetCharge(self.fence), estimate
        reserved = await reserve(estimate)
        if reserved == "reserved":
            return None
        self.charge = None
        if reserved == "unknown_price":
            return Finish(RunStatus.FAILED, code=RunErrorCode.UNKNOWN_PRICE, message=UNPRICED)
        return None if reserved == "no_budget" else reserved

    def end(self, usage: Usage | None) -> None:
        """Replace the estimate. `usage`: that of the response, or None if the request failed."""
        if self.charge and self._in_flight and usage:
            self.charge = self.charge.with_usage(usage, self._in_flight)
        self._in_flight = None

    def find_charge(self, *, repeats: bool) -> BudgetCharge | None:
        """Return the charge. If the request was stopped, the estimate counts, because the provider
        may charge for it. `repeats`: a stopped request is sent again, and costs nothing."""
        if self.charge and self._in_flight and not repeats:
            return self.charge.with_estimate(self._in_flight)
        return self.charge


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
