"""The part that all programs of the rivals share: it executes the harness's commands.

`python -m bench.rivals.NAME PORT DATABASE FAKE` runs one rival in the environment of its lock file.
The harness connects to the port, and sends one JSON object per line. `clients`, `seconds` and
`most` measure runs. `approvals` measures approvals for so many seconds. The program returns one
line of JSON for each command, with the seconds that each run took.

This module imports only packages that all environments contain.
"""

# pyright: basic

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, Protocol

import aiohttp
import orjson
import uvloop

from bench.loops import closed_loop

API_KEY: Final = "none"
CONNECTIONS: Final = 20
"""In each rival's pool: more connections were not faster on two cores."""
_HEADERS: Final = {"content-type": "application/json"}


class Rival(Protocol):
    async def run(self, number: int) -> None:
        """Complete one run, and check its answer."""
        ...

    async def pause(self, number: int) -> str:
        """Start a run that waits for an approval. The run must be stored when this returns."""
        ...

    async def approve(self, handle: str) -> None:
        """Approve the tool call, and complete the run."""
        ...


class Http:
    """The fake model and tool over one aiohttp session."""

    def __init__(self, session: aiohttp.ClientSession, fake: str) -> None:
        self._session = session
        self._fake = fake

    async def call_tool(self, query: str) -> str:
        return (await self._post("/tool", {"query": query})).decode()

    async def ask_model(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._post("/v1/chat/completions", body)
        return orjson.loads(answer)["choices"][0]["message"]

    async def _post(self, path: str, body: dict[str, Any]) -> bytes:
        data = orjson.dumps(body)
        async with self._session.post(self._fake + path, data=data, headers=_HEADERS) as response:
            return await response.read()


Start = Callable[[str, str, Http], AbstractAsyncContextManager[Rival]]


@asynccontextmanager
async def http(fake: str) -> AsyncGenerator[Http]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield Http(session, fake)


async def approvals(rival: Rival, seconds: float) -> list[float]:
    """Return the seconds from each approval to the end of its run, with one client."""
    took: list[float] = []

    async def cycle(number: int) -> None:
        handle = await rival.pause(number)
        begun = asyncio.get_running_loop().time()
        await rival.approve(handle)
        took.append(asyncio.get_running_loop().time() - begun)

    await closed_loop(cycle, 1, seconds)
    return took


async def execute(rival: Rival, command: dict[str, Any]) -> list[float]:
    if "approvals" in command:
        return await approvals(rival, command["approvals"])
    return await closed_loop(rival.run, command["clients"], command["seconds"], command["most"])


async def _serve(start: Start, port: int, database: str, fake: str) -> None:
    async with http(fake) as client, start(database, fake, client) as rival:

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(orjson.dumps(await execute(rival, orjson.loads(line))) + b"\n")
                await writer.drain()

        server = await asyncio.start_server(connected, "127.0.0.1", port)
        async with server:
            await server.serve_forever()


def main(start: Start) -> None:
    port, database, fake = sys.argv[1:]
    uvloop.run(_serve(start, int(port), database, fake))
