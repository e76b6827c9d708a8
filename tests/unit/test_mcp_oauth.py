"""Access tokens without a service: who waits for whom, and what is never lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

import httpx2
import pytest
from aiohttp import web

from runward.domain.registry.mcp_auth import OAuthClient, UnstoredRefreshTokens
from runward.egress.client import Egress
from runward.tools.mcp.http import NotAuthorizedError
from runward.tools.mcp.oauth import AccessTokens, AuthorizingTransport
from tests.support.mcp.oauth_server import CLIENT, SECRET, AuthServer
from tests.support.serving import Hold, Server

LOOPBACK = (ip_network("127.0.0.0/8"),)


class Resource(Server):
    """Lets any token in. `/slow` answers when it is released; what it says of itself may change."""

    def __init__(self, auth: AuthServer) -> None:
        super().__init__()
        self.hold = Hold()
        self.about: Any = {"authorization_servers": [auth.url]}
        self.challenge = 'Bearer resource_metadata="{url}/about", scope="asked"'
        self.bodies: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/about", self._about)
        app.router.add_post("/{path:slow|quick}", self._answer)
        return app

    async def _about(self, request: web.Request) -> web.Response:
        return web.json_response({"resource": self.url, **self.about})

    async def _answer(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.text())
        if "Authorization" not in request.headers:
            challenge = self.challenge.replace("{url}", self.url)
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if request.path == "/slow":
            await self.hold.reach()
        return web.Response(text=request.headers["Authorization"])


@asynccontextmanager
async def reaching(
    resource: Resource, client: OAuthClient, tokens: UnstoredRefreshTokens | None = None
) -> AsyncGenerator[httpx2.AsyncClient]:
    egress = Egress(allow_private=LOOPBACK)
    access = AccessTokens(f"{resource.url}/slow", client, tokens or UnstoredRefreshTokens(), egress)
    transport = AuthorizingTransport(egress.transport(), access)
    async with httpx2.AsyncClient(transport=transport, base_url=resource.url) as http:
        yield http
    await egress.aclose()


def own(**fields: Any) -> OAuthClient:
    about: dict[str, Any] = {"client_id": CLIENT, "client_secret": SECRET, **fields}
    return OAuthClient(**about)


async def test_a_slow_answer_keeps_nobody_else_waiting() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        async with reaching(resource, own()) as http:
            slow = asyncio.create_task(http.post("/slow"))
            await asyncio.to_thread(resource.hold.arrived)
            assert (await http.post("/quick")).status_code == 200
            assert not slow.done()
            resource.hold.release()
            assert (await slow).status_code == 200


async def test_a_lifetime_that_no_float_holds_is_a_long_one() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        auth.expires_in = 10**400
        async with reaching(resource, own()) as http:
            answers = [await http.post("/quick") for _ in range(2)]
        assert len({one.text for one in answers}) == len(auth.asked) == 1


async def test_many_that_need_a_token_at_once_ask_once_and_send_their_bodies_again() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        async with reaching(resource, own()) as http:
            sent = [http.post("/quick", content=f"body {n}") for n in range(20)]
            answers = await asyncio.gather(*sent)
        assert {one.status_code for one in answers} == {200}
        assert len({one.text for one in answers}) == 1
        assert len(auth.asked) == 1
        assert set(resource.bodies) == {f"body {n}" for n in range(20)}


async def test_the_scope_that_the_server_asks_for_is_asked_for_unless_another_is_given() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        for client in (own(), own(scope="mine")):
            async with reaching(resource, client) as http:
                await http.post("/quick")
        assert [asked["scope"] for asked in auth.asked] == ["asked", "mine"]
        assert {asked["resource"] for asked in auth.asked} == {resource.url}


async def test_a_call_that_is_cancelled_does_not_lose_the_new_refresh_token() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        auth.clients = {CLIENT: ""}
        auth.hold = Hold()
        tokens = UnstoredRefreshTokens()
        client = own(client_secret=None, refresh_token=auth.new_refresh_token())
        async with reaching(resource, client, tokens) as http:
            call = asyncio.create_task(http.post("/quick"))
            await asyncio.to_thread(auth.hold.arrived)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            auth.hold.release()
        assert tokens.newest in auth.refresh_tokens


async def test_a_refresh_token_that_is_not_replaced_stays_good() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        auth.clients, auth.rotates = {CLIENT: ""}, False
        tokens = UnstoredRefreshTokens()
        client = own(client_secret=None, refresh_token=auth.new_refresh_token())
        for _ in range(2):
            async with reaching(resource, client, tokens) as http:
                assert (await http.post("/quick")).status_code == 200
        assert tokens.newest is None
        assert [asked["client_id"] for asked in auth.asked] == [CLIENT, CLIENT]


async def test_what_is_said_of_another_resource_is_not_believed() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        resource.about["resource"] = "http://127.0.0.1:1/other"
        async with reaching(resource, own()) as http:
            with pytest.raises(NotAuthorizedError, match="a different resource"):
                await http.post("/quick")
        assert auth.asked == []


async def test_a_server_without_metadata_of_its_own_may_be_its_own_authorization_server() -> None:
    """As in the specification of March 2025."""
    with AuthServer() as auth, Resource(auth) as resource:
        resource.challenge = "Bearer"
        async with reaching(resource, own()) as http:
            with pytest.raises(NotAuthorizedError, match=r"has valid OAuth metadata\. Set `oauth"):
                await http.post("/quick")
        client = own(token_url=f"{auth.url}/token")
        async with reaching(resource, client) as http:
            assert (await http.post("/quick")).status_code == 200
        refused = httpx2.Response(401, headers={"WWW-Authenticate": "Bearer"})
        egress = Egress(allow_private=LOOPBACK)
        tokens = AccessTokens(f"{auth.url}/mcp", own(), UnstoredRefreshTokens(), egress)
        assert await tokens.replace(None, refused) == await tokens.current()
        await tokens.aclose()
        await egress.aclose()


async def test_an_authorization_server_that_is_gone_is_asked_again() -> None:
    with AuthServer() as auth, Resource(auth) as resource:
        async with reaching(resource, own(token_url=f"{auth.url}/token")) as http:
            auth.answer = (503, {}, {})
            with pytest.raises(NotAuthorizedError, match="HTTP 503") as refused:
                await http.post("/quick")
            assert not refused.value.permanent
            auth.answer = None
            assert (await http.post("/quick")).status_code == 200


async def test_behind_https_nobody_is_asked_without() -> None:
    with AuthServer() as auth:
        egress = Egress(allow_private=LOOPBACK)
        tokens = AccessTokens("https://127.0.0.1:1/mcp", own(), UnstoredRefreshTokens(), egress)
        challenge = f'Bearer resource_metadata="{auth.url}/about"'
        refused = httpx2.Response(401, headers={"WWW-Authenticate": challenge})
        with pytest.raises(NotAuthorizedError, match="must begin with https"):
            await tokens.replace(None, refused)
        await tokens.aclose()
        await egress.aclose()
        assert auth.paths == []
