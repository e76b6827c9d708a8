"""The least that can stand between a model's stream and a client: one aiohttp process that reads
the frames and sends their words on as events, with nothing kept, no limits and no other users.

`python -m bench.relay PORT MODEL`, where MODEL is the address of the fake model. `POST /v1/runs`
streams the answer as far as Runward's events say it in words.
"""

import asyncio
import sys
from typing import Any, Final

import aiohttp
import orjson
import uvloop
from aiohttp import web

HEADERS: Final = {"content-type": "text/event-stream"}


class Relay:
    def __init__(self, session: aiohttp.ClientSession, model: str) -> None:
        self._session = session
        self._model = f"{model}/v1/chat/completions"

    async def run(self, request: web.Request) -> web.StreamResponse:
        text = orjson.loads(await request.read())["input"]
        messages = [{"role": "user", "content": text}]
        asked = orjson.dumps({"model": "fake", "stream": True, "messages": messages})
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        said, rest = "", b""
        async with self._session.post(self._model, data=asked) as answer:
            async for chunk in answer.content.iter_any():
                *frames, rest = (rest + chunk).split(b"\n\n")
                if words := "".join(map(_words, frames)):
                    said += words
                    await response.write(_event("message.delta", {"text": words}))
        await response.write(_event("run.completed", {"output": said}))
        return response


def _words(frame: bytes) -> str:
    if frame == b"data: [DONE]":
        return ""
    return orjson.loads(frame[6:])["choices"][0]["delta"].get("content") or ""


def _event(type_: str, data: dict[str, Any]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (type_.encode(), orjson.dumps({"data": data}))


async def _ready(_: web.Request) -> web.Response:
    return web.Response()


async def serve(port: int, model: str) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        app = web.Application()
        app.router.add_get("/", _ready)
        app.router.add_post("/v1/runs", Relay(session, model).run)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        await asyncio.Event().wait()  # until SIGTERM


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
