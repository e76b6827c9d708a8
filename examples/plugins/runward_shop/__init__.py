"""A shop's tools for Runward. The entry point in pyproject.toml names this module."""

from runward_shop.guards import audit, no_card_numbers
from runward_shop.orders import Stock, convert, refund, report, ship

TOOLS = [convert, refund, ship, Stock(), report, no_card_numbers, audit]
