"""A redirect from a model's provider is an error. Neither the key nor the request follows it."""

from collections.abc import Callable
from contextlib import aclosing
from typing import Final, TypeAlias

import pytest

from runward.llm.base import ModelError, ModelRequest
from runward.llm.openai.chat.chat_completions import OpenAIChat
from runward.llm.openai.responses.responses_api import OpenAIResponses
from runward.llm.providers.access import AwsKey, ProviderAccess
from runward.llm.providers.models import ProviderModel
from tests.hostile.webhooks import says
from tests.unit.raw_server import RawServer, answer

KEY: Final = "sk-that-stays-here"
Client: TypeAlias = OpenAIChat | OpenAIResponses | ProviderModel
AWS: Final = AwsKey("AKIATEST", KEY, session_token=KEY)
PROTOCOLS: Final[dict[str, Callable[[str], Client]]] = {
    "openai": lambda url: OpenAIChat(KEY, url),
    "openai-responses": lambda url: OpenAIResponses(KEY, url),
    "anthropic": lambda url: ProviderModel("anthropic", ProviderAccess(KEY, url)),
    "gemini": lambda url: ProviderModel("gemini", ProviderAccess(KEY, url)),
    "bedrock": lambda url: ProviderModel("bedrock", ProviderAccess(base_url=url, aws=AWS)),
}


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_redirect_of_a_provider_is_not_followed(protocol: str, status: int) -> None:
    async with RawServer(says(answer(b"", "500 No"), closes=True)) as elsewhere:
        redirect = answer(b"", f"{status} Moved", f"Location: {elsewhere.url}")
        async with RawServer(says(redirect, closes=True)) as provider:
            url = provider.url.removesuffix("/tool")
            async with aclosing(PROTOCOLS[protocol](url)) as model:
                with pytest.raises(ModelError):
                    await model.respond(ModelRequest("m", "", ()), lambda _: None)
        assert len(provider.requests) == 1
        assert elsewhere.requests == []
