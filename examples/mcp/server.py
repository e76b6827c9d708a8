"""An MCP server with two tools: one reads data, and one changes it.

    PORT=9000 python examples/mcp/server.py

If TOKEN is set in its environment, requests must send it as a bearer token. The server needs the
package `mcp`, which `make run` has installed: `.venv/bin/python`.
"""

import os
import socket
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from starlette.responses import PlainTextResponse

TOKEN = os.environ.get("TOKEN")
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


app = server.streamable_http_app()


async def guarded(scope: Any, receive: Any, send: Any) -> None:
    given = dict(scope.get("headers", ())).get(b"authorization")
    if scope["type"] == "http" and TOKEN and given != f"Bearer {TOKEN}".encode():
        await PlainTextResponse("Who are you?", 401)(scope, receive, send)
    else:
        await app(scope, receive, send)


listening = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "9000"))))
print(f"Listening on http://127.0.0.1:{listening.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(guarded, log_level="warning")).run(sockets=[listening])
