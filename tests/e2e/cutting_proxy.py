"""A proxy that breaks every first stream of a run's events off behind its first event, so that
whoever follows has to come back."""

from collections import Counter

from aiohttp import ClientSession, StreamReader, web

from tests.support.models.scripted import break_off
from tests.support.serving import Server

STREAM = "text/event-stream"
OWN = {"host", "content-length", "transfer-encoding", "connection"}


class CuttingProxy(Server):
    """`came_back` holds each `Last-Event-ID` that a stream was asked for with."""

    def __init__(self, to: str) -> None:
        super().__init__()
        self._to = to
        self._streams: Counter[str] = Counter()
        self.came_back: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.pass_on)
        return app

    async def pass_on(self, http: web.Request) -> web.StreamResponse:
        headers = {name: text for name, text in http.headers.items() if name.lower() not in OWN}
        body = await http.read() or None
        async with (
            ClientSession(self._to, auto_decompress=False) as session,
            session.request(http.method, http.rel_url, headers=headers, data=body) as answer,
        ):
            kept = {k: text for k, text in answer.headers.items() if k.lower() not in OWN}
            passed = web.StreamResponse(status=answer.status, headers=kept)
            if answer.headers.get("Content-Type", "").startswith(STREAM):
                return await self._cut(http, passed, answer.content)
            await passed.prepare(http)
            await passed.write(await answer.read())
            return passed

    async def _cut(
        self, http: web.Request, passed: web.StreamResponse, lines: StreamReader
    ) -> web.StreamResponse:
        self._streams[http.path] += 1
        self.came_back.append(http.headers.get("Last-Event-ID", ""))
        await passed.prepare(http)
        told = 0
        async for line in lines:
            await passed.write(line)
            told += line.startswith(b"data: ")
            if told == 1 and line == b"\n" and self._streams[http.path] == 1:
                break_off(http)
                break
        return passed
