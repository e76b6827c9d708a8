"""What Anthropic's Messages API refuses, as far as an agent runtime can get it wrong.

The fields are those of the official client's types (`anthropic.types.beta`), closed; the other
rules are those of its documentation and error messages. It is stricter in two points: the first
message is the user's, and results stand in the order of their calls.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from tests.support.models.chat_rules import Body
from tests.support.models.providers.call_pairs import Signed, Turn, check_pairs
from tests.support.models.providers.request_schemas import Shape, of_typed_dict

CALL_ID = re.compile(r"^[a-zA-Z0-9_-]+$")
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,128}$")
HEADERS = frozenset({"betas", "user_profile_id", "workspace_id"})
"""Parameters of the client's method that become headers."""
SAMPLING: Body = {
    "temperature": {"type": "number", "minimum": 0, "maximum": 1},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "top_k": {"type": "integer", "minimum": 0},
}
"""Older models take these still; the client has dropped them."""
MIN_BUDGET = 1024
EMPTY = {"type": "text", "text": ""}
UNANSWERED = (
    "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
    "{ids}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
    "message."
)
UNASKED = "messages.{at}: unexpected `tool_use_id` found in `tool_result` blocks: {ids}."
NOT_STRICT = frozenset(
    {"minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems", "uniqueItems"}
)
"""What the grammar of a strict tool, and of structured output, does not know."""


@cache
def shape(*, streamed: bool) -> Shape:
    from anthropic.types.beta import message_create_params as params  # noqa: PLC0415

    kinds = (params.MessageCreateParamsNonStreaming, params.MessageCreateParamsStreaming)
    return of_typed_dict(kinds[streamed], without=HEADERS, older=SAMPLING)


def check(body: Body, signed: Signed) -> list[str]:
    if found := shape(streamed=body.get("stream") is True).complaints(body):
        return found
    messages = [_with_blocks(message) for message in _list(body["messages"])]
    turns = [_turn(message) for message in messages]
    answers = [
        (_of_type(message, "thinking"), turn.calls)
        for message, turn in zip(messages, turns, strict=True)
        if turn.role == "assistant"
    ]
    return [
        *_check_messages(messages),
        *check_pairs(turns, missing=UNANSWERED, extra=UNASKED),
        *_check_tools(body, used=any(turn.calls or turn.results for turn in turns)),
        *_check_options(body),
        *_check_thinking(body),
        *signed.check(answers),
    ]


def _list(value: Any) -> list[Body]:
    return cast(list[Body], value or [])


def _map(value: Any) -> Body:
    return cast(Body, value or {})


def _with_blocks(message: Body) -> Body:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return message | {"content": blocks}


def _of_type(message: Body, kind: str) -> list[Body]:
    return [block for block in _list(message["content"]) if block["type"] == kind]


def _turn(message: Body) -> Turn:
    results = [str(block["tool_use_id"]) for block in _of_type(message, "tool_result")]
    kinds = [block["type"] for block in message["content"]]
    return Turn(
        role=message["role"],
        calls=[str(block["id"]) for block in _of_type(message, "tool_use")],
        results=results,
        late=set(kinds[: len(results)]) - {"tool_result"} != set(),
    )


def _check_messages(messages: list[Body]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
        return
    if messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    for at, message in enumerate(messages):
        yield from (f"messages.{at}: {problem}" for problem in _check_blocks(message))
    last = messages[-1]
    for end in _of_type(last, "text")[-1:] if last["role"] == "assistant" else []:
        if end["text"] != end["text"].rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"


def _check_blocks(message: Body) -> Iterator[str]:
    if not message["content"]:
        yield "all messages must have non-empty content"
    for block in _of_type(message, "text"):
        if not block["text"].strip():
            yield "text content blocks must contain non-whitespace text"
    for block in _of_type(message, "tool_use"):
        if not CALL_ID.match(block["id"]):
            yield f"tool_use.id: String should match pattern '{CALL_ID.pattern}'"
    for block in _of_type(message, "tool_result"):
        if EMPTY in list(block.get("content") or []):
            yield "tool_result: text content blocks must be non-empty"


def _check_tools(body: Body, *, used: bool) -> Iterator[str]:
    tools = _list(body.get("tools"))
    names = [str(tool["name"]) for tool in tools if "name" in tool]
    if not tools and "tool_choice" in body:
        yield "tool_choice: may only be specified while providing `tools`"
    if not tools and used:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if len(set(names)) != len(names):
        yield "tools: Tool names must be unique."
    for at, tool in enumerate(tools):
        yield from _check_tool(tool, f"tools.{at}.custom")
    choice = _map(body.get("tool_choice"))
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield f"Tool '{choice['name']}' not found in provided tools"


def _check_tool(tool: Body, path: str) -> Iterator[str]:
    schema = _map(tool.get("input_schema", {"type": "object"}))
    if not NAME.match(str(tool.get("name", "hosted"))):
        yield f"{path}.name: String should match pattern '{NAME.pattern}'"
    if schema.get("type") != "object":
        yield f"{path}.input_schema.type: Input should be 'object'"
    if tool.get("strict"):
        yield from _closed(schema, f"{path}.input_schema")


def _closed(schema: Any, path: str) -> Iterator[str]:
    """The limits of a schema that is enforced."""
    if isinstance(schema, list):
        for one in _list(schema):
            yield from _closed(one, path)
    if not isinstance(schema, dict):
        return
    body = cast(Body, schema)
    if body.get("type") == "object" and body.get("additionalProperties") is not False:
        yield f"{path}: For 'object' type, 'additionalProperties' must be set to false"
    for key in body.keys() & NOT_STRICT:
        yield f"{path}: property '{key}' is not supported"
    for name, child in _map(body.get("properties")).items():
        yield from _closed(child, f"{path}.{name}")
    for key in ("items", "anyOf", "allOf"):
        yield from _closed(body.get(key), f"{path}.{key}")


def _check_options(body: Body) -> Iterator[str]:
    if body["max_tokens"] < 1:
        yield "max_tokens: must be greater than or equal to 1"
    shown = _map(_map(body.get("output_config")).get("format"))
    yield from _closed(shown.get("schema"), "output_config.format.schema")


def _check_thinking(body: Body) -> Iterator[str]:
    thinking = _map(body.get("thinking"))
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] < MIN_BUDGET:
            yield f"thinking.enabled.budget_tokens: should be at least {MIN_BUDGET}"
        if thinking["budget_tokens"] >= body["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if thinking.get("type") in ("enabled", "adaptive"):
        if body.get("temperature", 1) != 1:
            yield "`temperature` may only be set to 1 when thinking is enabled."
        if _map(body.get("tool_choice")).get("type") in ("any", "tool"):
            yield "Thinking may not be enabled when tool_choice forces tool use."
