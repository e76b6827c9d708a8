"""OpenAI's SDK for Python, with both APIs."""

import json

from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel
from shared import ASK, BASE, CASHIER, HELLO, KEY, MODELS, REFUND, report, weather

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}


class get_weather(BaseModel):  # noqa: N801 - the name of the function
    city: str


class Refund(BaseModel):
    amount: int


def check_chat(client: OpenAI, model: str) -> None:
    chat = client.chat.completions
    hello = [{"role": "user", "content": HELLO}]
    text = chat.create(model=model, messages=hello).choices[0].message.content
    report("chat", model, "text", text)
    pieces = [
        chunk.choices[0].delta.content
        for chunk in chat.create(model=model, messages=hello, stream=True)
    ]
    report("chat", model, "stream", "".join([piece for piece in pieces if piece]))
    tools = [pydantic_function_tool(get_weather)]
    messages = [{"role": "user", "content": ASK}]
    answer = chat.create(model=model, messages=messages, tools=tools).choices[0].message
    [call] = answer.tool_calls
    result = weather(**json.loads(call.function.arguments))
    messages += [answer, {"role": "tool", "tool_call_id": call.id, "content": result}]
    text = chat.create(model=model, messages=messages, tools=tools).choices[0].message.content
    report("chat", model, "function", text)
    refund = [{"role": "user", "content": "Refund 50."}]
    typed = chat.parse(model=model, messages=refund, response_format=Refund)
    report("chat", model, "output", typed.choices[0].message.parsed.model_dump())


def check_responses(client: OpenAI, model: str) -> None:
    responses = client.responses
    report("responses", model, "text", responses.create(model=model, input=HELLO).output_text)
    with responses.stream(model=model, input=HELLO) as events:
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    report("responses", model, "stream", "".join(pieces))
    first = responses.create(model=model, input=ASK, tools=[TOOL])
    [call] = first.output
    result = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": weather(**json.loads(call.arguments)),
    }
    second = responses.create(model=model, previous_response_id=first.id, input=[result])
    report("responses", model, "function", second.output_text)
    typed = responses.parse(model=model, input="Refund 50.", text_format=Refund)
    report("responses", model, "output", typed.output_parsed.model_dump())


def approve(client: OpenAI) -> None:
    first = client.responses.create(model=CASHIER, input=REFUND)
    [request] = first.output
    decision = {
        "type": "mcp_approval_response",
        "approval_request_id": request.id,
        "approve": True,
    }
    second = client.responses.create(model=CASHIER, previous_response_id=first.id, input=[decision])
    report("responses", CASHIER, "approval", second.output_text)


with OpenAI(base_url=BASE, api_key=KEY) as client:
    for model in MODELS:
        check_chat(client, model)
        check_responses(client, model)
    approve(client)
