"""Budgets: the estimated usage of a model request, and the changes of a step to budgets.
`runward.domain.run.budget_approvals` creates approvals to exceed a budget."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self, TypeAlias
from uuid import UUID

from runward.domain.run.response import Usage

DEFAULT_OUTPUT_TOKENS: Final = 4096
"""Estimated output tokens of a request whose run sets no `max_output_tokens`."""


class BudgetPeriod(StrEnum):
    """Period of a budget: a minute, a day or a month in UTC."""

    MINUTE = "minute"
    DAY = "day"
    MONTH = "month"


class BudgetAction(StrEnum):
    """What a run does if a budget has no room for its next model request. `wait`: it waits for the
    next period. `ask`: it waits for an approval to exceed the budget until the next period."""

    WAIT = "wait"
    ASK = "ask"


class BudgetUnit(StrEnum):
    """What a budget limits: the cost in US dollars, or the input and output tokens."""

    USD = "usd"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated usage of a model request. `cost`: in US dollars, or None if the price is
    unknown."""

    cost: float | None
    tokens: int

    def of(self, unit: BudgetUnit) -> float | None:
        return self.tokens if unit is BudgetUnit.TOKENS else self.cost


@dataclass(frozen=True, slots=True)
class BudgetCharge:
    """The cost of a model request in US dollars and its tokens, which replace the reservation of
    the claim with this fence. 0 if the request failed."""

    fence: int
    cost: float = 0.0
    tokens: int = 0

    def with_usage(self, usage: Usage, estimate: Estimate) -> Self:
        """Return the charge of a response. If the provider reported no usage, the estimate
        counts."""
        if usage.total == 0:
            return self.with_estimate(estimate)
        return replace(self, cost=usage.cost, tokens=usage.total)

    def with_estimate(self, estimate: Estimate) -> Self:
        return replace(self, cost=estimate.cost or 0.0, tokens=estimate.tokens)


@dataclass(frozen=True, slots=True)
class BudgetWait:
    """A budget that has no room for the next model request. `limit` and `estimate`: in its unit.
    `delay`: until the next period. `asks`: whether a person may approve the request."""

    budget_id: UUID
    unit: BudgetUnit
    limit: float
    estimate: float
    period_ends_at: datetime
    delay: timedelta
    asks: bool = False


def format_period_end(wait: BudgetWait) -> str:
    return wait.period_ends_at.isoformat().replace("+00:00", "Z")


BudgetChange: TypeAlias = BudgetCharge | BudgetWait
