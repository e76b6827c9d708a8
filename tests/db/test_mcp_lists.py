"""The list of an MCP server's tools is stored after an outage of the database, and never for a
registration that has changed."""

from uuid import uuid4

from runward.domain.registry.mcp_servers import ListedTool, McpServerSpec
from runward.settings import Settings
from runward.store.registry.mcp_credentials import SealedCredentials
from runward.store.registry.mcp_servers import add_server, get_server, update_server
from runward.tools.mcp.session import ConnectableServer
from runward.wiring import open_services
from tests.db.proxy import Break, Proxy
from tests.db.store import PROJECT, Store

LISTED = [ListedTool(name="add", parameters={"type": "object"})]


async def test_a_list_of_the_former_address_is_not_stored(store: Store) -> None:
    former = McpServerSpec(name="box", url="http://127.0.0.1/former")
    spec = McpServerSpec(name="box", url="http://127.0.0.1/mcp")
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    async with store.pool.begin() as tx:
        made = await add_server(tx, PROJECT, former, SealedCredentials(), ())
        await update_server(tx, made, spec, SealedCredentials(), ())
    async with open_services(settings, store.url) as services:
        store_tools = services.registry.mcp._store_tools  # pyright: ignore[reportPrivateUsage]
        assert await store_tools(ConnectableServer(PROJECT, made.id, 1, former, {}), LISTED) == 0
        assert await store_tools(ConnectableServer(PROJECT, uuid4(), 2, spec, {}), LISTED) == 0
        async with store.pool.connect() as tx:
            found = await get_server(tx, PROJECT, "box")
        assert found is not None
        assert found.listed == ()
        assert await store_tools(ConnectableServer(PROJECT, made.id, 2, spec, {}), LISTED) == 1


async def test_a_list_that_meets_an_outage_is_taken_again(store: Store) -> None:
    spec = McpServerSpec(name="box", url="http://127.0.0.1/mcp")
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    proxy = Proxy(store.url)
    async with proxy.open() as url, open_services(settings, url) as services:
        gone = ConnectableServer(PROJECT, uuid4(), 1, spec, {})
        proxy.break_at("mcp_servers", Break.BEFORE)
        store_tools = services.registry.mcp._store_tools  # pyright: ignore[reportPrivateUsage]
        assert await store_tools(gone, LISTED) == 0
        assert proxy.broken == 1
