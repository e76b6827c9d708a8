"""The list of an MCP server's tools is taken although the database was away at that moment."""

from uuid import uuid4

from app.domain.mcp_servers import ListedTool, McpServerSpec
from app.settings import Settings
from app.tools.mcp_link import Server
from app.wiring import open_services
from tests.db.proxy import Break, Proxy
from tests.db.store import PROJECT, Store

LISTED = [ListedTool(name="add", parameters={"type": "object"})]


async def test_a_list_that_meets_an_outage_is_taken_again(store: Store) -> None:
    spec = McpServerSpec(name="box", url="http://127.0.0.1/mcp")
    settings = Settings.model_validate({"secret_key": "a key for this test, and no other one"})
    proxy = Proxy(store.url)
    async with proxy.open() as url, open_services(settings, url) as services:
        gone = Server(PROJECT, uuid4(), 1, spec, {})
        proxy.break_at("mcp_servers", Break.BEFORE)
        take = services.mcp._take  # pyright: ignore[reportPrivateUsage]
        assert await take(gone, LISTED) == 0
        assert proxy.broken == 1
