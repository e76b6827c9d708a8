"""`offline:rules`, a replacement for a model that needs no key and no network. It is not a language
model, and each of its texts begins with "(offline model)".

It reads only the last user message. If the message contains calls like `name(a=1) name(b="two")`,
the model makes exactly these calls. If not, it calls the tool whose name, description and
parameters share the most words with the message, provided that the message also contains its
arguments. When the calls have results, it quotes them. The same conversation always gets the same
answer.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from runward.domain.json import JsonObject, compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.items import Item, Message, ToolCall, ToolResult, join_text
from runward.domain.run.response import ModelResponse, RequestedCall, Usage
from runward.llm.base import Abilities, ArgumentsDelta, ModelRequest, OnDelta, TextDelta
from runward.llm.offline.arguments import (
    MAX_TEXT,
    force_call,
    guess_call,
    words,
)
from runward.llm.offline.calls import only_calls, written_calls
from runward.llm.offline.texts import LABEL, fill_schema, introduce, quote_result
from runward.llm.settings import all_settings

_PIECE: Final = re.compile(r"\s*\S+\s*$|\s*\S+|\s+")
_CALL_ID: Final = re.compile(r"call_(\d{1,9})")


class OfflineModel:
    """The offline model. It counts words as tokens."""

    @property
    def abilities(self) -> Abilities:
        return Abilities("offline", all_settings() | {"reasoning.summary"})

    async def respond(self, request: ModelRequest, on_delta: OnDelta) -> ModelResponse:
        since = _since_user(request.items)
        said = join_text(since[0].content)[:MAX_TEXT] if isinstance(since[0], Message) else ""
        made = [item for item in since if isinstance(item, ToolCall)]
        wanted = _choose_calls(request, said, made)
        if not request.parallel_tool_calls:
            wanted = wanted[:1]
        if not wanted:
            return _answer(request, said, since, on_delta)
        return _call(request, wanted, on_delta)


def _since_user(items: Sequence[Item]) -> Sequence[Item]:
    """Return the last user message and the items after it."""
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if isinstance(item, Message) and item.role == "user":
            return items[at:]
    return (Message("user", ""), *items)


def _choose_calls(
    request: ModelRequest, message: str, made: Sequence[ToolCall]
) -> list[tuple[str, JsonObject]]:
    """Return the calls to make now. If there are none, the model writes an answer."""
    choice = request.tool_choice
    if choice == "none" or not request.tools:
        return []
    tools = {spec.name: spec for spec in request.tools}
    written = _calls_in(message, tools)
    if not isinstance(choice, str):
        tools = {name: spec for name, spec in tools.items() if name == choice.get("name")}
        written = [call for call in written if call[0] in tools]
    left = _remaining_calls(written, made)
    if left:
        return left
    if choice == "auto":
        guess = None if written or made else guess_call(message, list(tools.values()))
        return [guess] if guess else []
    return [force_call(message, list(tools.values()))] if tools else []


def _calls_in(message: str, tools: dict[str, ToolSpec]) -> list[tuple[str, JsonObject]]:
    """Return the calls of registered tools. If a message consists only of calls, return all of
    them, so that a user can try a tool that does not exist."""
    calls = written_calls(message)
    literal = only_calls(message, calls)
    return [(call.name, call.arguments) for call in calls if literal or call.name in tools]


def _remaining_calls(
    written: list[tuple[str, JsonObject]], made: Sequence[ToolCall]
) -> list[tuple[str, JsonObject]]:
    """Return the written calls that were not made yet, in order. Calls are compared by name."""
    spent = Counter(call.name for call in made)
    left: list[tuple[str, JsonObject]] = []
    for name, arguments in written:
        if spent[name]:
            spent[name] -= 1
        else:
            left.append((name, arguments))
    return left


def _call(
    request: ModelRequest, wanted: Sequence[tuple[str, JsonObject]], on_delta: OnDelta
) -> ModelResponse:
    used = [item.call_id for item in request.items if isinstance(item, ToolCall)]
    numbers = [int(m[1]) for call_id in used if (m := _CALL_ID.fullmatch(call_id))]
    first = max([len(used), *numbers]) + 1
    calls = tuple(
        RequestedCall(f"call_{first + at}", name, compact(arguments))
        for at, (name, arguments) in enumerate(wanted)
    )
    for at, call in enumerate(calls):
        on_delta(ArgumentsDelta(at, call.call_id, call.name, call.arguments))
    output = sum(len(words(call.arguments)) + 1 for call in calls)
    return ModelResponse.of("", calls, finish="tool_calls", usage=_usage(request, output))


def _answer(
    request: ModelRequest, message: str, since: Sequence[Item], on_delta: OnDelta
) -> ModelResponse:
    names = {item.call_id: item.name for item in since if isinstance(item, ToolCall)}
    results = [item for item in since if isinstance(item, ToolResult)]
    if results:
        lines = [quote_result(names.get(result.call_id, "a tool"), result) for result in results]
        text = f"{LABEL} " + (lines[0] if len(lines) == 1 else "\n- ".join(["Results:", *lines]))
    else:
        text = introduce(message, request.tools)
    if request.output_schema is not None:
        text = fill_schema(request.output_schema, text)
    for piece in _PIECE.findall(text):
        on_delta(TextDelta(piece))
    return ModelResponse.of(text, usage=_usage(request, len(text.split())))


def _usage(request: ModelRequest, output: int) -> Usage:
    heard = len(request.instructions.split())
    for item in request.items:
        match item:
            case Message():
                heard += len(join_text(item.content).split())
            case ToolCall():
                heard += len(item.arguments.split())
            case ToolResult():
                heard += len(item.text.split())
            case _:
                pass
    return Usage(input=heard, output=output)
