"""The providers' client libraries. Each is opened without retries and with one connection pool. If
possible, it sends no telemetry about this machine. Their HTTP client is aiohttp, which takes less
CPU time than httpx2's own transport."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, cast

import anthropic
import httpx2
from aiohttp import ClientPayloadError
from aiohttp.client_proto import ResponseHandler
from google import genai
from google.genai._api_client import BaseApiClient  # pyright: ignore[reportPrivateUsage]
from google.genai.client import AsyncClient
from google.genai.types import HttpOptions
from pydantic_ai import ModelMessage
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.google import GoogleModel, GoogleModelSettings
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.bedrock import BedrockModelProfile, BedrockProvider
from pydantic_ai.providers.google import GoogleProvider

from runward.llm.providers.access import ProviderAccess, ProviderName
from runward.llm.providers.aws import MAX_CONNECTIONS, bedrock_client
from runward.llm.sdk_clients import ENCODINGS, limit_body

CONNECT_SECONDS: Final = 10.0
READ_SECONDS: Final = 3600.0
"""Seconds between bytes, for libraries that require a number. The request's own limit is
shorter."""
AGENT: Final = "runward"
PLACEHOLDER_KEY: Final = "none"
"""The key that is sent if only an address is configured."""
GEMINI_EXTRA: Final = "runward_extra_body"
"""The setting that the Gemini subclass below reads."""

_set_exception: Final = ResponseHandler.set_exception


def _tell_the_reader(self: ResponseHandler, exc: BaseException, *cause: Any) -> None:
    """If the framing of a body breaks after the headers were read, aiohttp 3.14 closes the
    connection without an error for the reader of the body. The reader would wait until the request
    times out."""
    _set_exception(self, exc, *cause)
    body = self._payload  # pyright: ignore[reportPrivateUsage]
    if body is not None and body.exception() is None and not body.is_eof():
        body.set_exception(
            ClientPayloadError(f"the response body is broken ({type(exc).__name__})")
        )


ResponseHandler.set_exception = _tell_the_reader  # pyright: ignore[reportAttributeAccessIssue]

_UNKNOWN: Final = BedrockModelProfile(
    bedrock_send_back_thinking_parts=True,
    bedrock_supports_tool_choice=True,
    supports_json_schema_output=True,
)


@dataclass(frozen=True, slots=True)
class OpenProvider:
    """An open client of a provider. `threads`: the maximum number of threads that it uses at the
    same time."""

    model: Callable[[str], Model]
    close: Callable[[], Awaitable[None]]
    threads: int = 0


class _Anthropic(anthropic.AsyncAnthropic):
    def platform_headers(self) -> dict[str, str]:
        """Return no headers with names and versions of this machine's software."""
        return {}


class _Gemini(GoogleModel):
    async def _build_content_and_config(
        self,
        messages: list[ModelMessage],
        model_settings: GoogleModelSettings,
        model_request_parameters: ModelRequestParameters,
    ) -> Any:
        """Return the contents and the configuration with `extra_body`, which pydantic-ai does not
        pass on to google-genai."""
        contents, config = cast(
            tuple[Any, Any],
            await super()._build_content_and_config(  # pyright: ignore[reportUnknownMemberType]
                messages, model_settings, model_request_parameters
            ),
        )
        if extra := cast(dict[str, Any], model_settings).get(GEMINI_EXTRA):
            config["http_options"]["extra_body"] = extra
        return contents, config


# Both destructors start a task that nothing awaits. If the loop ends first, an error is logged.
# There is nothing to close, because the HTTP client is Runward's.
for _destroyed in (AsyncClient, BaseApiClient):
    del _destroyed.__del__


def _anthropic(access: ProviderAccess) -> OpenProvider:
    http = _http()
    client = _Anthropic(
        api_key=access.key or PLACEHOLDER_KEY,
        base_url=access.base_url or "https://api.anthropic.com",
        max_retries=0,
        http_client=http,
    )
    provider = AnthropicProvider(anthropic_client=client)
    return OpenProvider(lambda name: AnthropicModel(name, provider=provider), http.aclose)


def _gemini(access: ProviderAccess) -> OpenProvider:
    # The library logs warnings about calls.
    logging.getLogger("google_genai.types").setLevel(logging.ERROR)
    http = _http()
    options = HttpOptions(
        base_url=access.base_url,
        httpx_async_client=http,
        timeout=int(READ_SECONDS * 1000),
    )
    client = genai.Client(
        vertexai=False, api_key=access.key or PLACEHOLDER_KEY, http_options=options
    )
    provider = GoogleProvider(client=client)
    return OpenProvider(lambda name: _Gemini(name, provider=provider), http.aclose)


def _bedrock(access: ProviderAccess) -> OpenProvider:
    client = bedrock_client(access, agent=AGENT, connect=CONNECT_SECONDS, read=READ_SECONDS)

    async def close() -> None:
        client.close()

    provider = BedrockProvider(bedrock_client=client)

    def model(name: str) -> Model:
        """Return the model. If pydantic-ai does not know a model (the ARN of an inference profile,
        or a new family), all settings are sent. Bedrock reports the settings that it does not
        accept."""
        known = provider.model_profile(name) is not None
        return BedrockConverseModel(name, provider=provider, profile=None if known else _UNKNOWN)

    return OpenProvider(model, close, MAX_CONNECTIONS)


def _http() -> httpx2.AsyncClient:
    """Return a client that uses aiohttp, which takes the least CPU time. Redirects are not
    followed, because the request to the new address would contain the key."""
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    return anthropic.DefaultAioHttpClient(
        timeout=timeout,
        headers={"user-agent": AGENT, "accept-encoding": ENCODINGS},
        follow_redirects=False,
        event_hooks={"response": [limit_body]},
    )


CLIENT_FACTORIES: Final[dict[ProviderName, Callable[[ProviderAccess], OpenProvider]]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}
