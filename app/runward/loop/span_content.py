"""The content of spans: messages, arguments and results as JSON, in the format of OpenTelemetry's
semantic conventions for generative AI."""

from typing import Final, assert_never

from pydantic import JsonValue

from runward.domain.json import JsonObject, as_text, parse
from runward.domain.run.bounds import truncate
from runward.domain.run.items import (
    HostedCall,
    Item,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.domain.run.response import ModelResponse, Output
from runward.llm.base import ModelRequest

MAX_BYTES: Final = 65_536
"""Maximum size of one attribute. The middle of a longer one is omitted."""


def describe_request(request: ModelRequest) -> dict[str, str]:
    """Return the attributes with the instructions and the conversation."""
    messages: list[JsonValue] = [_describe_item(item) for item in request.items]
    attributes = {"gen_ai.input.messages": encode(messages)}
    if request.instructions:
        attributes["gen_ai.system_instructions"] = encode([_text(request.instructions)])
    return attributes


def describe_response(response: ModelResponse) -> dict[str, str]:
    """Return the attribute with the model's message."""
    parts: list[JsonValue] = [part for one in response.output for part in _describe_output(one)]
    message: JsonObject = {
        "role": "assistant",
        "parts": parts,
        "finish_reason": "tool_call" if response.finish == "tool_calls" else response.finish,
    }
    return {"gen_ai.output.messages": encode([message])}


def encode(value: JsonValue) -> str:
    """Return the value as the text of an attribute."""
    shown, _ = truncate(as_text(value), MAX_BYTES)
    return as_text(shown)


def _describe_item(item: Item) -> JsonObject:
    match item:
        case Message():
            return {"role": item.role, "parts": [_text(join_text(item.content))]}
        case ToolResult():
            part: JsonObject = {
                "type": "tool_call_response",
                "id": item.call_id,
                "response": item.output,
            }
            return {"role": "tool", "parts": [part]}
        case ToolCall():
            call = _describe_call(item.call_id, item.name, parse(item.arguments))
            return {"role": "assistant", "parts": [call]}
        case Reasoning() | HostedCall():
            return {"role": "assistant", "parts": [*_describe_output(item)]}
        case _:
            assert_never(item)


def _describe_output(output: Output) -> list[JsonObject]:
    """Return the parts of a message. The reasoning of a provider is in its own format, which is
    often encrypted, so it is omitted."""
    match output:
        case Message():
            return [_text(join_text(output.content))]
        case HostedCall():
            return [_describe_call(output.call_id, output.name, output.arguments)]
        case Reasoning():
            return []
        case _:
            return [_describe_call(output.call_id, output.name, output.arguments)]


def _describe_call(id_: str, name: str, arguments: JsonValue) -> JsonObject:
    return {"type": "tool_call", "id": id_, "name": name, "arguments": arguments}


def _text(text: str) -> JsonObject:
    return {"type": "text", "content": text}
