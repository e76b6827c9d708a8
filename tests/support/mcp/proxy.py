"""A forwarding proxy that adds an API key, for MCP clients that cannot send one."""

from collections.abc import Mapping

import aiohttp
from aiohttp import web

from tests.support.serving import Server

HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "date"})
"""Headers that are each connection's own."""


class KeyProxy(Server):
    """In front of the service at `target`. The Host that the client named goes with it. `renamed`:
    texts in requests that stand for others, for clients whose names are fixed."""

    def __init__(self, target: str, key: str, renamed: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._renamed = renamed or {}
        self._target = target
        self._key = key

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._forward)
        return app

    def _rename(self, body: bytes) -> bytes:
        for name, other in self._renamed.items():
            body = body.replace(name.encode(), other.encode())
        return body

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items()
                   if name.lower() not in HOP}  # fmt: skip
        headers["Authorization"] = f"Bearer {self._key}"
        timeout = aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session,
            session.request(
                request.method,
                self._target + request.path_qs,
                headers=headers,
                data=self._rename(await request.read()),
            ) as upstream,
        ):
            shown = {name: value for name, value in upstream.headers.items()
                     if name.lower() not in HOP}  # fmt: skip
            response = web.StreamResponse(status=upstream.status, headers=shown)
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
