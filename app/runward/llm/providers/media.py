"""Images and files as pydantic-ai's content. It never downloads one. A URL that the provider does
not download, and a file of a type that it does not accept, become text."""

from base64 import b64decode
from mimetypes import guess_type
from typing import Final, TypeAlias

from pydantic_ai import BinaryContent, DocumentUrl, ImageUrl, UploadedFile

from runward.domain.run.items import MediaPart
from runward.llm.base import ModelError
from runward.llm.providers.access import ProviderName

SentMedia: TypeAlias = BinaryContent | ImageUrl | DocumentUrl | UploadedFile

IMAGE_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF: Final = "application/pdf"
DOCUMENT_TYPES: Final = frozenset(
    {
        PDF,
        "text/plain",
        "text/csv",
        "text/html",
        "text/markdown",
        "application/msword",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    }
)
_TAKEN: Final[dict[ProviderName, frozenset[str] | None]] = {
    "anthropic": IMAGE_TYPES | {PDF, "text/plain"},
    "gemini": None,
    "bedrock": IMAGE_TYPES | DOCUMENT_TYPES,
}
"""Media types by provider. None: the provider reports the types that it does not accept."""
_PLAIN: Final = ("text/", "application/json", "application/xml", "application/yaml")


def media_content(part: MediaPart, provider: ProviderName) -> SentMedia | str:
    """Return the part as pydantic-ai's content, or a text in its place if the provider does not
    accept it. Raises ModelError for data that is not base64."""
    url, data, media_type = part.url, part.data, part.media_type
    if url is not None and url.startswith("data:"):
        head, _, data = url.partition(",")
        media_type, url = head.removeprefix("data:").partition(";")[0] or media_type, None
    media_type = media_type or guess_type(part.filename or url or "")[0]
    if data is None:
        return _linked(part, url or "", media_type, provider)
    media_type = media_type or ("image/png" if part.type == "image" else "application/octet-stream")
    taken = _TAKEN[provider]
    if taken is not None and media_type not in taken and media_type.startswith(_PLAIN):
        media_type = "text/plain"
    if taken is not None and media_type not in taken:
        return f"({part.type} {part.filename or ''}: {media_type}, which {provider} does not take)"
    return BinaryContent(_decoded(data), media_type=media_type)


def _linked(
    part: MediaPart, url: str, media_type: str | None, provider: ProviderName
) -> SentMedia | str:
    match provider:
        case "anthropic" if part.type == "image":
            return ImageUrl(url)
        case "anthropic" if media_type == PDF:
            return DocumentUrl(url, media_type=PDF)
        case "gemini" if media_type and url.startswith("https://"):
            return UploadedFile(file_id=url, provider_name="google", media_type=media_type)
        case "bedrock" if url.startswith("s3://") and media_type in IMAGE_TYPES:
            return ImageUrl(url, media_type=media_type)
        case "bedrock" if url.startswith("s3://") and media_type in DOCUMENT_TYPES:
            return DocumentUrl(url, media_type=media_type)
        case _:
            return f"({part.type} {part.filename or ''}: {url})"


def _decoded(data: str) -> bytes:
    try:
        return b64decode(data)
    except ValueError as error:
        text = f"An image or a file of the conversation is not base64: {error}."
        raise ModelError("model_refused_request", text, transient=False) from error
