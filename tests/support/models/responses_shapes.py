"""Answers of the Responses API, held against OpenAI's own types and the list of what is required.

The SDK's models take what they are given; here nothing is coerced, no item may be missing from
their unions, and what the specification requires has to be there, null or not.
"""

from collections.abc import Iterable
from typing import Any, Final, cast

from openai.types.responses import (
    CompactedResponse,
    Response,
    ResponseItem,
    ResponseStreamEvent,
)
from pydantic import TypeAdapter

from tests.support.services.client import Json

REQUIRED: Final = frozenset(
    {
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "incomplete_details",
        "model",
        "previous_response_id",
        "instructions",
        "output",
        "error",
        "tools",
        "tool_choice",
        "truncation",
        "parallel_tool_calls",
        "text",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "temperature",
        "reasoning",
        "user",
        "usage",
        "max_output_tokens",
        "max_tool_calls",
        "store",
        "background",
        "service_tier",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
    }
)
NUMBERS: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs")
FIELDS: Final[dict[str, frozenset[str]]] = {
    "message": frozenset({"id", "status", "role", "content"}),
    "function_call": frozenset({"id", "call_id", "name", "arguments", "status"}),
    "reasoning": frozenset({"id", "summary"}),
    "mcp_call": frozenset({"id", "server_label", "name", "arguments"}),
    "mcp_approval_request": frozenset({"id", "server_label", "name", "arguments"}),
}
EVENT_FIELDS: Final[dict[str, frozenset[str]]] = {
    "response.output_item.added": frozenset({"output_index", "item"}),
    "response.output_item.done": frozenset({"output_index", "item"}),
    "response.content_part.added": frozenset({"item_id", "output_index", "content_index", "part"}),
    "response.content_part.done": frozenset({"item_id", "output_index", "content_index", "part"}),
    "response.output_text.delta": frozenset(
        {"item_id", "output_index", "content_index", "delta", "logprobs"}
    ),
    "response.output_text.done": frozenset(
        {"item_id", "output_index", "content_index", "text", "logprobs"}
    ),
    "response.function_call_arguments.delta": frozenset({"item_id", "output_index", "delta"}),
    "response.function_call_arguments.done": frozenset({"item_id", "output_index", "arguments"}),
}
_EVENT: Final = TypeAdapter[Any](ResponseStreamEvent)
_ITEM: Final = TypeAdapter[Any](ResponseItem)
LAST: Final = ("response.completed", "response.failed", "response.incomplete")


def response(value: Json) -> Json:
    """It is a whole response; returned for more questions."""
    Response.model_validate(value, strict=True)
    missing = REQUIRED - value.keys()
    assert not missing, missing
    for name in NUMBERS:
        assert isinstance(value[name], int | float), name
    assert isinstance(value["created_at"], int)
    assert isinstance(value["service_tier"], str)
    for item in value["output"]:
        output_item(item)
    for tool in value["tools"]:
        if tool["type"] == "function":
            assert {"name", "description", "parameters", "strict"} <= tool.keys()
    ended = value["status"] not in ("queued", "in_progress")
    assert (value["usage"] is not None) == ended
    assert (value["completed_at"] is not None) == (value["status"] == "completed")
    return value


def output_item(item: Json) -> None:
    missing = FIELDS[item["type"]] - item.keys()
    assert not missing, (item["type"], missing)
    prefix = {
        "message": "msg_",
        "function_call": "fc_",
        "reasoning": "rs_",
        "mcp_call": "mcp_",
        "mcp_approval_request": "apr_",
    }[item["type"]]
    assert item["id"].startswith(prefix)
    if item["type"] == "message":
        for part in item["content"]:
            whole = {"text", "annotations", "logprobs"}
            assert ({"refusal"} if part["type"] == "refusal" else whole) <= part.keys()


def events(found: Iterable[Json]) -> list[Json]:
    """They are a whole stream of one response, from its first event to its last."""
    whole = list(found)
    for event in whole:
        _EVENT.validate_python(event, strict=True)
        missing = EVENT_FIELDS.get(event["type"], frozenset[str]()) - event.keys()
        assert not missing, (event["type"], missing)
        if "response" in event:
            response(event["response"])
    numbers = [event["sequence_number"] for event in whole]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    assert whole[0]["type"] == "response.created"
    assert whole[-1]["type"] in LAST
    assert [event["type"] for event in whole if event["type"] in LAST] == [whole[-1]["type"]]
    assert _items(whole) == whole[-1]["response"]["output"]
    return whole


def _items(whole: list[Json]) -> list[Json]:
    """What a client makes of the events; each is added, filled and done."""
    added: dict[int, Json] = {}
    done: dict[int, Json] = {}
    texts: dict[tuple[int, int], str] = {}
    for event in whole:
        index = cast("int", event.get("output_index", -1))
        match event["type"]:
            case "response.output_item.added":
                assert index == len(added)
                added[index] = event["item"]
            case "response.output_text.delta":
                at = (index, event["content_index"])
                texts[at] = texts.get(at, "") + event["delta"]
            case "response.output_text.done":
                assert texts.get((index, event["content_index"]), "") == event["text"]
            case "response.output_item.done":
                assert added[index]["id"] == event["item"]["id"]
                assert index not in done
                done[index] = event["item"]
            case _:
                if index >= 0:
                    assert added[index]["id"] == event["item_id"]
                    assert index not in done
    assert added.keys() == done.keys()
    return [done[index] for index in sorted(done)]


def input_item(item: Json) -> None:
    _ITEM.validate_python(item, strict=True)


def compaction(value: Json) -> Json:
    CompactedResponse.model_validate(value, strict=True)
    [item] = value["output"]
    assert item["type"] == "compaction"
    assert item["id"] and item["encrypted_content"]
    return value
