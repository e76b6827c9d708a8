"""OpenAI's Agents SDK with its SQLAlchemy session, in this process.

The session stores the conversation. It does not make a run resumable after a crash. For the
approval, this program stores the run state in a table of its own, as the documentation recommends.
"""

# pyright: basic, reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    RunState,
    function_tool,
    set_tracing_disabled,
)
from agents.extensions.memory import SQLAlchemySession
from openai import AsyncOpenAI, DefaultAioHttpClient
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench.rivals.program import API_KEY, CONNECTIONS, Http, main
from bench.work import INSTRUCTIONS, check_output, prompt

_TABLE: Final = "CREATE TABLE IF NOT EXISTS paused_runs (id text PRIMARY KEY, state text NOT NULL)"
_SAVE: Final = "INSERT INTO paused_runs (id, state) VALUES (:id, :state)"
_TAKE: Final = "DELETE FROM paused_runs WHERE id = :id RETURNING state"


class AgentsSdk:
    def __init__(self, engine: AsyncEngine, plain: Agent, careful: Agent) -> None:
        self._engine = engine
        self._plain = plain
        self._careful = careful

    async def run(self, number: int) -> None:
        done = await Runner.run(self._plain, prompt(number), session=self._session(str(uuid4())))
        check_output(done.final_output)

    async def pause(self, number: int) -> str:
        handle = str(uuid4())
        paused = await Runner.run(self._careful, prompt(number), session=self._session(handle))
        assert paused.interruptions
        async with self._engine.begin() as connection:
            values = {"id": handle, "state": paused.to_state().to_string()}
            await connection.execute(text(_SAVE), values)
        return handle

    async def approve(self, handle: str) -> None:
        async with self._engine.begin() as connection:
            stored = (await connection.execute(text(_TAKE), {"id": handle})).scalar_one()
        state = await RunState.from_string(self._careful, stored)
        for interruption in state.get_interruptions():
            state.approve(interruption)
        done = await Runner.run(self._careful, state, session=self._session(handle))
        check_output(done.final_output)

    def _session(self, name: str) -> SQLAlchemySession:
        return SQLAlchemySession(name, engine=self._engine)


@asynccontextmanager
async def start(database: str, fake: str, http: Http) -> AsyncGenerator[AgentsSdk]:
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{fake}/v1", api_key=API_KEY, http_client=DefaultAioHttpClient())
    model = OpenAIChatCompletionsModel("fake", client)

    async def lookup(query: str) -> str:
        """Look a fact up."""
        return await http.call_tool(query)

    def agent(**options: Any) -> Agent:
        tool = function_tool(lookup, **options)
        return Agent(name="agent", instructions=INSTRUCTIONS, model=model, tools=[tool])

    url = database.replace("postgresql://", "postgresql+asyncpg://")
    engine = create_async_engine(url, pool_size=CONNECTIONS)
    async with engine.begin() as connection:
        await connection.execute(text(_TABLE))
    await SQLAlchemySession("first", engine=engine, create_tables=True).get_items()
    yield AgentsSdk(engine, agent(), agent(needs_approval=True))
    await engine.dispose()


if __name__ == "__main__":
    main(start)
