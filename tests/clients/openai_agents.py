"""The OpenAI Agents SDK, with both APIs of OpenAI."""

import asyncio

from agents import (
    Agent,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.responses import ResponseTextDeltaEvent
from pydantic import BaseModel
from shared import ASK, BASE, HELLO, KEY, MODELS, REFUND, report, weather


class Refund(BaseModel):
    amount: int


@function_tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return weather(city)


async def stream(agent: Agent) -> str:
    events = [event async for event in Runner.run_streamed(agent, HELLO).stream_events()]
    data = [event.data for event in events if event.type == "raw_response_event"]
    return "".join(one.delta for one in data if isinstance(one, ResponseTextDeltaEvent))


async def approve(client: AsyncOpenAI) -> None:
    """Let Runward run its tool `refund` after the approval."""
    tool = HostedMCPTool({"type": "mcp", "server_label": "runward", "allowed_tools": ["refund"]})
    model = OpenAIResponsesModel(MODELS[0], client)
    cashier = Agent("cashier", model=model, tools=[tool])
    result = await Runner.run(cashier, REFUND)
    state = result.to_state()
    for request in result.interruptions:
        state.approve(request)
    report("responses", MODELS[0], "approval", (await Runner.run(cashier, state)).final_output)


async def check(api: str, name: str, client: AsyncOpenAI) -> None:
    kind = OpenAIChatCompletionsModel if api == "chat" else OpenAIResponsesModel
    model = kind(name, client)
    plain = Agent("plain", model=model)
    report(api, name, "text", (await Runner.run(plain, HELLO)).final_output)
    report(api, name, "stream", await stream(plain))
    able = Agent("able", model=model, tools=[get_weather])
    report(api, name, "function", (await Runner.run(able, ASK)).final_output)
    desk = Agent("desk", instructions="Hand off.", model=model, handoffs=[able])
    handed = await Runner.run(desk, "transfer_to_able()")
    report(api, name, "handoff", handed.last_agent.name)
    typed = Agent("typed", model=model, output_type=Refund)
    result = await Runner.run(typed, "Refund 50.")
    report(api, name, "output", result.final_output.model_dump())


async def main() -> None:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=BASE, api_key=KEY) as client:
        for api in ("chat", "responses"):
            for name in MODELS:
                await check(api, name, client)
        await approve(client)


asyncio.run(main())
