"""A guardrail and a hook, by the names under which tools, agents and projects refer to them."""

import re
from typing import Any

from runward.tools import GuardContext, Reject, guardrail, hook

CARD = re.compile(r"\b\d{13,19}\b")
SEEN: list[str] = []


@guardrail(name="shop.no_card_numbers")
def no_card_numbers(ctx: GuardContext, payload: dict[str, Any]) -> Reject | None:
    """For the stages `input` and `output`."""
    told = str(payload.get("arguments")) + str(payload.get("output"))
    return Reject("Card numbers must not be passed on.") if CARD.search(told) else None


@hook(name="shop.audit")
async def audit(ctx: GuardContext, payload: dict[str, Any]) -> None:
    """For the moment `before_tool`: notes which tools are called."""
    SEEN.append(f"{ctx.run_id} {ctx.tool}")
