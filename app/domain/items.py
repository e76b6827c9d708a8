"""The conversation, vendor-neutral. `app.llm` translates it at the edge; nothing else does.

In JSON (the API, and stored): a message is `{role, content}`, the others carry a `type`:
`tool_call`, `tool_result`, `reasoning`.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import JsonValue

from app.domain.ids import CallId
from app.domain.json import JsonObject, compact

Role = Literal["user", "assistant", "system"]


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
Content: TypeAlias = str | tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Message:
    role: Role
    content: Content
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model asked for. `arguments` is always the text of a JSON object; where the
    model's own text was not, `raw` keeps it and `arguments` is `{}`."""

    call_id: CallId
    name: str
    arguments: str
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    call_id: CallId
    output: JsonValue
    is_error: bool = False
    parts: tuple[Part, ...] = ()

    @property
    def text(self) -> str:
        """What a model reads: text as it is, anything else as JSON."""
        return self.output if isinstance(self.output, str) else compact(self.output)


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A vendor's reasoning, kept whole so that it can be given back to the same vendor."""

    vendor: str
    data: JsonObject


Item: TypeAlias = Message | ToolCall | ToolResult | Reasoning


def text_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in content if isinstance(part, TextPart))
