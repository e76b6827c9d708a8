"""Aegra, a server with LangGraph's API, used over HTTP.

For each run, a client creates a thread and then waits for the run's output. The graph is the one
of `bench/rivals/graph.py`.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import aiohttp
import orjson

from bench import processes
from bench.rivals.program import API_KEY, CONNECTIONS
from bench.work import check_output, prompt

CONFIG: Final = Path(__file__).with_name("aegra.json")


class Aegra:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self._url = url
        self._session = session

    async def run(self, number: int) -> None:
        thread = (await self._post("/threads", {}))["thread_id"]
        _check(await self._complete(thread, {"assistant_id": "plain", "input": _input(number)}))

    async def pause(self, number: int) -> str:
        thread = (await self._post("/threads", {}))["thread_id"]
        body = {"assistant_id": "careful", "input": _input(number)}
        paused = await self._complete(thread, body)
        assert paused["__interrupt__"], paused
        return thread

    async def approve(self, handle: str) -> None:
        body = {"assistant_id": "careful", "command": {"resume": True}}
        _check(await self._complete(handle, body))

    async def _complete(self, thread: str, body: Mapping[str, Any]) -> Any:
        return await self._post(f"/threads/{thread}/runs/wait", body)

    async def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        async with self._session.post(self._url + path, data=orjson.dumps(body)) as response:
            response.raise_for_status()
            return orjson.loads(await response.read())


def _input(number: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt(number)}]}


def _check(output: Any) -> None:
    check_output(output["messages"][-1]["content"])


@asynccontextmanager
async def start(
    database: str, fake: str, log: Path, interpreter: str
) -> AsyncGenerator[tuple[Aegra, int]]:
    """Start the server. Return its client and its process ID."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        "AEGRA_CONFIG": str(CONFIG),
        "DATABASE_URL": unquote(database),  # Alembic's configuration does not accept `%`
        "SQLALCHEMY_POOL_SIZE": str(CONNECTIONS),
        "LANGGRAPH_MAX_POOL_SIZE": str(CONNECTIONS),
        "LOG_LEVEL": "ERROR",
        "ENV_MODE": "PRODUCTION",
        "OPENAI_API_KEY": API_KEY,
        "BENCH_FAKE": fake,
    }
    server = ("-m", "uvicorn", "aegra_api.main:app", f"--port={port}", "--no-access-log")
    headers = {"content-type": "application/json"}
    async with (
        processes.python(*server, env=env, log=log, interpreter=interpreter) as process,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), headers=headers) as session,
    ):
        await processes.answers(process, f"{url}/health", log)
        yield Aegra(url, session), process.pid
