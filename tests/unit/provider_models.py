"""The adapters of Anthropic, Gemini and Bedrock before their strict servers, for the unit tests."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import Item, Message, ToolCall
from runward.domain.run.response import ModelResponse, RequestedCall
from runward.llm.base import ModelDelta, ModelRequest
from runward.llm.capabilities import fit_request
from runward.llm.providers.access import AwsKey, ProviderAccess, ProviderName
from runward.llm.providers.models import ProviderModel
from tests.support.models.all_providers import AllProviders
from tests.support.models.chat_rules import Body
from tests.support.models.providers.provider_server import ProviderServer

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

KEY = "provider-key-1234"
NAMES: dict[ProviderName, str] = {
    "anthropic": "claude-opus-4-6",
    "gemini": "gemini-3.8-flash",
    "bedrock": "us.anthropic.claude-opus-4-6-v1",
}
NUMBER: Body = {"type": "integer", "minimum": 0}
ADD = ToolSpec(
    name="add",
    description="Adds.",
    parameters={
        "type": "object",
        "properties": {"x": NUMBER},
        "required": ["x"],
        "additionalProperties": False,
    },
)
LOOSE = ToolSpec(name="loose", parameters={"type": "object", "properties": {}}, strict=False)


@dataclass(slots=True)
class Provider:
    """One adapter, its server, and what it was last sent."""

    name: ProviderName
    model: ProviderModel
    server: ProviderServer
    deltas: list[ModelDelta] = field(default_factory=list[ModelDelta])

    @property
    def model_name(self) -> str:
        return NAMES[self.name]

    async def ask(self, *items: Item, **fields: Any) -> ModelResponse:
        fields = {"tools": (ADD, LOOSE), "timeout_seconds": 30.0, **fields}
        request = ModelRequest(self.model_name, "Be kind.", items, **fields)
        self.deltas.clear()
        fitting, _ = fit_request(request, self.model.abilities)
        return await self.model.respond(fitting, self.deltas.append)

    @property
    def sent(self) -> Body:
        return self.server.requests(self.model_name)[-1].body


def access(name: ProviderName, url: str) -> ProviderAccess:
    if name == "bedrock":
        return ProviderAccess(None, url, "us-east-1", AwsKey("AKIATEST", KEY))
    return ProviderAccess(KEY, url)


@asynccontextmanager
async def connected(name: ProviderName, providers: AllProviders) -> AsyncGenerator[Provider]:
    model = ProviderModel(name, access(name, providers.url))
    try:
        yield Provider(name, model, getattr(providers, name))
    finally:
        await model.aclose()


@asynccontextmanager
async def before(name: ProviderName, handler: Handler) -> AsyncGenerator[Provider]:
    """A server that answers with whatever the handler says, in this event loop."""
    app = web.Application()
    app.router.add_post("/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model = ProviderModel(name, access(name, f"http://127.0.0.1:{runner.addresses[0][1]}"))
    try:
        yield Provider(name, model, ProviderServer())
    finally:
        await model.aclose()
        await runner.cleanup()


def kept(response: ModelResponse) -> list[Item]:
    """As the domain keeps an answer."""
    return [
        ToolCall(one.call_id, one.name, one.arguments, None, one.native)  # type: ignore[arg-type]
        if isinstance(one, RequestedCall)
        else one
        for one in response.output
    ]


def user(text: str = "go") -> Message:
    return Message("user", text)


def texts_of(parts: Iterable[Body]) -> list[str]:
    return [part["text"] for part in parts if "text" in part]
