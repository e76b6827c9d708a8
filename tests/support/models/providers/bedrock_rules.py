"""What Amazon Bedrock's Converse API refuses, as far as an agent runtime can get it wrong.

The fields, patterns and limits are those of the service model that botocore ships, closed; the
other rules are those of its documentation and error messages. It is stricter in one point: results
stand in the order of their calls, before anything else.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

from tests.support.models.chat_rules import Body
from tests.support.models.providers.call_pairs import Signed, Turn, check_pairs
from tests.support.models.providers.request_schemas import Shape, of_aws

CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
UNANSWERED = "Expected toolResult blocks at messages.{at}.content for the following Ids: {ids}"
UNASKED = (
    "The number of toolResult blocks at messages.{at}.content exceeds the number of toolUse blocks "
    "of previous turn."
)


@cache
def shape() -> Shape:
    return of_aws("bedrock-runtime", "Converse")


def check(body: Body, signed: Signed) -> list[str]:
    if found := shape().complaints(body):
        return found
    messages = cast(list[Body], body.get("messages") or [])
    turns = [_turn(message) for message in messages]
    answers = [
        (_blocks(message, "reasoningContent"), turn.calls)
        for message, turn in zip(messages, turns, strict=True)
        if turn.role == "assistant"
    ]
    return [
        *_check_roles(turns),
        *_check_content(messages),
        *check_pairs(turns, missing=UNANSWERED, extra=UNASKED),
        *_check_tools(body, used=any(turn.calls or turn.results for turn in turns)),
        *signed.check(answers),
    ]


def _blocks(message: Body, kind: str) -> list[Body]:
    content = cast(list[Body], message["content"])
    return [block[kind] for block in content if kind in block]


def _turn(message: Body) -> Turn:
    results = [str(result["toolUseId"]) for result in _blocks(message, "toolResult")]
    first = cast(list[Body], message["content"])[: len(results)]
    return Turn(
        role=message["role"],
        calls=[str(call["toolUseId"]) for call in _blocks(message, "toolUse")],
        results=results,
        late=any("toolResult" not in block for block in first),
    )


def _check_roles(turns: list[Turn]) -> Iterator[str]:
    roles = [turn.role for turn in turns]
    expected = ["user", "assistant"] * len(roles)
    if not roles or roles != expected[: len(roles)]:
        yield (
            "A conversation must start with a user message, and alternate between user and "
            f"assistant roles: {roles}"
        )
    if roles[-1:] == ["assistant"]:
        yield "The model does not support prefill: a conversation must end with a user message."


def _check_content(messages: list[Body]) -> Iterator[str]:
    for at, message in enumerate(messages):
        if not message["content"]:
            yield f"The content field in the Message object at messages.{at} is empty."
        results = _blocks(message, "toolResult")
        texts = [_blocks(holder, "text") for holder in (message, *results)]
        if any(not str(text).strip() for found in texts for text in found):
            yield (
                f"The text field in the ContentBlock object at messages.{at}.content is blank. "
                "Add text to the text field, and try again."
            )
        ids = [str(call["toolUseId"]) for call in _blocks(message, "toolUse")]
        if not all(map(CALL_ID.fullmatch, ids)):
            yield f"messages.{at}: tool_use.id: String should match pattern '{CALL_ID.pattern}'"
        if any(not isinstance(call["input"], dict) for call in _blocks(message, "toolUse")):
            yield (
                f"The format of the value at messages.{at}.content.toolUse.input is invalid. "
                "Provide a json object for the field and try again."
            )


def _check_tools(body: Body, *, used: bool) -> Iterator[str]:
    config = cast(Body, body.get("toolConfig") or {})
    if used and not config:
        yield "The toolConfig field must be defined when using toolUse and toolResult content."
    tools = [tool["toolSpec"] for tool in config.get("tools", []) if "toolSpec" in tool]
    names = [str(tool["name"]) for tool in tools]
    for tool in tools:
        schema: Any = tool["inputSchema"]["json"]
        if not isinstance(schema, dict) or cast(Body, schema).get("type") != "object":
            yield f"toolConfig.tools.{tool['name']}.inputSchema.json.type must be one of: object."
    if len(set(names)) != len(names):
        yield f"The tools {names} are not unique"
    choice = cast(Body, config.get("toolChoice") or {}).get("tool", {"name": None})
    if choice["name"] not in (None, *names):
        yield f"The toolChoice {choice['name']} is not among the tools"
