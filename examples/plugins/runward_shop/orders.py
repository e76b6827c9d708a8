"""Six ways to write a tool."""

import asyncio
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from runward.tools import BaseTool, Options, RuleContext, ToolContext, ToolError, tool

RATES = {"EUR": 1.0, "USD": 1.1, "GBP": 0.85}


# A plain function. Its type hints become the schema, and its docstring the description.


def convert(amount: float, currency: Literal["EUR", "USD", "GBP"] = "EUR") -> float:
    """Convert an amount of euros.

    Args:
        amount: In euros.
        currency: What to convert it to.
    """
    return round(amount * RATES[currency], 2)


# A decorated function. A callable decides which calls need an approval.


class Refund(BaseModel):
    order: str
    amount: float
    reference: str


def is_large(ctx: RuleContext, arguments: dict[str, Any]) -> bool:
    limit = 500 if ctx.context.get("tier") == "gold" else 100
    return arguments["amount"] > limit


@tool(approval=is_large, idempotent=True, timeout_seconds=10, output_schema=True)
async def refund(
    ctx: ToolContext,
    order: Annotated[str, Field(pattern=r"^ord_[0-9]+$", description="Such as ord_17.")],
    amount: Annotated[float, Field(gt=0, description="In euros.")],
) -> Refund:
    """Refund an order, whole or in part."""
    # A payment provider would get ctx.secret("PAYMENTS") and the idempotency key, which is the
    # same for every attempt of this call.
    return Refund(order=order, amount=amount, reference=f"re_{ctx.idempotency_key[-8:]}")


# The context: progress for readers of the run's events, and state that survives the call.


@tool(on_error={"message": "The parcel service does not answer; try again later."})
async def ship(ctx: ToolContext, orders: list[str]) -> dict[str, int]:
    """Hand orders to the parcel service."""
    if not orders:
        raise ToolError("There is nothing to ship: name at least one order.")
    for number, _ in enumerate(orders, 1):
        await asyncio.sleep(0)  # the parcel service
        ctx.progress(number / len(orders), f"{number} of {len(orders)}")
    ctx.state["shipped"] = [*ctx.state.get("shipped", []), *orders]
    ctx.metadata["carrier"] = "Slow & Steady"
    return {"shipped": len(orders)}


# An agent. When the agent's child run has ended, the function runs again from its start.


class Description(BaseModel):
    title: str
    text: str


@tool
async def describe(ctx: ToolContext, article: str) -> Description:
    """Write the description of an article for the shop."""
    return await ctx.run_agent("writer", f"Describe: {article}", max_turns=3, output=Description)


# An object with its own schema, if type hints cannot express it.


class Stock(BaseTool):
    name = "stock"
    description = "Say how many of an article are in stock."
    parameters = {
        "type": "object",
        "properties": {"article": {"type": "string", "minLength": 1}},
        "required": ["article"],
    }
    options: Options = {"metadata": {"team": "warehouse"}, "max_output_bytes": 4096}

    def __init__(self, shelves: dict[str, int] | None = None) -> None:
        self._shelves = shelves or {"tea": 12, "cups": 3}

    async def run(self, ctx: ToolContext, arguments: dict[str, Any]) -> dict[str, Any]:
        article = arguments["article"]
        return {"article": article, "count": self._shelves.get(article, 0)}


# A separate process. It may crash or hang, and a timeout kills it.


@tool(isolation="process", timeout_seconds=60)
def report(days: Annotated[int, Field(ge=1, le=366)] = 30) -> str:
    """Compute the turnover of the last days."""
    total = sum(day * day % 97 for day in range(days))
    return f"{total} euros in {days} days"
