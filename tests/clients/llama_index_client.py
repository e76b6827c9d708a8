"""LlamaIndex, with both APIs of OpenAI."""

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike, OpenAILikeResponses
from pydantic import BaseModel
from shared import ASK, BASE, HELLO, KEY, MODELS, report, weather


class Refund(BaseModel):
    amount: int


def open_chat(model: str) -> OpenAILike:
    return OpenAILike(
        model=model,
        api_base=BASE,
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
    )


def open_responses(model: str) -> OpenAILikeResponses:
    return OpenAILikeResponses(
        model=model, api_base=BASE, api_key=KEY, is_function_calling_model=True
    )


def check(api: str, model: str) -> None:
    llm = open_chat(model) if api == "chat" else open_responses(model)
    hello = [ChatMessage(content=HELLO)]
    report(api, model, "text", llm.chat(hello).message.content)
    pieces = [part.delta for part in llm.stream_chat(hello) if part.delta]
    report(api, model, "stream", "".join(pieces))
    tool = FunctionTool.from_defaults(weather, name="get_weather")
    history = [ChatMessage(content=ASK)]
    answer = llm.chat_with_tools([tool], chat_history=history)
    [call] = llm.get_tool_calls_from_response(answer)
    result = tool(**call.tool_kwargs).content
    told = ChatMessage(role="tool", content=result, additional_kwargs={IDS[api]: call.tool_id})
    history += [answer.message, told]
    final = llm.chat_with_tools([tool], chat_history=history)
    report(api, model, "function", final.message.content)
    refund = llm.as_structured_llm(Refund).complete("Refund 50.").raw
    report(api, model, "output", refund.model_dump())


IDS = {"chat": "tool_call_id", "responses": "call_id"}
"""The names of the field with the ID of a call."""

for api in IDS:
    for model in MODELS:
        check(api, model)
