"""LangGraph with its PostgreSQL checkpointer, in this process.

It uses the default durability mode `async`: LangGraph writes a checkpoint while the next step runs.
A checkpointer executes one statement at a time, even with a pool. Therefore, this program uses
several checkpointers.
"""

# pyright: basic, reportMissingImports=false

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import cycle
from uuid import uuid4

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.types import Command
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from bench.rivals.program import CONNECTIONS, Http, main
from bench.work import check_output, prompt


class LangGraph:
    def __init__(self, savers: list[AsyncPostgresSaver]) -> None:
        from bench.rivals import graph  # noqa: PLC0415 - it reads the environment

        plain, careful = (graph.build(approval=approval) for approval in (False, True))
        self._plain = cycle([plain.compile(checkpointer=saver) for saver in savers])
        self._careful = cycle([careful.compile(checkpointer=saver) for saver in savers])

    async def run(self, number: int) -> None:
        done = await next(self._plain).ainvoke(_input(number), _config(str(uuid4())))
        check_output(done["messages"][-1].content)

    async def pause(self, number: int) -> str:
        thread = str(uuid4())
        paused = await next(self._careful).ainvoke(_input(number), _config(thread))
        assert paused["__interrupt__"]
        return thread

    async def approve(self, handle: str) -> None:
        done = await next(self._careful).ainvoke(Command(resume=True), _config(handle))
        check_output(done["messages"][-1].content)


def _input(number: int) -> dict:
    return {"messages": [("user", prompt(number))]}


def _config(thread: str) -> dict:
    return {"configurable": {"thread_id": thread}}


@asynccontextmanager
async def start(database: str, fake: str, http: Http) -> AsyncGenerator[LangGraph]:
    # The documentation requires these options of a connection.
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(database, max_size=CONNECTIONS, open=False, kwargs=options)
    async with pool:
        savers = [AsyncPostgresSaver(pool) for _ in range(CONNECTIONS)]
        await savers[0].setup()
        yield LangGraph(savers)


if __name__ == "__main__":
    os.environ["BENCH_FAKE"] = sys.argv[3]
    main(start)
