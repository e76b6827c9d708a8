"""The content of messages in requests: texts, images and files, in Runward's or OpenAI's format."""

import re
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from runward.api.http.models import RequestModel
from runward.domain.run.bounds import MAX_PARTS
from runward.domain.run.items import MediaPart, Part, TextPart

_URL: Final = re.compile(r"https?://\S{1,2040}")
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})", re.ASCII)

Url = Annotated[str, Field(max_length=2048, pattern=r"^https?://\S+$")]
InputTextType: TypeAlias = Literal["text", "input_text"]
ImageDetail: TypeAlias = Literal["auto", "low", "high"]


def _check_image_url(value: str) -> str:
    if not (_URL.fullmatch(value) or _DATA_URL.fullmatch(value)):
        raise ValueError("must be an http or https URL, or a base64 data URL with a media type")
    return value


def _check_data_url(value: str) -> str:
    if not _DATA_URL.fullmatch(value):
        raise ValueError("must be a base64 data URL with a media type")
    return value


def _reject_file_id(value: object) -> object:
    if value is not None:
        raise ValueError("must be null, because Runward does not support file IDs")
    return value


ImageUrl = Annotated[str, AfterValidator(_check_image_url)]
DataUrl = Annotated[str, AfterValidator(_check_data_url)]
NoFileId = Annotated[None, BeforeValidator(_reject_file_id)]
FileName = Annotated[str, Field(max_length=255)]


class InputText(RequestModel):
    """A text part of a message."""

    type: InputTextType
    """Kind of the part. `input_text` has the same meaning as `text`."""
    text: str
    """Text of the part."""

    def to_part(self) -> Part:
        return TextPart(self.text)


class _MediaInput(RequestModel):
    url: Url | None = None
    """URL of the content. The model's provider loads the content from this URL. Set either `url` or
    `data`."""
    data: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9+/]+={0,2}$")] | None = None
    """Content in base64. It needs a `media_type`. Set either `url` or `data`."""
    media_type: Annotated[str, Field(max_length=128, pattern=r"^[\w.+-]+/[\w.+-]+$")] | None = None
    """Media type of the content, such as `image/png`."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        self._check_url_or_data()
        return self

    def _check_url_or_data(self) -> None:
        if (self.url is None) == (self.data is None):
            raise ValueError("must have either url or data")
        if self.data is not None and self.media_type is None:
            raise ValueError("must have media_type if data is set")


class InputImage(_MediaInput):
    """An image, as a URL or as base64 data."""

    type: Literal["image"]

    def to_part(self) -> Part:
        return MediaPart("image", self.url, self.data, self.media_type)


class InputFileContent(RequestModel):
    """The content of a file, in the format of OpenAI's Chat Completions API."""

    file_data: DataUrl
    """Content of the file: a data URL such as `data:application/pdf;base64,…`."""
    filename: FileName | None = None
    """File name that the model sees."""
    file_id: NoFileId = None
    """Always null. Runward does not support file IDs. Send the content in `file_data`."""


class InputFile(_MediaInput):
    """A file, as a URL or as base64 data, or in the format of OpenAI's Chat Completions API."""

    type: Literal["file"]
    file: InputFileContent | None = None
    """Content and name in OpenAI's format. If it is set, the other fields must not be set."""
    filename: FileName | None = None
    """File name that the model sees."""

    def _check_url_or_data(self) -> None:
        if self.file is None:
            super()._check_url_or_data()
        elif self.model_fields_set != {"type", "file"}:
            raise ValueError("must have no other fields if file is set")

    def to_part(self) -> Part:
        if self.file is not None:
            return _build_media("file", self.file.file_data, self.file.filename)
        return MediaPart("file", self.url, self.data, self.media_type, self.filename)


class InputFilePart(RequestModel):
    """A file, in the format of OpenAI's Responses API."""

    type: Literal["input_file"]
    file_url: Url | None = None
    """URL of the file. The model's provider loads the file from this URL. Set either `file_url` or
    `file_data`."""
    file_data: DataUrl | None = None
    """Content of the file: a data URL such as `data:application/pdf;base64,…`."""
    filename: FileName | None = None
    """File name that the model sees."""
    file_id: NoFileId = None
    """Always null. Runward does not support file IDs. Send the content in `file_data`."""
    detail: ImageDetail | None = None
    """Level of detail of the file. Accepted but ignored."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.file_url is None) == (self.file_data is None):
            raise ValueError("must have either file_url or file_data")
        return self

    def to_part(self) -> Part:
        return _build_media("file", self.file_url or self.file_data or "", self.filename)


class InputImageUrl(RequestModel):
    """The address of an image, in OpenAI's format."""

    url: ImageUrl
    """URL of the image: an HTTPS URL, or a data URL such as `data:image/png;base64,…`."""
    detail: ImageDetail | None = None
    """Level of detail of the image. Accepted but ignored."""


class InputImageUrlPart(RequestModel):
    """An image, in the format of OpenAI's Chat Completions API."""

    type: Literal["image_url"]
    image_url: InputImageUrl
    """Address of the image."""

    def to_part(self) -> Part:
        return _build_media("image", self.image_url.url)


class InputImagePart(RequestModel):
    """An image, in the format of OpenAI's Responses API."""

    type: Literal["input_image"]
    image_url: ImageUrl
    """URL of the image: an HTTPS URL, or a data URL such as `data:image/png;base64,…`."""
    detail: ImageDetail | None = None
    """Level of detail of the image. Accepted but ignored."""

    def to_part(self) -> Part:
        return _build_media("image", self.image_url)


def _build_media(kind: Literal["image", "file"], url: str, filename: str | None = None) -> Part:
    if found := _DATA_URL.fullmatch(url):
        return MediaPart(kind, data=found[2], media_type=found[1], filename=filename)
    return MediaPart(kind, url, filename=filename)


class InputRefusal(RequestModel):
    """A refusal of the model, in OpenAI's format."""

    type: Literal["refusal"]
    refusal: str
    """Text of the refusal."""

    def to_part(self) -> Part:
        return TextPart(self.refusal)


InputPart: TypeAlias = Annotated[
    InputText | InputImage | InputFile | InputImageUrlPart | InputImagePart | InputFilePart,
    Field(discriminator="type"),
]
InputAssistantPart: TypeAlias = Annotated[
    InputText
    | InputImage
    | InputFile
    | InputImageUrlPart
    | InputImagePart
    | InputFilePart
    | InputRefusal,
    Field(discriminator="type"),
]
MessageInput: TypeAlias = (
    str | Annotated[tuple[InputPart, ...], Field(min_length=1, max_length=MAX_PARTS)]
)
AssistantInput: TypeAlias = (
    str | Annotated[tuple[InputAssistantPart, ...], Field(min_length=1, max_length=MAX_PARTS)]
)
