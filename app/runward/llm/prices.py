"""What a model's answer costs: by the operator's own prices, else by the table that comes with
genai-prices. That table is as old as the installed release; nothing is ever fetched."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runward.domain.run.response import Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

MAX_UNLISTED: Final = 1024
"""Names of models that are remembered because the table does not have them: a look-up is slow."""
FREE: Final = frozenset({"offline"})
_PROVIDERS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "bedrock": "aws",
}
"""Our vendors, by their names in the table."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens. Without `cached_input`, cached tokens cost what others do."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, usage: Usage) -> float:
        cached = min(usage.cached_input, usage.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input - cached
        return (fresh * self.input + cached * cached_price + usage.output * self.output) / 1e6


class Prices:
    """`own`: prices by `vendor:model`, which come before the table's. A name that ends in `*`
    stands for all that begin like it; the longest that fits counts."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._exact = {
            name: one for name, one in (overrides or {}).items() if not name.endswith("*")
        }
        begins = {name[:-1]: one for name, one in (overrides or {}).items() if name.endswith("*")}
        self._begins = sorted(begins.items(), key=lambda item: len(item[0]), reverse=True)
        self._unlisted: set[tuple[str, str]] = set()
        self._table: DataSnapshot | None = None

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Of one answer of `vendor:model`. None: nobody knows its price. The first one that the
        table is needed for loads it, which takes a quarter of a second."""
        if (own := self._own(model)) is not None:
            return own.cost(usage)
        vendor, _, name = model.partition(":")
        if vendor in FREE:
            return 0.0
        provider = _PROVIDERS.get(vendor)
        return None if provider is None else self._listed(provider, name, usage)

    async def open(self) -> None:
        """Optional, at the start of a process: saves the first answer the table's loading."""
        await asyncio.to_thread(self._load)

    def _own(self, model: str) -> Price | None:
        if model in self._exact:
            return self._exact[model]
        return next((one for begin, one in self._begins if model.startswith(begin)), None)

    def _listed(self, provider: str, name: str, usage: Usage) -> float | None:
        if (provider, name) in self._unlisted:
            return None
        tokens = _Tokens(usage.input, usage.output, min(usage.cached_input, usage.input))
        try:
            price = self._load().calc(tokens, name, provider, None, None)
        except LookupError:
            if len(self._unlisted) < MAX_UNLISTED:
                self._unlisted.add((provider, name))
            return None
        return float(price.total_price)

    def _load(self) -> "DataSnapshot":
        """A snapshot of our own: the library's shared one can be made to update itself."""
        if self._table is None:
            from genai_prices.data import providers  # noqa: PLC0415  # slow, and often not needed
            from genai_prices.data_snapshot import DataSnapshot  # noqa: PLC0415

            self._table = DataSnapshot(providers, from_auto_update=False)
        return self._table


@dataclass(frozen=True, slots=True)
class _Tokens:
    """By the names that the table's units have; `input_tokens` includes those read from a cache."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
