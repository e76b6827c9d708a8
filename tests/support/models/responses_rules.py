"""What OpenAI's Responses API refuses, as far as an agent runtime can get it wrong.

`check` answers a list of complaints, in OpenAI's words where those are known. The fields are those
of the official client's types (`openai.types.responses`). `Given` is what the server remembers of
its own answers, by which it knows items that come back changed or without their companions.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, cast

from tests.support.models.chat_rules import Body, check_format, check_strict, number, parse

SCREENSHOT = "computer_screenshot"
NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
MAX_TOOLS = 128
MAX_CALL_ID = 64
MIN_OUTPUT_TOKENS = 16
FIELDS = frozenset(
    {
        "background",
        "client_metadata",
        "context_management",
        "conversation",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "metadata",
        "model",
        "moderation",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "stream_options",
        "temperature",
        "text",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
        "truncation",
        "user",
    }
)
"""`client_metadata` is in no reference; Codex sends it, and is answered."""
INCLUDES = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
    }
)
OUTPUT_OF = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}
CALL_OF = {output: call for call, output in OUTPUT_OF.items()}
ITEMS: dict[str, tuple[str, str]] = {
    "function_call": ("call_id name arguments", "id status namespace caller"),
    "function_call_output": ("call_id output", "id status caller"),
    "custom_tool_call": ("call_id name input", "id status namespace caller"),
    "custom_tool_call_output": ("call_id output", "id status caller"),
    "shell_call": ("call_id action", "id status environment caller"),
    "shell_call_output": ("call_id output", "id status max_output_length caller"),
    "apply_patch_call": ("call_id operation status", "id caller"),
    "apply_patch_call_output": ("call_id status", "id output caller"),
    "computer_call": ("id call_id pending_safety_checks status", "action actions"),
    "computer_call_output": ("call_id output", "id status acknowledged_safety_checks"),
    "reasoning": ("summary", "id content encrypted_content status"),
    "item_reference": ("id", ""),
}
"""Fields of the items of `input` that must be there, and that may be."""
HOSTED_ITEMS: dict[str, tuple[str, str]] = {
    "web_search_call": ("id action status", ""),
    "file_search_call": ("id queries status", "results"),
    "code_interpreter_call": ("id code container_id outputs status", ""),
    "image_generation_call": (
        "id result status",
        "action background error output_format quality revised_prompt size svg_usage",
    ),
    "mcp_list_tools": ("id server_label tools", "error"),
    "mcp_call": ("id arguments name server_label", "approval_request_id error output status"),
    "mcp_approval_request": ("id arguments name server_label", ""),
    "mcp_approval_response": ("approval_request_id approve", "id reason"),
    "tool_search_call": ("arguments", "id call_id execution status"),
    "tool_search_output": ("tools", "id call_id execution status"),
    "compaction": ("encrypted_content", "id"),
}
"""The same of what OpenAI runs by itself."""
PARTS: dict[str, tuple[str, str]] = {
    "input_text": ("text", "prompt_cache_breakpoint"),
    "input_image": ("", "detail file_id image_url prompt_cache_breakpoint"),
    "input_file": ("", "detail file_data file_id file_url filename prompt_cache_breakpoint"),
    "output_text": ("text", "annotations logprobs"),
    "refusal": ("refusal", ""),
}
INPUT_PARTS = ("input_text", "input_image", "input_file")
ROLE_PARTS = {
    "user": INPUT_PARTS,
    "system": INPUT_PARTS,
    "developer": INPUT_PARTS,
    "assistant": ("output_text", "refusal"),
}
TOOLS: dict[str, tuple[str, str]] = {
    "function": (
        "name parameters",
        "description strict defer_loading output_schema allowed_callers",
    ),
    "custom": ("name", "description format defer_loading allowed_callers"),
    "shell": ("", "environment allowed_callers"),
    "apply_patch": ("", "allowed_callers"),
    "computer": ("", ""),
}
HOSTED_TOOLS = frozenset(
    {
        "web_search",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "image_generation",
        "mcp",
        "local_shell",
        "computer_use_preview",
        "namespace",
        "tool_search",
    }
)
REASONING_FIELDS = frozenset({"context", "effort", "generate_summary", "mode", "summary"})
TEXT_FIELDS = frozenset({"format", "verbosity"})


@dataclass(slots=True)
class Given:
    """`sealed`: every `encrypted_content` that was handed out. `led`: items by the id of the
    reasoning that they came directly after. `stored`: whole conversations by response id."""

    sealed: set[str] = field(default_factory=set[str])
    led: dict[str, str] = field(default_factory=dict[str, str])
    stored: dict[str, list[Body]] = field(default_factory=dict[str, list[Body]])

    def conversation(self, body: Body) -> list[Body]:
        """The items of `input`, behind those of the response that it goes on from."""
        asked = body.get("input")
        if isinstance(asked, str):
            asked = [{"type": "message", "role": "user", "content": asked}]
        before = self.stored.get(str(body.get("previous_response_id")), [])
        return before + [item for item in cast(list[Any], asked or []) if isinstance(item, dict)]


def check(body: Body, given: Given) -> list[str]:
    found = [f"Unknown parameter: '{key}'." for key in body if key not in FIELDS]
    if not isinstance(body.get("model"), str) or not body["model"]:
        found.append("Missing required parameter: 'model'.")
    return found + _check_options(body) + _check_tools(body) + _check_input(body, given)


def _check_options(body: Body) -> list[str]:
    found: list[str] = []
    if body.get("stream_options") is not None and body.get("stream") is not True:
        found.append("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    limits: dict[str, Callable[[Any], bool]] = {
        "temperature": lambda value: number(value) and 0 <= value <= 2,
        "top_p": lambda value: number(value) and 0 <= value <= 1,
        "max_output_tokens": lambda value: number(value) and value >= MIN_OUTPUT_TOKENS,
        "stream": lambda value: isinstance(value, bool),
        "store": lambda value: isinstance(value, bool),
        "background": lambda value: value is False,
        "parallel_tool_calls": lambda value: isinstance(value, bool),
        "instructions": lambda value: isinstance(value, str),
        "include": lambda value: _known(value, INCLUDES),
        "reasoning": lambda value: _known(value, REASONING_FIELDS),
        "text": _text,
        "truncation": lambda value: value in ("auto", "disabled"),
    }
    return found + [
        f"Invalid value for '{key}': {body[key]!r}"
        for key, valid in limits.items()
        if body.get(key) is not None and not valid(body[key])
    ]


def _known(value: Any, names: frozenset[str]) -> bool:
    return isinstance(value, list | dict) and set(cast(list[Any], value)) <= names


def _text(value: Any) -> bool:
    shape: Body = cast(Body, value).get("format", {}) if isinstance(value, dict) else {}
    known = _known(value, TEXT_FIELDS)
    return known and (shape.get("type") != "json_schema" or not check_format(shape))


def _check_tools(body: Body) -> list[str]:
    tools = body.get("tools", [])
    if not isinstance(tools, list):
        return ["Invalid type for 'tools': expected an array of objects."]
    offered = cast(list[Body], tools)
    found = [
        f"{problem} (tools[{at}])" for at, tool in enumerate(offered) for problem in _tool(tool)
    ]
    names = [str(tool["name"]) for tool in offered if "name" in tool]
    if len(offered) > MAX_TOOLS:
        found.append(f"Invalid 'tools': array too long: {len(offered)}")
    if len(set(names)) != len(names):
        found.append(f"Invalid 'tools': names are not unique: {names}")
    return found + _choice(body.get("tool_choice"), names, {tool.get("type") for tool in offered})


def _tool(tool: Body) -> list[str]:
    kind = tool.get("type")
    if kind in HOSTED_TOOLS:
        return []
    if kind not in TOOLS:
        return [f"Invalid value: {kind!r}. Supported values are: {sorted(TOOLS)}."]
    found = _fields(tool, TOOLS[kind])
    if "name" in tool and not NAME.match(str(tool["name"])):
        found.append(f"Invalid name {tool['name']!r}")
    schema = tool.get("parameters")
    if schema is not None and cast(Body, schema).get("type") != "object":
        found.append("Invalid schema: 'parameters' must be of type object")
    elif schema is not None and tool.get("strict") is True:
        found += check_strict(cast(Body, schema), "parameters")
    return found


def _choice(choice: Any, names: Collection[str], kinds: Collection[Any]) -> list[str]:
    if choice in (None, "auto", "none", "required"):
        return []
    if isinstance(choice, dict):
        named = cast(Body, choice)
        kind = named.get("type")
        if kind in ("function", "custom") and named.get("name") in names:
            return []
        if kind == "allowed_tools" or (kind not in ("function", "custom") and kind in kinds):
            return []
    return [f"Tool choice {choice!r} not found in 'tools' parameter."]


def _check_input(body: Body, given: Given) -> list[str]:
    previous = body.get("previous_response_id")
    if previous is not None and previous not in given.stored:
        return [f"Previous response with id '{previous}' not found."]
    asked = body.get("input")
    if not isinstance(asked, str | list) or not asked:
        return ["Missing required parameter: 'input'."]
    items = cast(list[Any], asked if isinstance(asked, list) else [])
    found: list[str] = []
    for at, item in enumerate(items):
        found += [f"{problem} (input[{at}])" for problem in _item(item)]
    if found:
        return found
    whole = given.conversation(body)
    return _pairs(whole) + _ids(whole) + _companions(items, given, stored=body.get("store", True))


def _item(item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["Invalid type: expected an object."]
    body = cast(Body, item)
    kind = body.get("type", "message")
    if kind == "message":
        return _message(body)
    if len(str(body.get("call_id"))) > MAX_CALL_ID:
        return [f"Invalid 'call_id': string too long. Expected a maximum length of {MAX_CALL_ID}."]
    if kind in HOSTED_ITEMS:
        return _fields(body, HOSTED_ITEMS[kind])
    if kind not in ITEMS:
        return [f"Invalid value: {kind!r}. Supported values are: {sorted(ITEMS)}."]
    return _fields(body, ITEMS[kind]) + _values(kind, body)


def _values(kind: str, body: Body) -> list[str]:
    output = body.get("output")
    match kind:
        case "function_call" if not _is_json(body.get("arguments")):
            return [f"'arguments' must be a JSON object, as text: {body.get('arguments')!r}"]
        case "function_call" | "custom_tool_call" if not NAME.match(str(body.get("name"))):
            return [f"Invalid name {body.get('name')!r}"]
        case "function_call_output" | "custom_tool_call_output":
            return _content(output, INPUT_PARTS, may_be_empty=True)
        case "shell_call_output":
            return _chunks(output)
        case "computer_call_output" if cast(Body, output or {}).get("type") != SCREENSHOT:
            return [f"'output' must be a {SCREENSHOT}"]
        case _:
            return []


def _message(body: Body) -> list[str]:
    role = body.get("role")
    if role not in ROLE_PARTS:
        return [f"Invalid value for role: {role!r}"]
    found = _fields(body, ("role content", "id status phase"))
    return found + _content(body.get("content"), ROLE_PARTS[str(role)])


def _content(content: Any, kinds: Collection[str], *, may_be_empty: bool = False) -> list[str]:
    if isinstance(content, str):
        return []
    if not isinstance(content, list) or not (content or may_be_empty):
        return [f"Invalid value for content: {content!r}"]
    found: list[str] = []
    for part in cast(list[Body], content):
        if part.get("type") not in kinds:
            found.append(f"Invalid value: {part.get('type')!r}. Supported: {sorted(kinds)}.")
        else:
            found += _fields(part, PARTS[str(part["type"])])
    return found


def _chunks(output: Any) -> list[str]:
    if not isinstance(output, list):
        return ["'output' must be a list of what the commands printed"]
    found: list[str] = []
    for chunk in cast(list[Body], output):
        found += _fields(chunk, ("stdout stderr outcome", ""))
        outcome = cast(Body, chunk.get("outcome") or {})
        exited = outcome.get("type") == "exit" and isinstance(outcome.get("exit_code"), int)
        if not exited and outcome != {"type": "timeout"}:
            found.append(f"Invalid outcome {outcome!r}")
    return found


def _fields(body: Body, known: tuple[str, str]) -> list[str]:
    required, optional = known[0].split(), known[1].split()
    allowed = {"type", *required, *optional}
    return [f"Missing required parameter: '{key}'." for key in required if key not in body] + [
        f"Unknown parameter: '{key}'." for key in body if key not in allowed
    ]


def _is_json(arguments: Any) -> bool:
    try:
        parse(str(arguments).encode())
    except ValueError:
        return False
    return isinstance(arguments, str)


def _pairs(items: list[Body]) -> list[str]:
    """Each call has exactly one output of its own kind, somewhere behind it."""
    found: list[str] = []
    waiting: list[tuple[str, str]] = []
    seen: set[str] = set()
    asked = {str(item["id"]) for item in items if item.get("type") == "mcp_approval_request"}
    for item in items:
        kind, call_id = str(item.get("type")), str(item.get("call_id"))
        if kind == "mcp_approval_response":
            about = str(item["approval_request_id"])
            if about not in asked:
                found.append(f"No approval request found with id {about}.")
            asked.discard(about)
        if kind in OUTPUT_OF:
            if call_id in seen:
                found.append(f"Duplicate call_id '{call_id}'.")
            seen.add(call_id)
            waiting.append((kind, call_id))
        elif kind in CALL_OF and (CALL_OF[kind], call_id) in waiting:
            waiting.remove((CALL_OF[kind], call_id))
        elif kind in CALL_OF:
            named = CALL_OF[kind].replace("_", " ")
            found.append(f"No tool call found for {named} output with call_id {call_id}.")
    missing = [f"{kind.replace('_', ' ')} {call_id}" for kind, call_id in waiting]
    found += [f"No answer found to approval request {one}." for one in sorted(asked)]
    return found + [f"No tool output found for {one}." for one in missing]


def _ids(items: list[Body]) -> list[str]:
    ids = [str(item["id"]) for item in items if item.get("id") is not None]
    return [
        f"Duplicate item found with id {one}." for one in sorted(set(ids)) if ids.count(one) > 1
    ]


def _companions(items: list[Body], given: Given, *, stored: bool) -> list[str]:
    """Reasoning stands directly before the item that it led to, both or neither; where nothing is
    stored it brings its encrypted content, unchanged."""
    found: list[str] = []
    leads = {reasoning: item for item, reasoning in given.led.items()}
    before: Any = None
    for item, after in zip(items, [*items[1:], {}], strict=True):
        own = item.get("id")
        if own in given.led and before != given.led[own]:
            found.append(
                f"Item '{own}' of type '{item.get('type')}' was provided without its required "
                f"'reasoning' item: '{given.led[own]}'."
            )
        if own in leads and after.get("id") != leads[own]:
            found.append(
                f"Item '{own}' of type 'reasoning' was provided without its required "
                "following item."
            )
        if item.get("type") == "reasoning":
            sealed = item.get("encrypted_content")
            if sealed is None and not stored:
                found.append(f"Item with id '{own}' not found. Items are not persisted.")
            elif sealed is not None and sealed not in given.sealed:
                found.append(f"The encrypted content for item {own} could not be verified.")
        before = own
    return found
