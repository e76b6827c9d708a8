"""Results that consist of parts: a `content` array of text, images and files, as in MCP."""

from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from runward.domain.json import JsonObject
from runward.domain.run.items import MediaPart, Part, TextPart

MAX_PARTS: Final = 256


@dataclass(frozen=True, slots=True)
class ContentParts:
    """A result in parts. `text` is the text parts, joined by line breaks."""

    text: str
    parts: tuple[Part, ...]
    metadata: JsonObject


def read_content(value: JsonObject) -> ContentParts | None:
    """Return the parts, or None if the value is not an object with a `content` array of known
    parts. It is then plain JSON that merely has this key."""
    items = value.get("content")
    if not isinstance(items, list) or not 0 < len(items) <= MAX_PARTS:
        return None
    parts = [_part(item) for item in items]
    known = tuple(part for part in parts if part is not None)
    if len(known) < len(parts):
        return None
    metadata = value.get("metadata")
    text = "\n".join(part.text for part in known if isinstance(part, TextPart))
    return ContentParts(text, known, metadata if isinstance(metadata, dict) else {})


def _part(item: JsonValue) -> Part | None:
    match item:
        case {"type": "text", "text": str(text)}:
            return TextPart(text)
        case {"type": "image" | "file" as kind, "url": str(url)}:
            return MediaPart(kind, url=url, **_metadata(item))
        case {"type": "image" | "file" as kind, "data": str(data)}:
            return MediaPart(kind, data=data, **_metadata(item))
        case _:
            return None


def _metadata(item: JsonObject) -> dict[str, Any]:
    media_type = item.get("media_type", item.get("mimeType"))
    filename = item.get("filename")
    return {
        "media_type": media_type if isinstance(media_type, str) else None,
        "filename": filename if isinstance(filename, str) else None,
    }
