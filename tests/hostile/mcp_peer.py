"""A hostile MCP server over HTTP on loopback, of the protocol of June 2025: it answers each method
with whatever a test says, and asks for an access token if it is told to."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from aiohttp import web

from tests.support.services.client import Json
from tests.support.serving import Server

Answer: TypeAlias = Callable[[web.Request, Any], Awaitable[web.StreamResponse]]
TOOL: Final[Json] = {"name": "act", "inputSchema": {"type": "object", "properties": {}}}
ABOUT: Final[Json] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "peer", "version": "1"},
}
RESULTS: Final[dict[str, Json]] = {
    "initialize": ABOUT,
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "fine"}]},
}


def rpc(id_: Any, **said: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id_, **said}).encode()


async def plain(_request: web.Request, asked: Any) -> web.Response:
    if "id" not in asked:
        return web.Response(status=202)
    result = RESULTS.get(asked["method"])
    if result is None:
        error = {"code": -32601, "message": "no"}
        return web.Response(body=rpc(asked["id"], error=error), content_type="application/json")
    return web.Response(body=rpc(asked["id"], result=result), content_type="application/json")


def listing(*tools: Json) -> Answer:
    """Return an answer to `tools/list`."""

    async def answer(_request: web.Request, asked: Any) -> web.Response:
        body = rpc(asked["id"], result={"tools": tools})
        return web.Response(body=body, content_type="application/json")

    return answer


class McpPeer(Server):
    """`answers`: by name of the peer (`/NAME/mcp`) and method; any other is answered well.
    `tokens`: what the requests of a peer must bear. `token`: what `/token` answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[tuple[str, str], Answer] = {}
        self.tokens: dict[str, str] = {}
        self.token: Json = {}
        self.headers: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/token", self._token)
        app.router.add_post("/{name}/mcp", self._asked)
        return app

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}/mcp"

    async def _token(self, _request: web.Request) -> web.Response:
        return web.json_response(self.token)

    async def _asked(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self.headers.append(str(dict(request.headers)))
        wanted = self.tokens.get(name)
        if wanted is not None and request.headers.get("authorization") != f"Bearer {wanted}":
            return web.Response(status=401, text="who are you?")
        asked = await request.json()
        answer = self.answers.get((name, str(asked.get("method"))), plain)
        return await answer(request, asked)
