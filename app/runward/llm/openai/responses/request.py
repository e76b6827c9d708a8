"""The translation of a turn into a request of the Responses API: `input` and settings.

OpenAI's own items are sent back unchanged: reasoning, calls of its tools, and citations. OpenAI
rejects a reasoning item without the item that followed it, and an item without its reasoning. So
the two are always sent or dropped together.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
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
    Native,
    Part,
    Reasoning,
    TextPart,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.llm.base import ModelRequest
from runward.llm.call_ids import with_accepted_ids
from runward.llm.openai.request_parts import OutputFormat, data_url, output_and_instructions
from runward.llm.openai.responses.hosted import hosted_items
from runward.llm.openai.responses.native import native_call, native_output, text_in
from runward.llm.openai.responses.tools import PROVIDER, DeclaredTools

ENCRYPTED_REASONING: Final = "reasoning.encrypted_content"
LEADS_TO: Final = "leads_to"
"""Runward's own field in a stored reasoning item: the ID of the item that directly followed it."""
ACCEPTED_IDS: Final = re.compile(r".{1,64}", re.DOTALL)
"""The call IDs that OpenAI accepts. Some of its own models send longer ones."""
HANDLED_SETTINGS: Final = frozenset({"stream", "store", "verbosity", "extra_body"})
"""Settings that the adapter does not send unchanged."""


def request_body(request: ModelRequest, tools: DeclaredTools, *, encrypted: bool) -> JsonObject:
    """Return the body of the request. The settings were validated by `check_settings` when the run
    was created. `encrypted`: whether to request the model's reasoning in an encrypted form that can
    be sent back."""
    settings: JsonObject = {
        name: value for name, value in request.settings.items() if value is not None
    }
    stored = settings.get("store") is True
    body: JsonObject = {
        "model": request.model,
        "input": build_input(request.items, stored=stored),
        "store": stored,
    }
    output, instructions = output_and_instructions(request)
    if instructions:
        body["instructions"] = instructions
    if tools:
        body["tools"] = tools.definitions()
        if request.tool_choice != "auto":
            body["tool_choice"] = tools.choice(request.tool_choice)
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if included := [*([ENCRYPTED_REASONING] if encrypted else []), *tools.include_options()]:
        body["include"] = [*included]
    if text := _text(output, settings):
        body["text"] = text
    if settings.get("stream") is not False:
        body["stream"] = True
    as_they_are = {name: value for name, value in settings.items() if name not in HANDLED_SETTINGS}
    extra = settings.get("extra_body")
    return body | as_they_are | (extra if isinstance(extra, dict) else {})


def build_input(items: Iterable[Item], *, stored: bool) -> list[JsonValue]:
    writer = _Writer()
    for item in with_accepted_ids(items, ACCEPTED_IDS):
        writer.add(item)
    return writer.finished(stored=stored)


def _text(output: OutputFormat | None, settings: JsonObject) -> JsonObject:
    text: JsonObject = {}
    if output is not None and output.shape is not None:
        text["format"] = {"type": "json_schema", **output.shape}
    if "verbosity" in settings:
        text["verbosity"] = settings["verbosity"]
    return text


@dataclass(frozen=True, slots=True)
class _Entry:
    """One item of the input. `plain` replaces it if the reasoning before it cannot be sent.
    `output`: the item that belongs to it and follows it."""

    said: JsonObject
    plain: JsonObject | None = None
    leads_to: JsonValue = None
    output: JsonObject | None = None


class _Writer:
    """Builds the input. The results that follow calls are sorted into the order of those calls."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._calls: dict[str, ToolCall] = {}  # The calls of the last response.
        self._results: list[ToolResult] = []

    def add(self, item: Item) -> None:
        if isinstance(item, ToolResult):
            self._results.append(item)
            return
        self._flush_results()
        match item:
            case ToolCall():
                self._calls[item.call_id] = item
                self._entries.append(_call(item))
            case Message():
                self._add_message(item)
            case HostedCall():
                self._entries.append(_hosted(item))
            case Reasoning(provider=provider, data=data):
                if provider == PROVIDER:
                    said = {key: value for key, value in data.items() if key != LEADS_TO}
                    self._entries.append(_Entry(said, leads_to=data.get(LEADS_TO)))

    def finished(self, *, stored: bool) -> list[JsonValue]:
        """Return the items. They are filtered from the end, because a reasoning item needs the item
        after it."""
        self._flush_results()
        kept: list[_Entry] = []
        for entry in reversed(self._entries):
            if entry.said.get("type") != "reasoning":
                kept.append(entry)
            elif kept and kept[-1].said.get("id") == entry.leads_to is not None:
                if stored or entry.said.get("encrypted_content") is not None:
                    kept.append(entry)
                elif (plain := kept[-1].plain) is not None:
                    kept[-1] = _Entry(plain)
        return [
            item
            for entry in reversed(kept)
            for item in (entry.said, entry.output)
            if item is not None
        ]

    def _add_message(self, message: Message) -> None:
        if message.role != "assistant":
            content = _content(message.content)
            self._entries.append(_Entry({"role": message.role, "content": content}))
            return
        text = join_text(message.content)
        media = [part for part in _parts(message.content) if isinstance(part, MediaPart)]
        if media:
            kinds = ", ".join(part.type for part in media)
            text = f"{text}\n(Attached in the next user message: {kinds}.)".lstrip("\n")
        if text:
            self._entries.append(_assistant(message, text))
        if media:
            label = TextPart("Attached to the assistant message above:")
            said: JsonObject = {"role": "user", "content": _content((label, *media))}
            self._entries.append(_Entry(said))

    def _flush_results(self) -> None:
        """Append the results since the last call, if there are any."""
        if not self._results:
            return
        order = {call_id: at for at, call_id in enumerate(self._calls)}
        self._results.sort(key=lambda result: order.get(result.call_id, len(order)))
        beside: list[Part] = []
        for result in self._results:
            call = self._calls.get(result.call_id)
            data = _own_data(call.native) if call is not None else None
            if data is not None and "type" in data:
                output, more = native_output(data, result)
                beside += more
            else:
                output = _function_output(result)
            self._entries.append(_Entry(output))
        if beside:
            self._entries.append(_Entry({"role": "user", "content": _content(tuple(beside))}))
        self._results, self._calls = [], {}


def _own_data(native: Native | None) -> JsonObject | None:
    return native.data if native is not None and native.provider == PROVIDER else None


def _call(call: ToolCall) -> _Entry:
    """Return the call's item. The `native` data of a function call are its fields besides name and
    arguments."""
    data = _own_data(call.native)
    if data is not None and "type" in data:
        said = native_call(data, call)
        return _Entry(said, plain={key: value for key, value in said.items() if key != "id"})
    plain: JsonObject = {
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.name,
        "arguments": call.arguments,
    }
    if data is None:
        return _Entry(plain)
    beside = {key: value for key, value in data.items() if key != "id"}
    return _Entry({**data, **plain}, plain=beside | plain)


def _hosted(item: HostedCall) -> _Entry:
    plain: JsonObject = {"role": "assistant", "content": texts.hosted_call(item)}
    items = hosted_items(item.data) if item.provider == PROVIDER else []
    if not items:
        return _Entry(plain)
    return _Entry(items[0], plain=plain, output=items[1] if len(items) > 1 else None)


def _assistant(message: Message, text: str) -> _Entry:
    """Return the message's item. An item from OpenAI is sent back with its citations, unless the
    cited text was changed."""
    plain: JsonObject = {"role": "assistant", "content": text}
    data = _own_data(message.native)
    if data is None:
        return _Entry(plain)
    if "phase" in data:
        plain["phase"] = data["phase"]
    part: JsonObject = {"type": "output_text", "text": text, "annotations": []}
    content: JsonValue = [{"type": "refusal", "refusal": text} if message.refusal else part]
    own = data.get("content")
    if isinstance(own, list) and text_in(own) == text:
        content = own
    item: JsonObject = {"type": "message", "status": "completed", "id": data["id"]}
    return _Entry(item | plain | {"content": content}, plain=plain)


def _function_output(result: ToolResult) -> JsonObject:
    output = _content(result.parts) if result.parts else result.text
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _parts(content: MessageContent) -> tuple[Part, ...]:
    return () if isinstance(content, str) else content


def _content(content: MessageContent) -> JsonValue:
    if isinstance(content, str):
        return content
    parts: list[JsonValue] = []
    for part in content:
        if isinstance(part, MediaPart):
            parts.append(_media(part))
        elif part.text:
            parts.append({"type": "input_text", "text": part.text})
    return parts or ""


def _media(part: MediaPart) -> JsonObject:
    if part.type == "image":
        url = part.url or data_url(part, "image/png")
        return {"type": "input_image", "detail": "auto", "image_url": url}
    if part.data is None:
        return {"type": "input_file", "file_url": part.url}
    data = data_url(part, "application/octet-stream")
    return {"type": "input_file", "filename": part.filename or "file", "file_data": data}
