"""An MCP server over streamable HTTP on loopback (`PORT`), whose one tool asks a server of the
test's, which answers when it is let."""

import asyncio
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

from tests.support.plugins.relay import relay

SERVER = MCPServer("relay")


@SERVER.tool()
async def forward(url: str, x: str) -> str:
    """Ask the server at an address."""
    return await asyncio.to_thread(relay, url, x)


async def main() -> None:
    listening = socket.socket()
    listening.bind(("127.0.0.1", int(sys.argv[1])))
    listening.listen()
    print("listening", flush=True)
    config = uvicorn.Config(SERVER.streamable_http_app(), log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(main())
