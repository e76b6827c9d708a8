"""Refresh tokens that are good for one use, between processes."""

import asyncio
from ipaddress import ip_network
from uuid import UUID

import pytest
from sqlalchemy import text

from runward.domain.registry.mcp_auth import Credentials, OAuthClient, StoredOAuth
from runward.domain.registry.mcp_servers import McpServerSpec
from runward.domain.registry.tools import SecretReference
from runward.egress.client import Egress
from runward.store.access.vault import SecretUnreadableError
from runward.store.registry.mcp_credentials import StoredRefreshTokens, seal_credentials
from runward.store.registry.mcp_servers import add_server, get_server
from runward.tools.mcp.oauth import AccessTokens
from tests.db.store import PROJECT, Store
from tests.support.mcp.oauth_server import CLIENT, AuthServer
from tests.support.serving import Hold

SPEC = McpServerSpec(name="box", url="http://127.0.0.1:9/mcp")
LOOPBACK = (ip_network("127.0.0.0/8"),)


async def add(store: Store, given: Credentials | None = None) -> UUID:
    sealed = seal_credentials(store.vault, PROJECT, "box", given or Credentials({}))
    async with store.pool.begin() as tx:
        return (await add_server(tx, PROJECT, SPEC, sealed, ())).id


def tokens_of(store: Store, id_: UUID) -> StoredRefreshTokens:
    """As a process of its own has them."""
    return StoredRefreshTokens(store.pool, store.vault, PROJECT, "box", id_)


async def test_one_process_at_a_time_has_the_refresh_token(store: Store) -> None:
    id_ = await add(store)
    one, two = tokens_of(store, id_), tokens_of(store, id_)
    claim = await one.claim("given")
    assert claim is not None
    assert (claim.version, claim.token) == (0, "given")
    assert await two.claim("given") is None
    await one.replace(claim, "given", "second")
    claim = await two.claim("given")
    assert claim is not None
    assert (claim.version, claim.token) == (1, "second")
    await two.release(claim)
    claim = await one.claim("given")
    assert claim is not None
    assert (claim.version, claim.token) == (1, "second")


async def test_a_claim_of_a_process_that_died_ends(store: Store) -> None:
    id_ = await add(store)
    one, two = tokens_of(store, id_), tokens_of(store, id_)
    lost = await one.claim("given")
    assert lost is not None
    past = "UPDATE mcp_servers SET refresh_claimed_until = clock_timestamp() - interval '1 s'"
    async with store.pool.begin() as tx:
        await tx.execute(text(past))
    claim = await two.claim("given")
    assert claim is not None
    await two.replace(claim, "given", "newer")
    await one.replace(lost, "given", "older")
    claim = await one.claim("given")
    assert claim is not None
    assert claim.token == "newer"


async def test_another_token_that_was_given_wins_over_what_the_former_one_became(
    store: Store,
) -> None:
    tokens = tokens_of(store, await add(store))
    claim = await tokens.claim("given")
    assert claim is not None
    await tokens.replace(claim, "given", "second")
    claim = await tokens.claim("given anew")
    assert claim is not None
    assert claim.token == "given anew"


async def test_processes_that_refresh_at_once_use_no_token_twice(store: Store) -> None:
    id_ = await add(store)
    egress = Egress(allow_private=LOOPBACK)
    with AuthServer() as auth:
        auth.clients, auth.hold = {CLIENT: ""}, Hold()
        client = OAuthClient(
            CLIENT, refresh_token=auth.new_refresh_token(), token_url=f"{auth.url}/token"
        )
        processes = [
            AccessTokens("http://127.0.0.1:9/mcp", client, tokens_of(store, id_), egress)
            for _ in range(4)
        ]
        asking = [asyncio.create_task(one.current()) for one in processes]
        await asyncio.to_thread(auth.hold.arrived)
        auth.hold.release()
        found = await asyncio.gather(*asking)
        assert len(set(found)) == 4
        assert None not in found
        assert auth.used_twice == []
        for one in processes:
            await one.aclose()
    await egress.aclose()


async def test_what_a_server_is_logged_in_to_with_is_sealed_to_its_place(store: Store) -> None:
    given = Credentials(
        {"A": "a hidden value", "B": SecretReference(secret="b", prefix="Bearer ")},
        StoredOAuth(client_id="me", client_secret="another hidden value", scope="x"),
    )
    await add(store, given)
    async with store.pool.begin() as tx:
        found = await get_server(tx, PROJECT, "box")
        assert found is not None
        assert found.credentials(store.vault) == given
        row = (await tx.execute(text("SELECT * FROM mcp_servers"))).one()
        assert b"hidden" not in row.secret_headers + row.oauth
        assert "hidden" not in str(row.spec)
        moving = """UPDATE mcp_servers SET name = 'other', spec = '{"name": "other"}'"""
        await tx.execute(text(moving))
        moved = await get_server(tx, PROJECT, "other")
        assert moved is not None
        with pytest.raises(SecretUnreadableError):
            moved.credentials(store.vault)
