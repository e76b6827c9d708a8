"""The practical limit: the same work with nothing around it.

A loop in this process: model, tool, model over one aiohttp session, whole answers, no HTTP in
front, no policies, no leases kept. Four steps of a run are written down, those of concurrent runs
as one commit (group commit). `approve` takes up a run that was left waiting.
"""

# pyright: basic, reportMissingTypeStubs=false
# asyncpg has no types.

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

import aiohttp
import asyncpg
import orjson

from bench.work import INSTRUCTIONS, PARAMETERS, check_output, prompt

WRITERS: Final = 2
_HEADERS: Final = {"content-type": "application/json"}
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "lookup",
            "description": "Look a fact up.",
            "parameters": PARAMETERS,
        },
    }
]
_TABLES: Final = """
CREATE TABLE runs (id uuid PRIMARY KEY, status text NOT NULL, step int NOT NULL DEFAULT 0,
  worker text, lease timestamptz, input text, messages jsonb NOT NULL DEFAULT '[]', output text,
  created timestamptz DEFAULT now(), updated timestamptz DEFAULT now());
CREATE INDEX ON runs (created) WHERE status = 'queued';
CREATE TABLE events (run_id uuid, seq int, type text, data jsonb, at timestamptz DEFAULT now(),
  PRIMARY KEY (run_id, seq))"""
_ACCEPT: Final = """
WITH x AS (SELECT * FROM unnest($1::uuid[], $2::text[]) x(id, input)), r AS (
  INSERT INTO runs (id, status, input, worker, lease)
  SELECT id, 'running', input, 'w1', now() + interval '30 s' FROM x)
INSERT INTO events (run_id, seq, type, data) SELECT id, 0, 'run.created', '{}' FROM x"""
_STEP: Final = """
WITH x AS (SELECT * FROM unnest($1::uuid[], $2::int[], $3::jsonb[], $4::text[], $5::text[],
    $6::text[]) x(id, step, message, type, status, output)), r AS (
  UPDATE runs SET step = x.step, messages = messages || x.message, status = x.status,
    output = x.output, lease = now() + interval '30 s', updated = now()
  FROM x WHERE runs.id = x.id)
INSERT INTO events (run_id, seq, type, data) SELECT id, step, type, message FROM x"""
_TAKE_UP: Final = """
UPDATE runs SET status = 'running', lease = now() + interval '30 s'
WHERE id = $1 AND status = 'waiting' RETURNING messages, input"""

Message = dict[str, Any]
Row = tuple[Any, ...]


class Writer:
    """What arrives while one commit runs goes into the next one."""

    def __init__(self, connection: "asyncpg.Connection") -> None:
        self._connection = connection

    async def run(self, waiting: "Waiting") -> None:
        while True:
            await waiting.some.wait()
            waiting.some.clear()
            batch, waiting.entries = waiting.entries, []
            if not batch:
                continue
            try:
                await self._write(
                    [entry.row for entry in batch if entry.accepts],
                    [entry.row for entry in batch if not entry.accepts],
                )
            except Exception as error:  # handed to those who wait for it
                for entry in batch:
                    entry.done.set_exception(error)
            else:
                for entry in batch:
                    entry.done.set_result(None)

    async def _write(self, accepted: Sequence[Row], steps: Sequence[Row]) -> None:
        if accepted and steps:
            async with self._connection.transaction():
                await self._send(_ACCEPT, accepted)
                await self._send(_STEP, steps)
        else:
            await self._send(_ACCEPT if accepted else _STEP, accepted or steps)

    async def _send(self, statement: str, rows: Sequence[Row]) -> None:
        await self._connection.execute(statement, *map(list, zip(*rows, strict=True)))


@dataclass(slots=True)
class Entry:
    accepts: bool
    row: Row
    done: asyncio.Future[None]


class Waiting:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.some = asyncio.Event()

    def put(self, row: Row, *, accepts: bool = False) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.entries.append(Entry(accepts, row, done))
        self.some.set()
        return done


class Floor:
    name = "floor-batch"

    def __init__(
        self,
        session: aiohttp.ClientSession,
        waiting: Waiting,
        reader: "asyncpg.Connection",
        at: str,
    ) -> None:
        self._session = session
        self._waiting = waiting
        self._reader = reader
        self._model = f"{at}/v1/chat/completions"
        self._tool = f"{at}/tool"

    def cpu_seconds(self) -> float:
        return time.process_time()

    async def run(self, number: int) -> None:
        run_id, messages = await self._begin(number, status="running")
        await self._finish(run_id, messages)

    async def pause(self, number: int) -> UUID:
        run_id, _ = await self._begin(number, status="waiting")
        return run_id

    async def approve(self, handle: UUID) -> float:
        """Seconds until the run had finished."""
        begun = time.perf_counter()
        row = await self._reader.fetchrow(_TAKE_UP, handle)
        assert row is not None
        messages = [*self._opening(row["input"]), *orjson.loads(row["messages"])]
        await self._finish(handle, messages)
        return time.perf_counter() - begun

    async def _begin(self, number: int, *, status: str) -> tuple[UUID, list[Message]]:
        run_id, text = uuid4(), prompt(number)
        await self._waiting.put((run_id, text), accepts=True)
        messages = self._opening(text)
        answer = await self._ask(messages)
        await self._save(run_id, 1, answer, "model.message", status)
        return run_id, [*messages, answer]

    async def _finish(self, run_id: UUID, messages: list[Message]) -> None:
        step = 1
        while calls := messages[-1].get("tool_calls"):
            for call in calls:
                step += 1
                messages.append(await self._call(call))
                await self._save(run_id, step, messages[-1], "tool.result", "running")
            step += 1
            messages.append(await self._ask(messages))
            if messages[-1].get("tool_calls"):
                await self._save(run_id, step, messages[-1], "model.message", "running")
        output = messages[-1]["content"]
        check_output(output)
        await self._save(run_id, step, messages[-1], "run.completed", "completed", output)

    def _opening(self, text: str) -> list[Message]:
        return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": text}]

    async def _ask(self, messages: list[Message]) -> Message:
        body = orjson.dumps({"model": "fake", "messages": messages, "tools": _TOOLS})
        async with self._session.post(self._model, data=body, headers=_HEADERS) as response:
            return orjson.loads(await response.read())["choices"][0]["message"]

    async def _call(self, call: Message) -> Message:
        body = call["function"]["arguments"].encode()
        async with self._session.post(self._tool, data=body, headers=_HEADERS) as response:
            content = (await response.read()).decode()
        return {"role": "tool", "tool_call_id": call["id"], "content": content}

    async def _save(
        self, run_id: UUID, step: int, message: Message, type_: str, status: str, *output: str
    ) -> None:
        text = orjson.dumps(message).decode()
        await self._waiting.put((run_id, step, text, type_, status, *(output or (None,))))


@asynccontextmanager
async def ready(database: str, fake: str) -> AsyncGenerator[Floor]:
    """On an empty database; `fake` is the address of the model and the tool."""
    connections = [await asyncpg.connect(database) for _ in range(WRITERS + 1)]
    await connections[0].execute(_TABLES)
    waiting = Waiting()
    writers = [asyncio.create_task(Writer(one).run(waiting)) for one in connections[1:]]
    connector = aiohttp.TCPConnector(limit=0)
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Floor(session, waiting, connections[0], fake)
    finally:
        for writer in writers:
            writer.cancel()
        for connection in connections:
            await connection.close()
