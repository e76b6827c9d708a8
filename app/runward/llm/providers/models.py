"""Models of Anthropic, Google and Amazon Bedrock, each through its provider's own protocol.

pydantic-ai builds the requests and parses the responses. The provider's own client library
(`anthropic`, `google-genai`, `boto3`) sends them. runward.llm.providers.connection and the modules
that it imports translate between Runward's items and pydantic-ai's messages. The libraries come
with the extra `providers`, and are imported when a model of such a provider is first used.
"""

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from runward.domain.events.values import RunErrorCode
from runward.domain.run.response import ModelResponse
from runward.llm import failures
from runward.llm.base import Abilities, ModelError, ModelRequest, OnDelta
from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.sdk_clients import LazyModel

if TYPE_CHECKING:
    from runward.llm.providers.connection import ProviderConnection

_COMMON: Final = frozenset({"temperature", "top_p", "max_output_tokens", "stop", "reasoning"})
ABILITIES: Final[dict[ProviderName, Abilities]] = {
    "anthropic": Abilities(
        "anthropic",
        _COMMON | {"user", "service_tier"},
        hosted=frozenset({"web_search", "code_interpreter"}),
    ),
    "gemini": Abilities(
        "gemini",
        _COMMON | {"seed", "presence_penalty", "frequency_penalty"},
        hosted=frozenset({"web_search", "code_interpreter"}),
    ),
    "bedrock": Abilities("bedrock", _COMMON | {"metadata", "service_tier"}),
}
"""The features that at least one model of the provider supports. A loss for a particular model is
reported with its response. If the provider has no setting for "one call at a time", the adapter
keeps only the first call."""


def is_installed() -> bool:
    return find_spec("pydantic_ai") is not None


class ProviderModel(LazyModel["ProviderConnection"]):
    def __init__(self, provider: ProviderName, access: ProviderAccess) -> None:
        super().__init__(access.secret)
        self._provider: ProviderName = provider
        self._access = access

    @property
    def abilities(self) -> Abilities:
        return ABILITIES[self._provider]

    def open_client(self) -> "ProviderConnection":
        """Return an open connection. Imports pydantic-ai and the provider's own library."""
        try:
            from runward.llm.providers.connection import ProviderConnection  # noqa: PLC0415  # comes with the extra `providers`
        except ImportError as error:
            raise ModelError(
                RunErrorCode.MODEL_MISCONFIGURED,
                missing_extra_message(self._provider),
                transient=False,
            ) from error
        return ProviderConnection(self._provider, self._access)

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        connection = await self.client()
        try:
            async with asyncio.timeout(request.timeout_seconds):
                return await connection.ask(request, on_delta)
        except TimeoutError:
            raise failures.timed_out(request.timeout_seconds) from None


def missing_extra_message(provider: str) -> str:
    return (
        f"Models of {provider} need libraries that are not installed. Run: pip "
        "install 'runward[providers]'"
    )
