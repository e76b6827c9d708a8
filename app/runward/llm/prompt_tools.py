"""Tools for models without function calling (`model_settings.tools_in_prompt`).

The instructions describe the tools, and the model writes its calls as text:
`<tool_call>{"name": "pay", "arguments": {"amount": 5}}</tool_call>`, at the beginning of a line.
Results are sent in user messages. Everything that is not exactly a call remains text. If a call is
malformed, the model is asked once to correct its response.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeGuard

from runward.domain.ids import CallId
from runward.domain.json import JsonObject, compact, parse
from runward.domain.registry.tools import ToolSpec
from runward.domain.run import texts
from runward.domain.run.items import (
    Item,
    Message,
    MessageRole,
    Part,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.domain.run.response import Loss, ModelResponse, Output, RequestedCall
from runward.llm.base import Model, ModelDelta, ModelRequest, OnDelta, StreamRestart, TextDelta

SETTING: Final = "tools_in_prompt"
MAX_HELD: Final = 1024
"""Maximum number of characters that are withheld from a stream because a call may follow."""
_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_FIRST: Final = re.compile(rf"^[ \t]*{_OPEN}", re.MULTILINE)
_NEXT: Final = re.compile(rf"[ \t]*{_OPEN}")
_LOSS: Final = Loss(
    "tools", f"Runward describes the tools in the instructions, because {SETTING} is set."
)
_ONE_CALL: Final = Loss(
    "parallel_tool_calls", "The response had several tool calls. Runward kept the first one."
)


async def respond(
    model: Model, request: ModelRequest, on_delta: OnDelta, on_repair: Callable[[str], None]
) -> ModelResponse:
    """Send the request with its tools as text, and return the response with the calls of its text.
    `on_repair` receives the reason of a second request. Raises ModelError."""
    written = write_request(request)
    shown = ShownText(on_delta)
    response = await model.respond(written, shown)
    parsed = parse_calls(response.text)
    if parsed.problem is not None and response.finish != "length":
        on_repair(parsed.problem)
        shown(StreamRestart())
        said = Message("assistant", response.text)
        repair = Message("user", texts.malformed_call(parsed.problem))
        again = replace(written, items=(*written.items, said, repair))
        usage = response.usage
        response = await model.respond(again, shown)
        response = replace(response, usage=usage + response.usage)
        parsed = parse_calls(response.text)
    shown.end(parsed.text)
    losses = [*response.losses, _LOSS] if request.tools else [*response.losses]
    if not request.parallel_tool_calls and len(parsed.calls) > 1:
        parsed = replace(parsed, calls=parsed.calls[:1])
        losses.append(_ONE_CALL)
    return replace(_build_response(response, parsed), losses=tuple(losses))


def _build_response(response: ModelResponse, parsed: "ParsedText") -> ModelResponse:
    if not parsed.calls:
        return response
    kept: list[Output] = [
        one for one in response.output if not isinstance(one, Message) or one.refusal
    ]
    if parsed.text:
        kept.append(Message("assistant", parsed.text))
    finish = "tool_calls" if response.finish == "stop" else response.finish
    return replace(response, output=(*kept, *parsed.calls), finish=finish)


# The request.


def write_request(request: ModelRequest) -> ModelRequest:
    """Return the request with functions, calls and results as text. Hosted tools do not change. A
    provider cannot enforce an output schema, because calls do not match it."""
    functions = [tool for tool in request.tools if tool.hosted is None]
    lines = [request.instructions] if request.instructions else []
    if functions and request.tool_choice != "none":
        lines.append(_describe_tools(functions, request))
    if request.output_schema is not None:
        lines.append(texts.answer_by_schema(request.output_schema))
    return replace(
        request,
        instructions="\n\n".join(lines),
        items=tuple(_write_items(request.items)),
        tools=tuple(tool for tool in request.tools if tool.hosted is not None),
        tool_choice="auto",
        parallel_tool_calls=True,
        output_schema=None,
    )


def _describe_tools(functions: list[ToolSpec], request: ModelRequest) -> str:
    lines = [texts.TOOLS_IN_PROMPT]
    for tool in functions:
        about: JsonObject = {"name": tool.name, "description": tool.description}
        lines.append(compact(about | {"parameters": tool.parameters}))
    if request.tool_choice == "required":
        lines.append(texts.CALL_A_TOOL)
    elif isinstance(request.tool_choice, dict):
        lines.append(texts.call_this_tool(str(request.tool_choice["name"])))
    if not request.parallel_tool_calls:
        lines.append(texts.CALL_ONE_TOOL)
    return "\n".join(lines)


def _write_items(items: tuple[Item, ...]) -> Iterator[Item]:
    """Yield the items with calls and results as messages. Calls are added to the text before them,
    and results to the results before them, because some models accept only alternating roles."""
    names = {item.call_id: item.name for item in items if isinstance(item, ToolCall)}
    last: Message | None = None
    for item in items:
        written = _write_item(item, names)
        is_text = isinstance(item, ToolCall | ToolResult)
        if is_text and last is not None and _has_role(written, last.role):
            last = replace(last, content=(*_get_parts(last), *_get_parts(written)))
            continue
        if last is not None:
            yield _unite_texts(last)
            last = None
        if isinstance(written, Message) and (is_text or written.role == "assistant"):
            last = written
        else:
            yield written
    if last is not None:
        yield _unite_texts(last)


def _write_item(item: Item, names: Mapping[CallId, str]) -> Item:
    match item:
        case ToolCall():
            call: JsonObject = {"name": item.name, "arguments": parse(item.arguments)}
            return Message("assistant", _wrap("tool_call", call))
        case ToolResult():
            result: JsonObject = {"name": names.get(item.call_id, item.call_id)}
            output = join_text(item.parts) if item.parts else item.output
            result |= {"output": output} | ({"is_error": True} if item.is_error else {})
            media = tuple(part for part in item.parts if not isinstance(part, TextPart))
            return Message("user", (TextPart(_wrap("tool_result", result)), *media))
        case _:
            return item


def _has_role(item: Item, role: MessageRole) -> TypeGuard[Message]:
    return isinstance(item, Message) and item.role == role


def _unite_texts(message: Message) -> Message:
    """Return the message with its texts as one string, if it has no other parts."""
    parts = _get_parts(message)
    lines = [part.text for part in parts if isinstance(part, TextPart)]
    return message if len(lines) < len(parts) else replace(message, content="\n".join(lines))


def _get_parts(message: Message) -> tuple[Part, ...]:
    content = message.content
    return (TextPart(content),) if isinstance(content, str) else content


def _wrap(tag: str, value: JsonObject) -> str:
    """Return the value in a tag that nothing inside can close."""
    text = compact(value).replace("</", "<\\/")
    return f"<{tag}>{text}</{tag}>"


# The response.


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The text of a response without its calls. `problem`: why the first malformed call cannot be
    read. None if every call can be read."""

    text: str
    calls: tuple[RequestedCall, ...] = ()
    problem: str | None = None


def parse_calls(text: str) -> ParsedText:
    """Return the calls in the text of a response, in linear time. Malformed calls remain text."""
    pieces: list[str] = []
    calls: list[RequestedCall] = []
    problem: str | None = None
    at = piece = 0
    while found := (at and _NEXT.match(text, at)) or _FIRST.search(text, at):
        end = text.find(_CLOSE, found.end())
        if end < 0:
            problem = problem or f"{_CLOSE} is missing"
            break
        at = end + len(_CLOSE)
        try:
            calls.append(_parse_call(text[found.end() : end]))
        except ValueError as error:
            problem = problem or str(error)
            continue
        pieces.append(text[piece : found.start()])
        piece = at
    if not calls:
        return ParsedText(text, problem=problem)
    pieces.append(text[piece:])
    first, *others = [piece.rstrip() for piece in pieces]
    rest = [piece.lstrip() for piece in others]
    shown = "\n\n".join(piece for piece in (first, *rest) if piece)
    return ParsedText(shown, tuple(calls), problem)


def _parse_call(body: str) -> RequestedCall:
    """Raises ValueError with the reason."""
    match parse(body):
        case {"name": str(name), "arguments": dict(arguments), **others} if not others:
            return RequestedCall("", name, compact(arguments))
        case _:
            raise ValueError('it must be {"name": "…", "arguments": {…}} without other fields')


class ShownText:
    """Streams the text up to the first call. The text after a call follows at the end, when the
    response has been parsed."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._held = ""
        self._shown = 0
        self._is_call = False

    def __call__(self, delta: ModelDelta) -> None:
        if isinstance(delta, StreamRestart):
            self._held, self._shown, self._is_call = "", 0, False
        if not isinstance(delta, TextDelta):
            self._on_delta(delta)
        elif not self._is_call:
            self._held += delta.text
            self._show_safe_text()

    def _show_safe_text(self) -> None:
        """Show the text that is no part of a call, without the spaces at its end."""
        mid_line = "." if self._shown else ""  # Shown text never ends at the start of a line.
        text = mid_line + self._held
        found = _FIRST.search(text)
        self._is_call = found is not None
        if found is not None:
            end = found.start()
        else:
            start = text.rfind("\n") + 1
            end = start if _OPEN.startswith(text[start:].lstrip(" \t")) else len(text)
        safe = text[:end].rstrip()
        if found is None and len(text) - len(safe) > MAX_HELD:
            safe = text
        self._show(safe[len(mid_line) :])
        self._held = text[len(safe) :]

    def end(self, text: str) -> None:
        """Show the rest of the response's `text`."""
        self._show(text[self._shown :])

    def _show(self, text: str) -> None:
        if text:
            self._shown += len(text)
            self._on_delta(TextDelta(text))
