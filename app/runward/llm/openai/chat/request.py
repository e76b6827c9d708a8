"""The translation of a turn into a Chat Completions request: messages, tools and settings.

Content that the protocol does not support is replaced by text, and never dropped. `tool`,
`assistant` and `system` messages support only text. An image or a file in such a message is
announced there, and sent in a `user` message directly after it. For results, the `user` message
follows the last result of the response. A file that is only a URL becomes a line of text. Reasoning
is only sent to servers that expect it back (see `reasoning`).
"""

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run import texts
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    MessageContent,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
)
from runward.llm.base import ModelRequest, RequestedToolChoice
from runward.llm.call_ids import short_id, with_accepted_ids
from runward.llm.openai.chat.dialect import DEFAULT, SHORT_ID, Dialect
from runward.llm.openai.chat.reasoning import (
    CONTENT,
    DETAILS,
    PROVIDER,
    expects_reasoning,
    own_data,
)
from runward.llm.openai.request_parts import Functions, data_url, output_and_instructions

RENAMED_SETTINGS: Final = {"max_output_tokens": "max_completion_tokens"}


def request_body(
    request: ModelRequest, functions: Functions, *, stream: bool, dialect: Dialect = DEFAULT
) -> JsonObject:
    """Return the request's body. The settings were validated by `check_settings` when the run was
    created."""
    output, instructions = output_and_instructions(request)
    sent = messages(instructions, request.items, dialect, tools=bool(request.tools))
    body: JsonObject = {"model": request.model, "messages": sent}
    if request.tools:
        body["tools"] = [functions.definition(spec) for spec in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if output is not None and output.shape is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": output.shape}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    for name, value in request.settings.items():
        _set(body, name, value)
    return body


def messages(
    instructions: str,
    items: Iterable[Item],
    dialect: Dialect = DEFAULT,
    *,
    tools: bool = True,
) -> list[JsonValue]:
    """Return the messages. `tools`: whether the request has tools."""
    writer = _Writer(instructions)
    items = tuple(items)
    for item in with_accepted_ids(items, SHORT_ID, short_id) if dialect.short_ids else items:
        writer.add(item)
    sent = writer.finished()
    if dialect.reasoning is not False:
        expected = dialect.reasoning or expects_reasoning(items)
        writer.add_reasoning(expected=expected, everywhere=tools)
    return sent


def _set(body: JsonObject, name: str, value: JsonValue) -> None:
    if value is None or name == "stream":
        return
    if name == "reasoning" and isinstance(value, dict):
        if value.get("effort") is not None:
            body["reasoning_effort"] = value["effort"]
    elif name == "extra_body" and isinstance(value, dict):
        body |= value
    else:
        body[RENAMED_SETTINGS.get(name, name)] = value


def function_tool(definition: JsonObject) -> JsonObject:
    return {"type": "function", "function": definition}


def _choice(choice: RequestedToolChoice) -> JsonValue:
    if isinstance(choice, str):
        return choice
    return {"type": "function", "function": {"name": choice["name"]}}


class _Writer:
    """Builds the messages. Calls are added to the assistant's text before them. The results that
    follow are sorted into the order of those calls."""

    def __init__(self, instructions: str) -> None:
        self._messages: list[JsonValue] = []
        if instructions:
            self._messages.append({"role": "system", "content": instructions})
        self._assistant: JsonObject | None = None  # The last message. Calls can be added to it.
        self._reasoning: JsonObject = {}  # The data of the next assistant message's reasoning.
        self._assistants: list[tuple[JsonObject, JsonObject]] = []  # With their reasoning.
        self._calls: dict[str, str] = {}  # Names of the calls in the last response, by ID.
        self._results: list[ToolResult] = []
        # Images and files that are sent after the results.
        self._attachments: list[tuple[str, list[MediaPart]]] = []

    def add(self, item: Item) -> None:
        match item:
            case ToolResult():
                self._results.append(item)
            case ToolCall():
                self._flush_results()
                self._add_call(item)
            case Message():
                self._flush_results()
                self._add_message(item)
            case HostedCall():
                self.add(Message("assistant", texts.hosted_call(item)))
            case Reasoning():
                self._flush_results()
                self._reasoning = own_data(item)

    def finished(self) -> list[JsonValue]:
        self._flush_results()
        self._attach(self._attachments)
        return self._messages

    def add_reasoning(self, *, expected: bool, everywhere: bool) -> None:
        """Add the reasoning to the assistant messages. `expected`: messages without reasoning get
        an empty text. `everywhere`: also messages without tool calls."""
        for message, data in self._assistants:
            if expected and (everywhere or "tool_calls" in message):
                message[CONTENT] = data.get("text", "")
            if details := data.get("details"):
                message[DETAILS] = details

    def _add_call(self, call: ToolCall) -> None:
        function: JsonObject = {"name": call.name, "arguments": call.arguments}
        asked: JsonObject = {"id": call.call_id, "type": "function", "function": function}
        if call.native is not None and call.native.provider == PROVIDER:
            asked |= call.native.data
        if self._assistant is None:
            self._assistant = {"role": "assistant"}
            self._append_assistant(self._assistant)
        if self._assistant.get("content") == "":
            del self._assistant["content"]
        calls = self._assistant.setdefault("tool_calls", [])
        assert isinstance(calls, list)
        calls.append(asked)
        self._calls[call.call_id] = call.name

    def _add_message(self, message: Message) -> None:
        if message.role == "assistant" and self._calls and self._assistant is not None:
            self._join(self._assistant, message.content)
            return
        self._assistant = None
        if message.role == "user":
            self._reasoning = {}
            self._messages.append({"role": "user", "content": _user_content(message.content)})
            return
        text, media = _split(message.content)
        written: JsonObject = {"role": message.role, "content": text}
        if message.role == "assistant":
            self._append_assistant(written)
            self._assistant = None if media else written
        else:
            self._messages.append(written)
        if media:
            self._attach([(f"Attached to the {message.role} message above:", media)])

    def _append_assistant(self, message: JsonObject) -> None:
        self._messages.append(message)
        self._assistants.append((message, self._reasoning))
        self._reasoning = {}

    def _join(self, assistant: JsonObject, content: MessageContent) -> None:
        """Add text between or after calls to the message with the calls, because only results may
        follow that message."""
        text, media = _split(content)
        said = assistant.get("content")
        if text:
            assistant["content"] = f"{said}\n\n{text}" if said else text
        if media:
            self._attachments.append(("Attached to the assistant message above:", media))

    def _flush_results(self) -> None:
        """Append the results since the last message, if there are any."""
        if not self._results:
            return
        order = {call_id: at for at, call_id in enumerate(self._calls)}
        self._results.sort(key=lambda result: order.get(result.call_id, len(order)))
        attachments = self._attachments
        for result in self._results:
            text, media = _result_text(result)
            if media:
                name = self._calls.get(result.call_id, "")
                label = f"Returned by the tool call {result.call_id} ({name}):"
                attachments.append((label, media))
            self._messages.append({"role": "tool", "tool_call_id": result.call_id, "content": text})
        self._results, self._calls, self._assistant, self._attachments = [], {}, None, []
        self._reasoning = {}
        self._attach(attachments)

    def _attach(self, attachments: list[tuple[str, list[MediaPart]]]) -> None:
        content: list[JsonValue] = []
        for label, media in attachments:
            content.append({"type": "text", "text": label})
            content += [_media(part) for part in media]
        if content:
            self._messages.append({"role": "user", "content": content})


def _result_text(result: ToolResult) -> tuple[str, list[MediaPart]]:
    if not result.parts:
        return result.text, []
    return _split(result.parts)


def _split(content: MessageContent) -> tuple[str, list[MediaPart]]:
    """Return the text and the media that are sent separately. The text announces the media."""
    if isinstance(content, str):
        return content, []
    media = [part for part in content if isinstance(part, MediaPart)]
    lines = [part.text for part in content if isinstance(part, TextPart)]
    if media:
        kinds = ", ".join(part.type for part in media)
        lines.append(f"(Attached in the next user message: {kinds}.)")
    return "\n".join(lines), media


def _user_content(content: MessageContent) -> JsonValue:
    if isinstance(content, str):
        return content
    if not content:
        return ""
    parts: list[JsonValue] = []
    for part in content:
        is_text = isinstance(part, TextPart)
        parts.append({"type": "text", "text": part.text} if is_text else _media(part))
    return parts


def _media(part: MediaPart) -> JsonObject:
    if part.type == "image":
        return {"type": "image_url", "image_url": {"url": part.url or data_url(part, "image/png")}}
    if part.data is None:
        return {"type": "text", "text": f"(file {part.filename or ''}: {part.url})"}
    data = data_url(part, "application/octet-stream")
    return {"type": "file", "file": {"filename": part.filename or "file", "file_data": data}}
