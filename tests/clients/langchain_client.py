"""LangChain, with both APIs of OpenAI."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from shared import ASK, BASE, CASHIER, HELLO, KEY, MODELS, REFUND, report, weather


@tool
def get_weather(city: str) -> str:
    """Return the weather of a city."""
    return weather(city)


class Refund(BaseModel):
    amount: int


def check(api: str, model: str) -> None:
    chat = ChatOpenAI(model=model, base_url=BASE, api_key=KEY, use_responses_api=api == "responses")
    report(api, model, "text", chat.invoke(HELLO).text)
    report(api, model, "stream", "".join([part.text for part in chat.stream(HELLO) if part.text]))
    able = chat.bind_tools([get_weather])
    messages = [HumanMessage(ASK)]
    answer = able.invoke(messages)
    [call] = answer.tool_calls
    messages += [answer, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    report(api, model, "function", able.invoke(messages).text)
    refund = chat.with_structured_output(Refund).invoke("Refund 50.")
    report(api, model, "output", refund.model_dump())


def approve() -> None:
    chat = ChatOpenAI(model=CASHIER, base_url=BASE, api_key=KEY, use_responses_api=True)
    first = chat.invoke(REFUND)
    decisions = [
        {"type": "mcp_approval_response", "approval_request_id": block["id"], "approve": True}
        for block in first.content
        if block["type"] == "mcp_approval_request"
    ]
    second = chat.invoke(
        [HumanMessage(decisions)], previous_response_id=first.response_metadata["id"]
    )
    report("responses", CASHIER, "approval", second.text)


for api in ("chat", "responses"):
    for model in MODELS:
        check(api, model)
approve()
