"""Pydantic AI, with both APIs of OpenAI."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from shared import ASK, BASE, HELLO, KEY, MODELS, report, weather


class Refund(BaseModel):
    amount: int


async def check(api: str, name: str) -> None:
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    model = kind(name, provider=OpenAIProvider(base_url=BASE, api_key=KEY))
    plain = Agent(model)
    report(api, name, "text", (await plain.run(HELLO)).output)
    async with plain.run_stream(HELLO) as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
    report(api, name, "stream", "".join(pieces))
    able = Agent(model)

    @able.tool_plain
    def get_weather(city: str) -> str:
        return weather(city)

    report(api, name, "function", (await able.run(ASK)).output)
    typed = Agent(model, output_type=Refund)
    report(api, name, "output", (await typed.run("Refund 50.")).output.model_dump())


async def main() -> None:
    for api in ("chat", "responses"):
        for name in MODELS:
            await check(api, name)


asyncio.run(main())
