"""LiteLLM, with both APIs of OpenAI."""

import json

import litellm
from pydantic import BaseModel
from shared import ASK, BASE, HELLO, KEY, MODELS, report, weather

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
TOOL = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}


class Refund(BaseModel):
    amount: int


def check_chat(model: str) -> None:
    access = {"model": f"openai/{model}", "api_base": BASE, "api_key": KEY}

    def ask(messages: list, **more: object) -> object:
        return litellm.completion(messages=messages, **access, **more)

    hello = [{"role": "user", "content": HELLO}]
    report("chat", model, "text", ask(hello).choices[0].message.content)
    chunks = [chunk.choices[0].delta.content for chunk in ask(hello, stream=True)]
    report("chat", model, "stream", "".join([text for text in chunks if text]))
    messages = [{"role": "user", "content": ASK}]
    answer = ask(messages, tools=[CHAT_TOOL]).choices[0].message
    [call] = answer.tool_calls
    result = weather(**json.loads(call.function.arguments))
    messages += [answer, {"role": "tool", "tool_call_id": call.id, "content": result}]
    report("chat", model, "function", ask(messages, tools=[CHAT_TOOL]).choices[0].message.content)
    refund = [{"role": "user", "content": "Refund 50."}]
    typed = ask(refund, response_format=Refund).choices[0].message.content
    report("chat", model, "output", json.loads(typed))


def check_responses(model: str) -> None:
    access = {"model": f"openai/{model}", "api_base": BASE, "api_key": KEY}
    report("responses", model, "text", litellm.responses(input=HELLO, **access).output_text)
    events = litellm.responses(input=HELLO, stream=True, **access)
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    report("responses", model, "stream", "".join(pieces))
    first = litellm.responses(input=ASK, tools=[TOOL], **access)
    [call] = first.output
    result = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": weather(**json.loads(call.arguments)),
    }
    second = litellm.responses(input=[result], previous_response_id=first.id, **access)
    report("responses", model, "function", second.output_text)
    typed = litellm.responses(input="Refund 50.", text_format=Refund, **access)
    report("responses", model, "output", json.loads(typed.output_text))


for model in MODELS:
    check_chat(model)
    check_responses(model)
