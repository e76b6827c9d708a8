"""The conversation, provider-neutral. `runward.llm` translates it at the edge; nothing else does.

In JSON (the API, and stored) each item has a `type`: `message`, `tool_call`, `tool_result`,
`reasoning` or `hosted_call`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.ids import CallId
from runward.domain.json import JsonObject, as_text, compact, parse

MessageRole = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str


@dataclass(frozen=True, slots=True)
class MediaPart:
    """An image or a file: either a URL, or base64 `data` with its media type."""

    type: Literal["image", "file"]
    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    filename: str | None = None


Part: TypeAlias = TextPart | MediaPart
MessageContent: TypeAlias = str | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Native:
    """What a provider said beside the neutral part of an item (a signature, citations, its own
    kind of call), in its wire format. It is given back to the same provider and to no other."""

    provider: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Message:
    role: MessageRole
    content: MessageContent
    refusal: bool = False
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model asked for. `arguments` is always the text of a JSON object; where the
    model's own text was not, `raw` keeps it and `arguments` is `{}`."""

    call_id: CallId
    name: str
    arguments: str
    raw: str | None = None
    native: Native | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: CallId
    output: JsonValue
    is_error: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """What a model reads: text as it is, anything else as JSON."""
        return as_text(self.output)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A provider's reasoning, kept whole so that it can be given back to the same provider."""

    provider: str
    data: JsonObject


@dataclass(frozen=True, slots=True)
class HostedCall:
    """A call of a tool that the provider ran by itself, with its result. `kind` as in the tool's
    `hosted`; `arguments` and `output` are what people read of it, `data` is the provider's own item
    (or items), kept whole so that it can be given back to the same provider."""

    call_id: str
    name: str
    kind: str
    provider: str
    arguments: JsonObject
    output: JsonValue
    data: JsonObject
    is_error: bool = False


Item: TypeAlias = Message | ToolCall | ToolResult | Reasoning | HostedCall


def join_text(content: MessageContent) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))


def item_to_json(item: Item) -> JsonObject:
    """As the API shows it and the store keeps it."""
    match item:
        case Message():
            return _message_to_json(item)
        case ToolCall():
            call: JsonObject = {
                "type": "tool_call",
                "call_id": item.call_id,
                "name": item.name,
                "arguments": parse(item.arguments),
            }
            if item.raw is not None:
                call["arguments_text"] = item.raw
            return call | _native_to_json(item.native)
        case ToolResult():
            result: JsonObject = {
                "type": "tool_result",
                "call_id": item.call_id,
                "output": item.output,
                "is_error": item.is_error,
            }
            if item.parts:
                result["content"] = [part_to_json(part) for part in item.parts]
            return result
        case Reasoning(provider=provider, data=data):
            return {"type": "reasoning", "vendor": provider, "data": data}
        case HostedCall():
            return {
                "type": "hosted_call",
                "call_id": item.call_id,
                "name": item.name,
                "kind": item.kind,
                "vendor": item.provider,
                "arguments": item.arguments,
                "output": item.output,
                "is_error": item.is_error,
                "data": item.data,
            }
        case _:
            assert_never(item)


def _message_to_json(item: Message) -> JsonObject:
    content = item.content
    shown: JsonValue = (
        content if isinstance(content, str) else [part_to_json(part) for part in content]
    )
    message: JsonObject = {"type": "message", "role": item.role, "content": shown}
    if item.refusal:
        message["refusal"] = True
    return message | _native_to_json(item.native)


def item_from_json(data: JsonObject) -> Item:
    """The inverse, for what `item_to_json` made."""
    match data:
        case {"type": "tool_call", "call_id": str(call_id), "name": str(name)}:
            raw = data.get("arguments_text")
            arguments = compact(data.get("arguments"))
            raw = raw if isinstance(raw, str) else None
            return ToolCall(CallId(call_id), name, arguments, raw, _native_from_json(data))
        case {"type": "tool_result", "call_id": str(call_id), "output": output}:
            parts = parts_from_json(data.get("content"))
            return ToolResult(CallId(call_id), output, data.get("is_error") is True, parts)
        case {"type": "reasoning", "vendor": str(provider), "data": dict(reasoning)}:
            return Reasoning(provider, reasoning)
        case {"role": ("user" | "assistant" | "system") as role, "content": content}:
            text = content if isinstance(content, str) else parts_from_json(content)
            return Message(role, text, data.get("refusal") is True, _native_from_json(data))
        case {
            "type": "hosted_call",
            "call_id": str(call_id),
            "name": str(name),
            "kind": str(kind),
            "vendor": str(provider),
            "arguments": dict(given),
            "output": output,
            "data": dict(whole),
        }:
            failed = data.get("is_error") is True
            return HostedCall(call_id, name, kind, provider, given, output, whole, is_error=failed)
        case _:
            raise ValueError(f"not an item: {compact(data)[:200]}")


def _native_to_json(native: Native | None) -> JsonObject:
    return {} if native is None else {"native": {"vendor": native.provider, "data": native.data}}


def _native_from_json(item: JsonObject) -> Native | None:
    match item.get("native"):
        case {"vendor": str(provider), "data": dict(data)}:
            return Native(provider, data)
        case _:
            return None


def part_to_json(part: Part) -> JsonObject:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    fields: dict[str, str | None] = {
        "url": part.url,
        "data": part.data,
        "media_type": part.media_type,
        "filename": part.filename,
    }
    shown: JsonObject = {"type": part.type}
    return shown | {key: value for key, value in fields.items() if value is not None}


def parts_from_json(value: JsonValue) -> tuple[Part, ...]:
    """Raises ValueError for what is not an array of text, image and file parts."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("content is not an array of parts")
    return tuple(_part_from_json(part) for part in value)


def _part_from_json(value: JsonValue) -> Part:
    match value:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": ("image" | "file") as kind, **rest}:
            texts = {key: text for key, text in rest.items() if isinstance(text, str)}
            known = {"url", "data", "media_type", "filename"}
            if rest.keys() - known or not texts.keys() & {"url", "data"}:
                raise ValueError(f"not a part: {compact(value)[:200]}")
            return MediaPart(kind, **texts)
        case _:
            raise ValueError(f"not a part: {compact(value)[:200]}")
