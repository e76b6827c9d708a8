"""What OpenAI's Chat Completions refuses, as far as an agent runtime can get it wrong.

`check` answers a list of complaints, in OpenAI's words where those are known. It is stricter in
three points, which every compatible provider together asks for: arguments must be a JSON object,
results must stand in the order of their calls, and optional fields are left out, never null.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast

Body: TypeAlias = dict[str, Any]

NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
MAX_TOOLS = 128
FIELDS = frozenset(
    {
        "audio",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "metadata",
        "modalities",
        "model",
        "n",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "prompt_cache_retention",
        "reasoning_effort",
        "response_format",
        "safety_identifier",
        "seed",
        "service_tier",
        "stop",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "user",
        "verbosity",
        "web_search_options",
    }
)
MESSAGE_FIELDS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
PART_TYPES = {"text", "image_url", "input_audio", "file", "refusal"}


def parse(raw: bytes) -> Body:
    """Raises ValueError for what is not strict JSON (duplicate keys, NaN) or no object."""

    def unique(pairs: list[tuple[str, Any]]) -> Body:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key stands twice")
        return found

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    body = json.loads(raw, object_pairs_hook=unique, parse_constant=refuse)
    if not isinstance(body, dict):
        raise ValueError("not an object")
    return cast(Body, body)


def check(body: Body) -> list[str]:
    found = [f"Unrecognized request argument supplied: {key}" for key in body if key not in FIELDS]
    found += [
        f"'{key}' is null instead of left out" for key, value in body.items() if value is None
    ]
    if not isinstance(body.get("model"), str) or not body["model"]:
        found.append("you must provide a model parameter")
    return found + _check_messages(body) + _check_tools(body) + _check_options(body)


def _check_options(body: Body) -> list[str]:
    found: list[str] = []
    if (shape := body.get("response_format")) is not None:
        found += check_format(shape.get("json_schema", {}))
    if "stream_options" in body and body.get("stream") is not True:
        found.append("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    limits: dict[str, Callable[[Any], bool]] = {
        "temperature": lambda value: number(value) and 0 <= value <= 2,
        "top_p": lambda value: number(value) and 0 <= value <= 1,
        "max_tokens": lambda value: isinstance(value, int) and value > 0,
        "max_completion_tokens": lambda value: isinstance(value, int) and value > 0,
        "n": lambda value: value == 1,
        "stream": lambda value: isinstance(value, bool),
        "parallel_tool_calls": lambda value: isinstance(value, bool),
    }
    return found + [
        f"Invalid value for '{key}': {body[key]!r}"
        for key, valid in limits.items()
        if key in body and not valid(body[key])
    ]


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_tools(body: Body) -> list[str]:
    if "tools" not in body:
        return [
            f"'{key}' is only allowed when 'tools' are specified"
            for key in ("tool_choice", "parallel_tool_calls")
            if key in body
        ]
    tools = body["tools"]
    if not isinstance(tools, list) or not tools:
        return ["[] is too short - 'tools'"]
    found: list[str] = []
    names: list[str] = []
    offered = cast(list[Body], tools)
    for at, tool in enumerate(offered):
        names.append(str(tool.get("function", {}).get("name")))
        found += [f"tools[{at}]: {problem}" for problem in _check_tool(tool)]
    if len(offered) > MAX_TOOLS:
        found.append(f"array too long: {len(offered)} tools")
    if len(set(names)) != len(names):
        found.append(f"tools: names are not unique: {names}")
    return found + _check_choice(body.get("tool_choice", "auto"), names)


def _check_tool(tool: Body) -> list[str]:
    if tool.get("type") != "function" or set(tool) != {"type", "function"}:
        return ["must be {type: function, function: {…}}"]
    function: Body = tool["function"]
    found = [
        f"unknown field {key}"
        for key in function
        if key not in {"name", "description", "parameters", "strict"}
    ]
    if not NAME.match(str(function.get("name"))):
        found.append(f"invalid name {function.get('name')!r}")
    schema = function.get("parameters", {"type": "object"})
    if not isinstance(schema, dict) or cast(Body, schema).get("type") != "object":
        return [*found, "parameters must be a schema of type object"]
    if function.get("strict") is True:
        found += check_strict(cast(Body, schema), "parameters")
    return found


STRICT_WORDS = frozenset(
    {
        *("$defs", "$ref", "additionalProperties", "anyOf", "const", "definitions", "description"),
        *("enum", "exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems"),
        *("maximum", "minItems", "minimum", "multipleOf", "pattern", "properties", "required"),
        *("title", "type"),
    }
)
STRICT_FORMATS = frozenset(
    {
        *("date", "date-time", "duration", "email", "hostname"),
        *("ipv4", "ipv6", "time", "uuid"),
    }
)


def check_strict(schema: Any, path: str) -> list[str]:
    """https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas, and the
    service's own messages where they are known."""
    if not isinstance(schema, dict) or not {"type", "$ref", "anyOf", "enum", "const"} & {*schema}:
        return [f"strict: {path}: schema must have a 'type' key"]
    node = cast(Body, schema)
    found = [f"strict: {path}: {one}" for one in _strict_words(node)]
    if node.get("type") == "object":
        if node.get("additionalProperties") is not False:
            found.append(f"strict: {path}: 'additionalProperties' must be false")
        if set(node.get("required", [])) != set(node.get("properties", {})):
            found.append(f"strict: {path}: 'required' must name every property")
    for name, child in _below(node):
        found += check_strict(child, f"{path}.{name}")
    return found


def _strict_words(node: Body) -> list[str]:
    found = [f"'{word}' is not permitted" for word in {*node} - STRICT_WORDS]
    if "$ref" in node and (beside := {*node} - {"$ref"}):
        found.append(f"$ref cannot have keywords {beside}")
    if node.get("format", "date") not in STRICT_FORMATS:
        found.append(f"'{node['format']}' is not a valid format")
    if re.search(r"\(\?<?[=!]", str(node.get("pattern"))):
        found.append("lookaround in 'pattern'")
    if "array" in str(node.get("type")) and "items" not in node:
        found.append("array schema missing items")
    return found


def _below(node: Body) -> Iterator[tuple[str, Any]]:
    for word in ("properties", "$defs", "definitions"):
        yield from node.get(word, {}).items()
    yield from ((f"anyOf.{at}", child) for at, child in enumerate(node.get("anyOf", [])))
    if "items" in node:
        yield "[]", node["items"]


def check_format(shape: Body) -> list[str]:
    """Of `response_format.json_schema`, and `text.format` of the Responses API."""
    schema: Any = shape.get("schema")
    if not isinstance(schema, dict) or cast(Body, schema).get("type") != "object":
        return ["Invalid schema for response_format: schema must have type 'object'"]
    if {"anyOf", "oneOf", "allOf", "$ref", "enum", "not"} & {*cast(Body, schema)}:
        return ["Invalid schema for response_format: the root must be an object and no union"]
    return check_strict(schema, "schema") if shape.get("strict") is True else []


def _check_choice(choice: Any, names: list[str]) -> list[str]:
    if choice in ("auto", "none", "required"):
        return []
    if isinstance(choice, dict):
        named = cast(Body, choice)
        if named.get("type") == "function" and named.get("function", {}).get("name") in names:
            return []
    return [f"Invalid value for 'tool_choice': {choice!r}"]


def _check_messages(body: Body) -> list[str]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["[] is too short - 'messages'"]
    found: list[str] = []
    waiting: list[str] = []  # ids of calls whose results have to come now, in this order
    for at, message in enumerate(cast(list[Body], messages)):
        problems, role = _check_message(message), message.get("role")
        if role == "tool":
            problems += _check_answer(message, waiting)
        elif waiting:
            problems.append(_unanswered(waiting))
            waiting = []
        if role == "assistant":
            waiting = [str(call.get("id")) for call in message.get("tool_calls", [])]
        found += [f"messages[{at}]: {problem}" for problem in problems]
    return [*found, _unanswered(waiting)] if waiting else found


def _unanswered(waiting: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        f"each 'tool_call_id'. These did not have response messages: {', '.join(waiting)}"
    )


def _check_answer(message: Body, waiting: list[str]) -> list[str]:
    call_id = str(message.get("tool_call_id"))
    if call_id not in waiting:
        return [
            f"tool_call_id {call_id!r}: messages with role 'tool' must be a response to a "
            "preceding message with 'tool_calls', once"
        ]
    in_order = waiting[0] == call_id
    waiting.remove(call_id)
    return [] if in_order else [f"the result of {call_id!r} is out of the order of the calls"]


def _check_message(message: Body) -> list[str]:
    role = str(message.get("role"))
    if role not in MESSAGE_FIELDS:
        return [f"Invalid value for role: {role!r}"]
    found = [f"unknown field {key}" for key in message if key not in MESSAGE_FIELDS[role]]
    found += [
        f"'{key}' is null instead of left out"
        for key, value in message.items()
        if value is None and key != "content"
    ]
    calls = message.get("tool_calls")
    if calls is not None:
        found += _check_calls(calls)
    may_be_empty = role == "assistant" and (calls or message.get("refusal"))
    if message.get("content") is not None or not may_be_empty:
        found += _check_content(message.get("content"))
    return found


def _check_content(content: Any) -> list[str]:
    if isinstance(content, str):
        return []
    if not isinstance(content, list) or not content:
        return [f"Invalid value for 'content': {content!r}"]
    parts = cast(list[Body], content)
    return [
        f"invalid content part {part!r}"
        for part in parts
        if part.get("type") not in PART_TYPES or str(part["type"]) not in part
    ]


def _check_calls(calls: Any) -> list[str]:
    if not isinstance(calls, list) or not calls:
        return ["[] is too short - 'tool_calls'"]
    found: list[str] = []
    seen: set[str] = set()
    for call in cast(list[Body], calls):
        call_id, function = call.get("id"), cast(Body, call.get("function") or {})
        if not isinstance(call_id, str) or not call_id:
            found.append(f"invalid tool call id {call_id!r}")
        elif call_id in seen:
            found.append(f"tool call id {call_id!r} stands twice")
        seen.add(str(call_id))
        if set(call) != {"id", "type", "function"} or call["type"] != "function":
            found.append(f"call {call_id!r} must be {{id, type: function, function}}")
        if set(function) != {"name", "arguments"} or not NAME.match(str(function.get("name"))):
            found.append(f"call {call_id!r}: invalid function {function!r}")
        found += _check_arguments(call_id, function.get("arguments"))
    return found


def _check_arguments(call_id: Any, arguments: Any) -> list[str]:
    if not isinstance(arguments, str):
        return [f"call {call_id!r}: arguments are no string: {arguments!r}"]
    try:
        parse(arguments.encode())
    except ValueError as error:
        return [f"call {call_id!r}: arguments are no JSON object ({error}): {arguments!r}"]
    return []
