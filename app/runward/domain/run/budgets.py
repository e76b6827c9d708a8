"""Budgets: the estimated cost of a model request, and the changes of a step to budgets."""

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


@dataclass(frozen=True, slots=True)
class BudgetCharge:
    """The cost of a model request in US dollars, which replaces the reservation of the claim with
    this fence. 0 if there was no response."""

    fence: int
    cost: float


@dataclass(frozen=True, slots=True)
class BudgetWait:
    """A budget that has no room for the next model request. `delay`: until the next period."""

    budget_id: UUID
    limit_usd: float
    estimate_usd: float
    period_ends_at: datetime
    delay: timedelta


BudgetChange: TypeAlias = BudgetCharge | BudgetWait
