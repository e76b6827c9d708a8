"""Budgets: the estimated cost of a model request, and the changes of a step to budgets.
`runward.domain.run.budget_approvals` creates approvals to exceed a budget."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias
from uuid import UUID

DEFAULT_OUTPUT_TOKENS: Final = 4096
"""Estimated output tokens of a request whose run sets no `max_output_tokens`."""


class BudgetPeriod(StrEnum):
    """Period of a budget: a day or a month in UTC."""

    DAY = "day"
    MONTH = "month"


class BudgetAction(StrEnum):
    """What a run does if a budget has no room for its next model request. `wait`: it waits for the
    next period. `ask`: it waits for an approval to exceed the budget until the next period."""

    WAIT = "wait"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class BudgetCharge:
    """The cost of a model request in US dollars, which replaces the reservation of the claim with
    this fence. 0 if there was no response."""

    fence: int
    cost: float


@dataclass(frozen=True, slots=True)
class BudgetWait:
    """A budget that has no room for the next model request. `delay`: until the next period.
    `asks`: whether a person may approve the request."""

    budget_id: UUID
    limit_usd: float
    estimate_usd: float
    period_ends_at: datetime
    delay: timedelta
    asks: bool = False


def format_period_end(wait: BudgetWait) -> str:
    return wait.period_ends_at.isoformat().replace("+00:00", "Z")


BudgetChange: TypeAlias = BudgetCharge | BudgetWait
