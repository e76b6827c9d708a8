"""absurd: a loop whose steps are durable in PostgreSQL, in this process.

absurd has no client for models, so the loop sends its requests with aiohttp, like the floor. Its
workers poll. This program polls every 10 ms instead of every 250 ms, and it runs several workers,
because each worker has one connection. absurd's clients poll for results too. To save this time,
the loop notifies its client in memory, and the client then reads the result.
"""

# pyright: basic, reportMissingImports=false

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Any, Final
from uuid import uuid4

import orjson
import psycopg
from absurd_sdk import AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.rivals.program import Http, main
from bench.work import INSTRUCTIONS, PARAMETERS, check_output, prompt

WORKERS: Final = 4
CONCURRENCY: Final = 16
POLL_SECONDS: Final = 0.01
FUNCTION: Final = {"name": "lookup", "description": "Look a fact up.", "parameters": PARAMETERS}
TOOLS: Final = [{"type": "function", "function": FUNCTION}]


class Absurd:
    """Each model response and each result of a tool call is a step of the task `loop`."""

    def __init__(self, clients: list[AsyncAbsurd], workers: list[AsyncAbsurd], http: Http) -> None:
        self._apps = cycle(clients)
        self._http = http
        self._ended: dict[str, asyncio.Event] = {}
        for app in (*clients, *workers):
            app.register_task(name="loop")(self._loop)

    async def run(self, number: int) -> None:
        await self._result(await self._spawn(number, approval=False))

    async def pause(self, number: int) -> str:
        handle = await self._spawn(number, approval=True)
        app = next(self._apps)
        while (await app.fetch_task_result(handle.split()[1])).state != "sleeping":
            await asyncio.sleep(POLL_SECONDS)
        return handle

    async def approve(self, handle: str) -> None:
        await next(self._apps).emit_event(f"approval:{handle.split(maxsplit=1)[0]}", True)
        await self._result(handle)

    async def _spawn(self, number: int, *, approval: bool) -> str:
        name = uuid4().hex
        self._ended[name] = asyncio.Event()
        params = {"id": name, "input": prompt(number), "approval": approval}
        return f"{name} {(await next(self._apps).spawn('loop', params))['task_id']}"

    async def _result(self, handle: str) -> None:
        name, task_id = handle.split()
        await self._ended[name].wait()
        del self._ended[name]
        app = next(self._apps)
        while (result := await app.fetch_task_result(task_id)).state != "completed":
            await asyncio.sleep(0.001)  # the last commit of the task is still in progress
        check_output(result.result)

    async def _loop(self, params: dict[str, Any], ctx: Any) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": INSTRUCTIONS},
            {"role": "user", "content": params["input"]},
        ]
        while True:
            answer = await ctx.step("model", lambda messages=messages: self._ask(messages))
            messages.append(answer)
            if not (calls := answer.get("tool_calls")):
                self._ended[params["id"]].set()
                return answer["content"]
            if params["approval"]:
                await ctx.await_event(f"approval:{params['id']}")
            messages += [
                await ctx.step("tool", lambda call=call: self._call(call)) for call in calls
            ]

    async def _ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return await self._http.ask_model({"model": "fake", "messages": messages, "tools": TOOLS})

    async def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        arguments = orjson.loads(call["function"]["arguments"])
        content = await self._http.call_tool(arguments["query"])
        return {"role": "tool", "tool_call_id": call["id"], "content": content}


@asynccontextmanager
async def start(database: str, fake: str, http: Http) -> AsyncGenerator[Absurd]:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        known = await connection.execute("SELECT to_regnamespace('absurd') IS NOT NULL")
        if not (await known.fetchone())[0]:
            await connection.execute(BUNDLED_SCHEMA_SQL)
    clients = [AsyncAbsurd(database) for _ in range(WORKERS)]
    workers = [AsyncAbsurd(database) for _ in range(WORKERS)]
    await clients[0].create_queue()
    absurd = Absurd(clients, workers, http)
    async with asyncio.TaskGroup() as group:
        for worker in workers:
            group.create_task(
                worker.start_worker(concurrency=CONCURRENCY, poll_interval=POLL_SECONDS)
            )
        yield absurd
        for app in (*clients, *workers):
            await app.close()


if __name__ == "__main__":
    main(start)
