"""Pydantic AI with DBOS, in this process.

Each run is a DBOS workflow. Its model requests and tool calls are steps.
"""

# pyright: basic, reportMissingImports=false

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from dbos import DBOS, DBOSConfig, SetWorkflowID, WorkflowHandleAsync
from openai import AsyncOpenAI, DefaultAioHttpClient
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from bench.rivals.program import API_KEY, CONNECTIONS, Http, main
from bench.work import INSTRUCTIONS, check_output, prompt

WAIT_SECONDS = 3600.0


class Workflows:
    def __init__(self, plain: Agent[Any, Any], careful: Agent[Any, Any]) -> None:
        @DBOS.workflow()
        async def complete(text: str) -> str:
            return (await plain.run(text)).output

        @DBOS.workflow()
        async def complete_after_approval(text: str) -> str:
            paused = await careful.run(text)
            await DBOS.set_event_async("paused", True)
            approved = await DBOS.recv_async("approval", WAIT_SECONDS)
            decisions = {call.tool_call_id: approved for call in paused.output.approvals}
            done = await careful.run(
                message_history=paused.all_messages(),
                deferred_tool_results=DeferredToolResults(approvals=decisions),
            )
            return done.output

        self._paused: dict[str, WorkflowHandleAsync[str]] = {}
        self._complete = complete
        self._complete_after_approval = complete_after_approval

    async def run(self, number: int) -> None:
        check_output(await self._complete(prompt(number)))

    async def pause(self, number: int) -> str:
        handle = str(uuid4())
        with SetWorkflowID(handle):
            self._paused[handle] = await DBOS.start_workflow_async(
                self._complete_after_approval, prompt(number)
            )
        assert await DBOS.get_event_async(handle, "paused", WAIT_SECONDS)
        return handle

    async def approve(self, handle: str) -> None:
        await DBOS.send_async(handle, True, "approval")
        check_output(await self._paused.pop(handle).get_result())


@asynccontextmanager
async def start(database: str, fake: str, http: Http) -> AsyncGenerator[Workflows]:
    config = DBOSConfig(
        name="bench",
        system_database_url=database,
        sys_db_pool_size=CONNECTIONS,
        log_level="WARNING",
    )
    DBOS(config=config)
    client = AsyncOpenAI(base_url=f"{fake}/v1", api_key=API_KEY, http_client=DefaultAioHttpClient())
    model = OpenAIChatModel("fake", provider=OpenAIProvider(openai_client=client))

    @DBOS.step()
    async def lookup(query: str) -> str:
        """Look a fact up."""
        return await http.call_tool(query)

    def agent(name: str, *, approval: bool) -> Agent[Any, Any]:
        return Agent(
            model,
            name=name,
            instructions=INSTRUCTIONS,
            output_type=[str, DeferredToolRequests] if approval else str,
            tools=[Tool(lookup, requires_approval=approval)],
            capabilities=[DBOSDurability()],
        )

    workflows = Workflows(agent("plain", approval=False), agent("careful", approval=True))
    DBOS.launch()
    yield workflows
    DBOS.destroy()


if __name__ == "__main__":
    main(start)
