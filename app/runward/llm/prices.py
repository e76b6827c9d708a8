"""Prices of model responses. The operator's prices come first, then the table of the installed
release of genai-prices. Nothing is downloaded."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from runward.domain.run.response import Usage

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot

MAX_UNLISTED: Final = 1024
"""Maximum number of cached names of models that the table does not contain, because a look-up is
slow."""
FREE: Final = frozenset({"offline"})
_PROVIDERS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "openai-responses": "openai",
    "anthropic": "anthropic",
    "gemini": "google",
    "bedrock": "aws",
}
"""Names of the providers in the table."""


@dataclass(frozen=True, slots=True)
class Price:
    """Prices in US dollars per million tokens. Without `cached_input`, cached tokens cost as much
    as others."""

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, usage: Usage) -> float:
        cached = min(usage.cached_input, usage.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input - cached
        return (fresh * self.input + cached * cached_price + usage.output * self.output) / 1e6


class Prices:
    """The price list. `overrides`: prices by `provider:model`, which override the table. A
    name that ends in `*` applies to all names with that beginning; the longest match wins."""

    def __init__(self, overrides: Mapping[str, Price] | None = None) -> None:
        self._exact = {
            name: one for name, one in (overrides or {}).items() if not name.endswith("*")
        }
        begins = {name[:-1]: one for name, one in (overrides or {}).items() if name.endswith("*")}
        self._begins = sorted(begins.items(), key=lambda item: len(item[0]), reverse=True)
        self._unlisted: set[tuple[str, str]] = set()
        self._table: DataSnapshot | None = None

    @property
    def names(self) -> list[str]:
        """The models to which the operator's own prices apply, without patterns."""
        return [*self._exact]

    def cost_usd(self, model: str, usage: Usage) -> float | None:
        """Return the price of one response of `provider:model` in US dollars, or None if the price
        is unknown. The first look-up loads the table, which takes a quarter of a second."""
        if (own := self._own(model)) is not None:
            return own.cost(usage)
        provider, _, name = model.partition(":")
        if provider in FREE:
            return 0.0
        provider = _PROVIDERS.get(provider)
        return None if provider is None else self._listed(provider, name, usage)

    def find_context_window(self, model: str) -> int | None:
        """Return the number of tokens that `provider:model` can read, or None if the table does not
        contain it."""
        provider, _, name = model.partition(":")
        listed = _PROVIDERS.get(provider)
        if listed is None or (listed, name) in self._unlisted:
            return None
        try:
            return self._load().find_provider_model(name, None, listed, None)[1].context_window
        except LookupError:
            self._add_unlisted(listed, name)
            return None

    def find_problem(self, model: str) -> str | None:
        """Return why `max_cost_usd` cannot limit a run of this model, or None if it can."""
        if self.cost_usd(model, Usage()) is not None:
            return None
        return (
            f"needs a price for each model, and Runward knows no price for '{model}'. Ask the "
            "operator to add the model to RUNWARD_MODEL_PRICES, or use max_tokens instead of "
            "max_cost_usd"
        )

    async def open(self) -> None:
        """Load the table, so that the first response does not wait for it. A call of this method is
        optional."""
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
            self._add_unlisted(provider, name)
            return None
        return float(price.total_price)

    def _add_unlisted(self, provider: str, name: str) -> None:
        if len(self._unlisted) < MAX_UNLISTED:
            self._unlisted.add((provider, name))

    def _load(self) -> "DataSnapshot":
        """Return a private snapshot of the table, because the library can update its shared
        snapshot."""
        if self._table is None:
            from genai_prices.data import providers  # noqa: PLC0415  # slow, and often not needed
            from genai_prices.data_snapshot import DataSnapshot  # noqa: PLC0415

            self._table = DataSnapshot(providers, from_auto_update=False)
        return self._table


@dataclass(frozen=True, slots=True)
class _Tokens:
    """Numbers of tokens by the names of the table's units. `input_tokens` includes cached
    tokens."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
