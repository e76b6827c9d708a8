"""The built-in tools. They only read data of the run, so repeated calls are harmless. Their calls
count as tool calls."""

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

from runward.domain.ids import CallId
from runward.domain.json import JsonObject, as_text
from runward.domain.registry.tools import (
    READ_RESULT,
    SEARCH_HISTORY,
    SEARCH_TOOLS,
    ToolSpec,
    closed_object,
)
from runward.domain.run import texts, tool_search
from runward.domain.run.config import MAX_VISIBLE_TOOLS
from runward.domain.run.outcomes import Done, Failed, FailureKind, Outcome
from runward.domain.run.state import RunState
from runward.domain.run.tools import CompiledTool, compile_tool

VERSION: Final = 0
"""The version of every built-in tool. Versions of registered tools begin at 1."""
READ_BYTES, MIN_READ_BYTES, MAX_READ_BYTES = 8192, 16, 65_536
"""Number of bytes that one `read_result` returns: default, minimum, maximum."""
FOUND_TOOLS: Final = 8
FOUND_MESSAGES, MAX_FOUND_MESSAGES = 10, 50
MAX_QUERY: Final = 1024
"""Maximum number of characters of a search query."""
MAX_OUTPUT: Final = 1_048_576
"""Maximum size of an output in bytes. Outputs of built-in tools are never truncated, even if JSON
escapes make them longer."""


def _text(description: str) -> JsonObject:
    return {
        "type": "string",
        "description": description,
        "minLength": 1,
        "maxLength": MAX_QUERY,
    }


def _number(description: str, *, least: int, most: int | None = None) -> JsonObject:
    bounds: JsonObject = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer", "description": description, **bounds}


def _builtin(name: str, description: str, required: str, **properties: JsonObject) -> CompiledTool:
    spec = ToolSpec(
        name=name,
        description=description,
        parameters=closed_object(required, **properties),
        type="builtin",
        idempotent=True,
        max_output_bytes=MAX_OUTPUT,
    )
    return compile_tool(spec, VERSION)


BUILTINS: Final[Mapping[str, CompiledTool]] = {
    tool.name: tool
    for tool in (
        _builtin(
            READ_RESULT,
            "Reads the full result of an earlier tool call of which only the "
            "beginning and the end were shown. To read the next part, pass the "
            "returned `next_offset` as `offset`. If `next_offset` is null, there "
            "are no more parts.",
            "call_id",
            call_id=_text("ID of the tool call whose result to read."),
            offset=_number("Position of the first byte to read. Default: 0.", least=0),
            limit=_number(
                f"Number of bytes to read. Default: {READ_BYTES}.",
                least=MIN_READ_BYTES,
                most=MAX_READ_BYTES,
            ),
            find=_text("Begin at the next occurrence of this text at or after `offset`."),
        ),
        _builtin(
            SEARCH_HISTORY,
            "Searches the earlier conversation of this session, including messages "
            "that are no longer shown.",
            "query",
            query=_text("The text to search for, in a few words."),
            limit=_number(
                f"Maximum number of matches to return. Default: {FOUND_MESSAGES}.",
                least=1,
                most=MAX_FOUND_MESSAGES,
            ),
        ),
        _builtin(
            SEARCH_TOOLS,
            "Finds tools by what they do. Only some of the tools are shown, so "
            "search here before you say that something cannot be done. You can "
            "call a tool after this search has found it.",
            "query",
            query=_text("What the tool should do, in a few words, or the exact name of the tool."),
            limit=_number(
                f"Maximum number of tools to return. Default: {FOUND_TOOLS}.",
                least=1,
                most=tool_search.MAX_FOUND,
            ),
        ),
    )
}


def builtin_tools(state: RunState, enabled: Mapping[str, CompiledTool]) -> dict[str, CompiledTool]:
    """Return the built-in tools that the agent sees in this turn: the ones that it names,
    `read_result` after a result was truncated, and `search_tools` if the model does not see all
    `enabled` tools."""
    names = {name for name in state.config.tools if name in BUILTINS}
    results = (call.result for call in state.calls.values() if call.result is not None)
    if any(result.full is not None for result in results):
        names.add(READ_RESULT)
    if tool_search.must_search(state, enabled):
        names.add(SEARCH_TOOLS)
    return {name: tool for name, tool in BUILTINS.items() if name in names}


def visible_tools(
    state: RunState,
    enabled: Mapping[str, CompiledTool],
    unregistered: Mapping[str, CompiledTool] | None = None,
) -> dict[str, CompiledTool]:
    """Return all tools that a model sees in this turn: the loaded ones of the `enabled` registered
    tools, the `unregistered` tools that Runward created for the agent, and the built-in tools. An
    agent that searches tools sees at most MAX_VISIBLE_TOOLS tools in total, unless there are more
    unregistered and built-in tools."""
    extra = {**(unregistered or {}), **builtin_tools(state, enabled)}
    room = max(0, MAX_VISIBLE_TOOLS - len(extra))
    return {**tool_search.visible_registered_tools(state, enabled, room), **extra}


def invoke(
    name: str,
    arguments: JsonObject,
    state: RunState,
    *,
    tools: Mapping[str, ToolSpec],
    search_history: Callable[[str, int], JsonValue],
) -> Outcome:
    """Run a built-in tool. `arguments` match the tool's schema. `tools`: the tools that
    `search_tools` searches. `search_history` gets the query and the maximum number of matches."""
    if name == READ_RESULT:
        return _read_result(arguments, state)
    query = str(arguments["query"])
    if name == SEARCH_HISTORY:
        return Done(search_history(query, _integer(arguments, "limit", FOUND_MESSAGES)))
    assert name == SEARCH_TOOLS
    return _search_tools(query, tools, _integer(arguments, "limit", FOUND_TOOLS))


def _read_result(arguments: JsonObject, state: RunState) -> Outcome:
    call_id = CallId(str(arguments["call_id"]))
    call = state.calls.get(call_id)
    if call is None or call.result is None:
        return _refused(texts.no_result(call_id))
    raw = as_text(call.result.whole).encode()
    begin = _integer(arguments, "offset", 0)
    if "find" in arguments:
        begin = raw.find(str(arguments["find"]).encode(), begin)
        if begin < 0:
            return _refused(texts.NOT_IN_RESULT)
    begin = _character_at(raw, begin)
    end = _character_at(raw, begin + _integer(arguments, "limit", READ_BYTES))
    return Done(
        {
            "text": raw[begin:end].decode(),
            "offset": begin,
            "bytes": len(raw),
            "next_offset": end if end < len(raw) else None,
        }
    )


def _character_at(raw: bytes, offset: int) -> int:
    """Return the position of the first byte of the character at `offset`."""
    offset = min(offset, len(raw))
    while offset < len(raw) and raw[offset] & 0xC0 == 0x80:
        offset -= 1
    return offset


def _search_tools(query: str, tools: Mapping[str, ToolSpec], limit: int) -> Outcome:
    found: list[JsonValue] = [*tool_search.search(query, tools, limit)]
    note = texts.TOOLS_FOUND if found else texts.NO_TOOL_FOUND
    return Done({"tools": found, "note": note})


def _refused(message: str) -> Failed:
    return Failed(FailureKind.ERROR, message, message, permanent=True)


def _integer(arguments: JsonObject, name: str, default: int) -> int:
    value = arguments.get(name, default)
    assert isinstance(value, int | float)  # In JSON Schema, 8.0 is an integer.
    return int(value)
