"""LlamaIndex, with Chat Completions."""

from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel
from shared import ASK, BASE, HELLO, KEY, MODELS, report, weather


class Refund(BaseModel):
    amount: int


def check(model: str) -> None:
    llm = OpenAILike(
        model=model,
        api_base=BASE,
        api_key=KEY,
        is_chat_model=True,
        is_function_calling_model=True,
    )
    hello = [ChatMessage(content=HELLO)]
    report("chat", model, "text", llm.chat(hello).message.content)
    pieces = [part.delta for part in llm.stream_chat(hello) if part.delta]
    report("chat", model, "stream", "".join(pieces))
    tool = FunctionTool.from_defaults(weather, name="get_weather")
    history = [ChatMessage(content=ASK)]
    answer = llm.chat_with_tools([tool], chat_history=history)
    [call] = llm.get_tool_calls_from_response(answer)
    result = tool(**call.tool_kwargs).content
    told = ChatMessage(
        role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id}
    )
    history += [answer.message, told]
    final = llm.chat_with_tools([tool], chat_history=history)
    report("chat", model, "function", final.message.content)
    refund = llm.as_structured_llm(Refund).complete("Refund 50.").raw
    report("chat", model, "output", refund.model_dump())


for model in MODELS:
    check(model)
