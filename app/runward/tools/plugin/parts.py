"""Parts that a tool can return besides plain values: texts, images and files."""

import base64
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from runward.domain.run.bounds import MAX_PARTS
from runward.domain.run.items import MediaPart, Part, TextPart


@dataclass(frozen=True, slots=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image, by `url` or as `data`: bytes, or base64 text."""

    url: str | None = None
    data: bytes | str | None = None
    media_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file, by `url` or as `data`: bytes, or base64 text."""

    url: str | None = None
    data: bytes | str | None = None
    media_type: str | None = None
    filename: str | None = None


AnyPart: TypeAlias = Text | Image | File


@dataclass(frozen=True, slots=True, init=False)
class Content:
    """Several parts, in order: `Content(Text("Done."), Image(url=…))`."""

    parts: tuple[AnyPart, ...]

    def __init__(self, *parts: AnyPart) -> None:
        object.__setattr__(self, "parts", parts)


def parts_of(value: Any) -> tuple[Part, ...] | None:
    """Return the parts, or None for a plain value. Raises ValueError for invalid parts."""
    if isinstance(value, Content):
        parts: tuple[Any, ...] = value.parts
    elif isinstance(value, Text | Image | File):
        parts = (value,)
    elif isinstance(value, list | tuple) and value:
        parts = tuple(cast(list[Any], value))
        if not all(isinstance(part, Text | Image | File) for part in parts):
            return None
    else:
        return None
    if len(parts) > MAX_PARTS:
        raise ValueError(f"a result has at most {MAX_PARTS} parts, not {len(parts)}")
    return tuple(_part(part) for part in parts)


def _part(part: Any) -> Part:
    match part:
        case Text(text=str(text)):
            return TextPart(text)
        case Image():
            return MediaPart("image", **_media(part))
        case File(filename=filename):
            return MediaPart("file", filename=filename, **_media(part))
        case _:
            raise ValueError(f"{type(part).__name__} is not a valid part")


def _media(part: Image | File) -> dict[str, str | None]:
    if (part.url is None) == (part.data is None):
        raise ValueError(f"{type(part).__name__} requires either url or data")
    if part.data is not None and part.media_type is None:
        raise ValueError(f"{type(part).__name__} with data requires a media_type")
    data = part.data
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    return {"url": part.url, "data": data, "media_type": part.media_type}
