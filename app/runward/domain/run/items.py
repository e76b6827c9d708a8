"""The conversation in a provider-neutral format. Only `runward.llm` converts it. In JSON (in the
API and the database), each item has a `type`: `message`, `tool_call`, `tool_result`, `reasoning` or
`hosted_call`."""

from typing import Literal, TypeAlias, assert_never

from pydantic import JsonValue

from runward.domain.ids import CallId
from runward.domain.immutable import immutable
from runward.domain.json import JsonObject, as_text, compact, parse

MessageRole = Literal["user", "assistant", "system"]


@immutable
class TextPart:
    text: str


@immutable
class MediaPart:
    """An image or a file: either a URL, or base64 `data` with its media type."""

    type: Literal["image", "file"]
    url: str | None = None
    data: str | None = None
    media_type: str | None = None
    filename: str | None = None


Part: TypeAlias = TextPart | MediaPart
MessageContent: TypeAlias = str | tuple[Part, ...]


@immutable
class Native:
    """Provider-specific data of an item, such as a signature or citations, in the provider's
    format. Runward returns it only to the same provider."""

    provider: str
    data: JsonObject


@immutable
class Message:
    role: MessageRole
    content: MessageContent
    refusal: bool = False
    native: Native | None = None


@immutable
class ToolCall:
    """A tool call that the model requested. `arguments` is always the text of a JSON object. If the
    model's text is not a JSON object, `raw` contains the text and `arguments` is `{}`."""

    call_id: CallId
    name: str
    arguments: str
    raw: str | None = None
    native: Native | None = None


@immutable
class ToolResult:
    call_id: CallId
    output: JsonValue
    is_error: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """Return the text that a model reads. A string is returned unchanged, and any other value
        as JSON."""
        return as_text(self.output)


@immutable
class Reasoning:
    """A provider's reasoning. It is stored completely, so that Runward can return it to the same
    provider."""

    provider: str
    data: JsonObject


@immutable
class HostedCall:
    """A call of a hosted tool, with its result. `kind` is the kind in the tool's `hosted`.
    `arguments` and `output` are for people. `data` contains the provider's items unchanged, so that
    Runward can return them to the same provider."""

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
    """Return the item as the API shows it and the database stores it."""
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
            return {"type": "reasoning", "provider": provider, "data": data}
        case HostedCall():
            return {
                "type": "hosted_call",
                "call_id": item.call_id,
                "name": item.name,
                "kind": item.kind,
                "provider": item.provider,
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
    """Return the item of a value that `item_to_json` created."""
    match data:
        case {"type": "tool_call", "call_id": str(call_id), "name": str(name)}:
            raw = data.get("arguments_text")
            arguments = compact(data.get("arguments"))
            raw = raw if isinstance(raw, str) else None
            return ToolCall(CallId(call_id), name, arguments, raw, _native_from_json(data))
        case {"type": "tool_result", "call_id": str(call_id), "output": output}:
            parts = parts_from_json(data.get("content"))
            return ToolResult(CallId(call_id), output, data.get("is_error") is True, parts)
        case {"type": "reasoning", "provider": str(provider), "data": dict(reasoning)}:
            return Reasoning(provider, reasoning)
        case {"role": ("user" | "assistant" | "system") as role, "content": content}:
            text = content if isinstance(content, str) else parts_from_json(content)
            return Message(role, text, data.get("refusal") is True, _native_from_json(data))
        case {
            "type": "hosted_call",
            "call_id": str(call_id),
            "name": str(name),
            "kind": str(kind),
            "provider": str(provider),
            "arguments": dict(given),
            "output": output,
            "data": dict(whole),
        }:
            failed = data.get("is_error") is True
            return HostedCall(call_id, name, kind, provider, given, output, whole, is_error=failed)
        case _:
            raise ValueError(f"not an item: {compact(data)[:200]}")


def _native_to_json(native: Native | None) -> JsonObject:
    return {} if native is None else {"native": {"provider": native.provider, "data": native.data}}


def _native_from_json(item: JsonObject) -> Native | None:
    match item.get("native"):
        case {"provider": str(provider), "data": dict(data)}:
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
    """Return the parts. Raises ValueError if the value is not an array of text, image and file
    parts."""
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
                raise ValueError(
                    f"expected a text, image or file part, but found: {compact(value)[:200]}"
                )
            return MediaPart(kind, **texts)
        case _:
            raise ValueError(
                f"expected a text, image or file part, but found: {compact(value)[:200]}"
            )
