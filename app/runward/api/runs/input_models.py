"""The messages that a caller gives a run."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from runward.api.http.models import RequestModel
from runward.domain.run.items import MediaPart, Message, Part, TextPart

MAX_ITEMS = 1000

Url = Annotated[str, Field(max_length=2048, pattern=r"^https?://\S+$")]


class InputText(RequestModel):
    """Text."""

    type: Literal["text"]
    """`text`."""
    text: str
    """The text itself."""

    def to_part(self) -> Part:
        return TextPart(self.text)


class _MediaInput(RequestModel):
    url: Url | None = None
    """Where the model's vendor fetches it from; Runward does not."""
    data: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9+/]+={0,2}$")] | None = None
    """The content itself in base64, with its `media_type`."""
    media_type: Annotated[str, Field(max_length=128, pattern=r"^[\w.+-]+/[\w.+-]+$")] | None = None
    """For instance `image/png`."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.url is None) == (self.data is None):
            raise ValueError("must have either url or data")
        if self.data is not None and self.media_type is None:
            raise ValueError("must have media_type beside data")
        return self


class InputImage(_MediaInput):
    """An image, by its address or inline."""

    type: Literal["image"]
    """`image`."""

    def to_part(self) -> Part:
        return MediaPart("image", self.url, self.data, self.media_type)


class InputFile(_MediaInput):
    """A file, by its address or inline."""

    type: Literal["file"]
    """`file`."""
    filename: Annotated[str, Field(max_length=255)] | None = None
    """What the model is told that it is called."""

    def to_part(self) -> Part:
        return MediaPart("file", self.url, self.data, self.media_type, self.filename)


InputPart: TypeAlias = Annotated[InputText | InputImage | InputFile, Field(discriminator="type")]


class InputMessage(RequestModel):
    """One message of the conversation so far."""

    role: Literal["user", "assistant", "system"]
    """Who said it."""
    content: str | Annotated[tuple[InputPart, ...], Field(min_length=1, max_length=256)]
    """Text, or parts: text, images, files."""

    def to_message(self) -> Message:
        if isinstance(self.content, str):
            return Message(self.role, self.content)
        return Message(self.role, tuple(part.to_part() for part in self.content))


Input: TypeAlias = (
    str | Annotated[tuple[InputMessage, ...], Field(min_length=1, max_length=MAX_ITEMS)]
)


def build_messages(value: Input) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message("user", value),)
    return tuple(message.to_message() for message in value)
