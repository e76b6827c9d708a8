"""No form of an address, in any field that takes a URL, makes Runward connect to it."""

import json
import os
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from ipaddress import ip_network
from typing import Final, TypeAlias

import httpx2
import pytest
from aiohttp import web

from runward.domain.registry.mcp_auth import OAuthClient, UnstoredRefreshTokens
from runward.egress.client import Egress
from runward.egress.responses import NoAnswer
from runward.llm.base import ModelError, ModelRequest
from runward.llm.openai.chat.chat_completions import OpenAIChat
from runward.services import Services
from runward.tools.mcp.http import NotAuthorizedError
from runward.tools.mcp.oauth import AccessTokens
from tests.hostile.addresses import urls
from tests.hostile.figures import record
from tests.hostile.inside import OPENED, Canaries, Names, api, canaries
from tests.support.services.client import Json
from tests.support.services.service import ROOT

pytestmark = pytest.mark.timeout(240)

Client: TypeAlias = httpx2.AsyncClient
MAX_GUARDS: Final = 16
TLS: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody, and is made once."""
OBJECT: Final[Json] = {"type": "object", "properties": {}, "additionalProperties": False}
GOOD: Final = f"http://{OPENED}:9/"
TOOL: Final[Json] = {"name": "tool", "type": "webhook", "url": GOOD, "parameters": OBJECT}
SERVER: Final[Json] = {"name": "box", "url": GOOD}


@pytest.fixture
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[Canaries]:
    """At the end of the test nobody has connected to any of them."""
    Names(monkeypatch)
    with canaries() as listening:
        yield listening
        assert listening.connections == 0


def test_a_canary_counts_who_connects() -> None:
    with canaries() as listening:
        for host in ("127.0.0.1", "127.0.0.2"):
            with pytest.raises(httpx2.TransportError):
                httpx2.get(f"http://{host}:{listening.port}/", timeout=0.05, trust_env=False)
        assert listening.connections == 2


# -- when something is registered -----------------------------------------------------------------

One: TypeAlias = Callable[[Client, str], Awaitable[httpx2.Response]]
Many: TypeAlias = Callable[[Client, list[Json], list[Json]], Awaitable[httpx2.Response]]

ONE: Final[dict[str, One]] = {
    "POST /v1/tools url": lambda c, url: c.post("/v1/tools", json={**TOOL, "url": url}),
    "PATCH /v1/tools url": lambda c, url: c.patch("/v1/tools/known", json={"url": url}),
    "POST /v1/mcp_servers url": lambda c, url: c.post(
        "/v1/mcp_servers", json={**SERVER, "url": url}
    ),
    "POST /v1/mcp_servers oauth.token_url": lambda c, url: c.post(
        "/v1/mcp_servers",
        json={**SERVER, "oauth": {"client_id": "me", "client_secret": "x", "token_url": url}},
    ),
    "POST /v1/webhook_endpoints url": lambda c, url: c.post(
        "/v1/webhook_endpoints", json={"url": url}
    ),
    "PATCH /v1/webhook_endpoints url": lambda c, url: c.patch(
        "/v1/webhook_endpoints/we_ffffffffffffffffffffffffffffffff", json={"url": url}
    ),
    "POST /v1/schedules run.webhook.url": lambda c, url: c.post(
        "/v1/schedules",
        json={
            "name": "nightly",
            "cron": "0 0 1 1 *",
            "run": {"model": "offline:rules", "input": "go", "webhook": {"url": url}},
        },
    ),
    "POST /v1/runs webhook.url": lambda c, url: c.post(
        "/v1/runs", json={"model": "offline:rules", "input": "go", "webhook": {"url": url}}
    ),
}
MANY: Final[dict[str, Many]] = {
    "PUT /v1/policy": lambda c, guards, hooks: c.put(
        "/v1/policy", json={"guardrails": guards, "hooks": hooks}
    ),
    "POST /v1/agents": lambda c, guards, hooks: c.post(
        "/v1/agents",
        json={"name": "a", "model": "offline:rules", "guardrails": guards, "hooks": hooks},
    ),
    "PATCH /v1/agents": lambda c, guards, hooks: c.patch(
        "/v1/agents/known", json={"guardrails": guards, "hooks": hooks}
    ),
    "POST /v1/runs": lambda c, guards, hooks: c.post(
        "/v1/runs",
        json={"model": "offline:rules", "input": "go", "guardrails": guards, "hooks": hooks},
    ),
    "POST /v1/tools guardrails": lambda c, guards, _: c.post(
        "/v1/tools", json={**TOOL, "guardrails": guards}
    ),
}
IN_CONTRACT: Final = {
    "RegisterTool.url": "POST /v1/tools url",
    "FunctionTool.url": "the same check: it becomes a RegisterTool",
    "NestedFunctionTool.url": "the same check: it becomes a RegisterTool",
    "InlineTool.url": "the same check: it becomes a RegisterTool",
    "InlineFunctionTool.url": "the same check: it becomes a RegisterTool",
    "InlineNestedFunctionTool.url": "the same check: it becomes a RegisterTool",
    "UpdateTool.url": "PATCH /v1/tools url",
    "RegisterMcpServer.url": "POST /v1/mcp_servers url",
    "UpdateMcpServer.url": "the same check, after a server was reached",
    "OAuth.token_url": "POST /v1/mcp_servers oauth.token_url",
    "CreateWebhookEndpoint.url": "POST /v1/webhook_endpoints url",
    "UpdateWebhookEndpoint.url": "PATCH /v1/webhook_endpoints url",
    "RunWebhook.url": "POST /v1/runs webhook.url",
    "WebhookGuardrail.url": "a response",
    "WebhookGuardrailInput.url": "PUT /v1/policy",
    "WebhookHook.url": "a response",
    "WebhookHookInput.url": "PUT /v1/policy",
    "InputImage.url": "handed to the model's provider, never fetched",
    "InputFile.url": "handed to the model's provider, never fetched",
    "InputFilePart.file_url": "handed to the model's provider, never fetched",
    "InputImagePart.image_url": "handed to the model's provider, never fetched",
    "InputImageUrlPart.image_url": "handed to the model's provider, never fetched",
    "InputImageUrl.url": "handed to the model's provider, never fetched",
    "ResponseInputImage.image_url": "handed to the model's provider, never fetched",
    "ResponseMcpTool.server_url": "only the value `runward`, never fetched",
    "ResponseInputFile.file_url": "handed to the model's provider, never fetched",
    "ImagePart.url": "handed to the model's provider, never fetched",
    "FilePart.url": "handed to the model's provider, never fetched",
}


def test_every_url_of_the_contract_has_an_entry_here() -> None:
    contract = json.loads((ROOT / "openapi/openapi.json").read_text())
    asked = _named_in({"all": [*_requests(contract)]}, contract, set())
    found = {
        f"{name}.{field}"
        for name in asked
        for field in contract["components"]["schemas"][name].get("properties", {})
        if "url" in field.lower() or "uri" in field.lower()
    }
    assert found - IN_CONTRACT.keys() == set()
    assert len(found) >= 8


def _requests(contract: Json) -> Iterator[Json]:
    for path in contract["paths"].values():
        for operation in path.values():
            yield operation.get("requestBody", {})


def _named_in(schema: Json, contract: Json, found: set[str]) -> set[str]:
    """The names of all schemas that one refers to, however deep."""
    for name in re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(schema)):
        if name not in found:
            found.add(name)
            _named_in(contract["components"]["schemas"][name], contract, found)
    return found


async def unrefused(client: Client, url: str) -> list[str]:
    """The single places that do not refuse this URL with its path."""
    found: list[str] = []
    for place, register in ONE.items():
        response = await register(client, url)
        if not (400 <= response.status_code < 424 and "url" in response.text):
            found.append(f"{place} {url!r}: {response.status_code} {response.text[:200]}")
    return found


async def unrefused_guards(client: Client, batch: list[str]) -> list[str]:
    found: list[str] = []
    guards = [{"stage": "input", "type": "webhook", "url": url} for url in batch]
    hooks = [{"on": "before_tool", "type": "webhook", "url": url} for url in batch]
    for place, register in MANY.items():
        response = await register(client, guards, hooks)
        paths = [error["path"] for error in response.json().get("errors", [])]
        for kind in ("guardrails", "hooks")[: 1 if "tools" in place else 2]:
            for number, url in enumerate(batch):
                if not any(f"{kind}.{number}." in path for path in paths):
                    found.append(f"{place} {kind} {url!r}: {response.status_code}")
    return found


@pytest.fixture
async def registered(
    database_url: str, guarded: Canaries
) -> AsyncGenerator[tuple[Services, Client]]:
    async with api(database_url) as (services, client):
        for path, body in (
            ("/v1/tools", {**TOOL, "name": "known"}),
            ("/v1/agents", {"name": "known", "model": "offline:rules"}),
        ):
            assert (await client.post(path, json=body)).status_code == 201
        yield services, client


def storable(url: str) -> bool:
    """Whether it is not refused as JSON already."""
    return "\0" not in url


async def test_every_shape_is_refused_wherever_a_url_is_registered(
    registered: tuple[Services, Client], guarded: Canaries
) -> None:
    _, client = registered
    shapes = urls(guarded.port)
    found: list[str] = []
    for url in shapes:
        found += await unrefused(client, url)
    rest = [url for url in shapes if storable(url)]
    for at in range(0, len(rest), MAX_GUARDS):
        found += await unrefused_guards(client, rest[at : at + MAX_GUARDS])
    assert found == []
    assert (await client.get("/v1/mcp_servers")).json()["data"] == []
    places = len(ONE) + 2 * len(MANY) - 1
    record(address_shapes=len(shapes), places_of_registration=places)
    assert len(shapes) >= 206


async def test_every_shape_is_refused_as_the_address_of_a_project_s_models(
    registered: tuple[Services, Client], guarded: Canaries
) -> None:
    services, client = registered
    found: list[str] = []
    shapes = [url for url in urls(guarded.port) if storable(url)]
    project = (await client.get("/v1/projects")).json()["data"][0]["id"]
    assert project
    providers = ("openai", "openai-responses")
    for number, url in enumerate(shapes):
        await client.put("/v1/secrets/OPENAI_BASE_URL", json={"value": url})
        services.registry.models.forget(None)
        for provider in (
            providers if os.environ.get("RUNWARD_HOSTILE") else (providers[number % 2],)
        ):
            body = {"model": f"{provider}:x", "input": "go"}
            response = await client.post("/v1/runs", json=body)
            if response.status_code != 422 or "OPENAI_BASE_URL" not in response.text:
                found.append(f"{provider} {url!r}: {response.status_code} {response.text[:200]}")
    assert found == []
    record(address_shapes_of_models=len(shapes))


# -- when something is sent -----------------------------------------------------------------------


async def test_every_shape_is_refused_when_it_is_sent(guarded: Canaries) -> None:
    """Also where it was registered before an operator closed the network."""
    async with aclosing(Egress(tls=TLS)) as egress, aclosing(egress.transport()) as transport:
        for url in urls(guarded.port):
            outcome = await egress.send("POST", url, {}, b"", seconds=2, max_response_bytes=9)
            assert isinstance(outcome, NoAnswer), url
            assert (outcome.sent, outcome.permanent) == (False, True), url
            try:
                request = httpx2.Request("GET", url)
            except (httpx2.InvalidURL, ValueError):
                continue
            with pytest.raises((httpx2.HTTPError, OSError, ValueError)):
                await transport.handle_async_request(request)


async def test_every_shape_is_refused_when_a_model_is_asked(guarded: Canaries) -> None:
    async with aclosing(Egress(tls=TLS)) as egress:
        for url in urls(guarded.port):
            model = OpenAIChat("sk-own", url, egress.connect)
            try:
                with pytest.raises((ModelError, httpx2.InvalidURL, ValueError)):
                    await model.respond(ModelRequest("m", "", ()), lambda _: None)
            finally:
                await model.aclose()


METADATA: Final = ("resource_metadata", "authorization_servers", "token_endpoint")


class Discovery:
    """An MCP server and an authorization server at an address that is open; what they name leads
    inside."""

    def __init__(self) -> None:
        self.url = ""
        self.named = ""
        self.kind = ""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        app = web.Application()
        app.router.add_get("/.well-known/oauth-protected-resource", self._resource)
        app.router.add_get("/.well-known/oauth-authorization-server", self._server)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, OPENED, 0).start()
            self.url = f"http://{OPENED}:{runner.addresses[0][1]}"
            yield
        finally:
            await runner.cleanup()

    def refusal(self) -> httpx2.Response:
        named = self.named if self.kind == "resource_metadata" else None
        place = named or f"{self.url}/.well-known/oauth-protected-resource"
        value = f'Bearer resource_metadata="{place}"'.encode(errors="replace")
        return httpx2.Response(
            401,
            headers=[(b"www-authenticate", value)],
            request=httpx2.Request("POST", f"{self.url}/mcp"),
        )

    async def _resource(self, _request: web.Request) -> web.Response:
        servers = [self.named] if self.kind == "authorization_servers" else [self.url]
        return web.json_response({"resource": f"{self.url}/mcp", "authorization_servers": servers})

    async def _server(self, _request: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "token_endpoint": self.named})


@pytest.mark.parametrize("kind", METADATA)
async def test_every_shape_is_refused_that_metadata_of_an_mcp_server_names(
    guarded: Canaries, kind: str
) -> None:
    found: list[str] = []
    egress = Egress(allow_private=(ip_network(f"{OPENED}/32"),), tls=TLS)
    discovery = Discovery()
    discovery.kind = kind
    client = OAuthClient("me", "s3cret")
    async with aclosing(egress), discovery.serving():
        for url in urls(guarded.port):
            discovery.named = url
            tokens = AccessTokens(f"{discovery.url}/mcp", client, UnstoredRefreshTokens(), egress)
            try:
                await tokens.replace(None, discovery.refusal())
                found.append(f"{url!r}: a token")
            except NotAuthorizedError:
                pass
            except Exception as error:
                found.append(f"{url!r}: {error!r}")
            finally:
                await tokens.aclose()
    assert found == []


# -- names that change ----------------------------------------------------------------------------


@pytest.fixture
async def peer() -> AsyncGenerator[str]:
    """A tool at the open address; yields its port."""

    async def fine(_request: web.Request) -> web.Response:
        return web.json_response({"fine": True})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fine)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, OPENED, 0).start()
    yield str(runner.addresses[0][1])
    await runner.cleanup()


@pytest.mark.parametrize(
    "second", [["127.0.0.1"], ["127.0.0.2"], [OPENED, "127.0.0.1"], ["::1"], ["::ffff:127.0.0.1"]]
)
async def test_a_name_that_leads_inside_only_later_is_refused_then(
    database_url: str, monkeypatch: pytest.MonkeyPatch, second: list[str], peer: str
) -> None:
    names = Names(monkeypatch)
    with canaries() as listening:
        async with api(database_url) as (_, client):
            url = f"http://rebound.example:{listening.port}/"
            names.answers["rebound.example"] = [[OPENED], second]
            made = await client.post("/v1/tools", json={**TOOL, "url": url})
            assert made.status_code == 201, made.text
            tried = await client.post("/v1/tools/tool/test", json={"arguments": {}})
            assert "must not call rebound.example" in tried.text, tried.text
            names.answers["rebound.example"] = [[OPENED], second]
            server = await client.post("/v1/mcp_servers", json={**SERVER, "url": url})
            assert server.status_code == 424, server.text
        assert listening.connections == 0


async def test_one_send_asks_for_a_name_once_and_goes_where_that_leads(
    monkeypatch: pytest.MonkeyPatch, peer: str
) -> None:
    names = Names(monkeypatch)
    url = f"http://rebound.example:{peer}/"
    egress = Egress(allow_private=(ip_network(f"{OPENED}/32"),), tls=TLS)
    async with aclosing(egress), aclosing(egress.transport()) as transport:
        names.answers["rebound.example"] = [[OPENED], ["127.0.0.1"]]
        outcome = await egress.send("POST", url, {}, b"", seconds=5, max_response_bytes=99)
        assert getattr(outcome, "body", None) == b'{"fine": true}'
        assert names.lookups == 1
        names.answers["rebound.example"] = [[OPENED], ["127.0.0.1"]]
        response = await transport.handle_async_request(httpx2.Request("GET", url))
        await response.aread()
        assert (response.status_code, names.lookups) == (200, 2)
