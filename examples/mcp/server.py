"""An MCP server with two tools: one reads, one changes something.

    PORT=9000 python examples/mcp/server.py

It needs the package `mcp`, which `make run` has installed: `.venv/bin/python`.
"""

import os
import socket

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("stock")
stock = {"desk": 3, "lamp": 12}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count(article: str) -> dict[str, int]:
    """Say how many of an article are in stock."""
    return {"count": stock.get(article, 0)}


@server.tool()
def take(article: str, number: int) -> dict[str, int]:
    """Take some of an article out of the stock."""
    if stock.get(article, 0) < number:
        raise ValueError(f"There are only {stock.get(article, 0)} of {article}.")
    stock[article] -= number
    return {"left": stock[article]}


listening = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "9000"))))
print(f"Listening on http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
config = uvicorn.Config(server.streamable_http_app(), log_level="warning")
uvicorn.Server(config).run(sockets=[listening])
