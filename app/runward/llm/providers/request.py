"""The translation of a conversation into pydantic-ai's messages: the parts of its requests (from
people, tools and the system) and of its responses (from the model).

A provider's data is sent back to this provider unchanged and at the same position. IDs of calls are
the IDs of the items, unless the provider does not accept them. A system message after the beginning
is sent as a system message if the model supports this. Otherwise, it becomes a user message in
`<system>` tags. Adjacent parts of the same side are joined to one message. Images and files are
never downloaded. A URL that the provider does not download, and a file of a type that it does not
accept, become text.
"""

import re
from base64 import b64decode
from collections.abc import Iterable
from mimetypes import guess_type
from typing import Final, TypeAlias

from pydantic_ai import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model

from runward.domain.events.values import RunErrorCode
from runward.domain.run import texts
from runward.domain.run.items import (
    HostedCall,
    Item,
    MediaPart,
    Message,
    MessageContent,
    Native,
    Reasoning,
    ToolCall,
    ToolResult,
)
from runward.domain.run.items import TextPart as Text
from runward.llm.base import ModelError
from runward.llm.call_ids import with_accepted_ids
from runward.llm.providers.access import ProviderName
from runward.llm.providers.parts import hosted_parts, provider_details_of, text_part, thinking_part

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
_ACCEPTED_TYPES: Final[dict[ProviderName, frozenset[str] | None]] = {
    "anthropic": IMAGE_TYPES | {PDF, "text/plain"},
    "gemini": None,
    "bedrock": IMAGE_TYPES | DOCUMENT_TYPES,
}
"""Accepted media types by provider. None: the provider itself reports the types that it does not
accept."""
_ACCEPTED_IDS: Final[dict[ProviderName, re.Pattern[str]]] = {
    "anthropic": re.compile(r"[a-zA-Z0-9_-]+"),
    "bedrock": re.compile(r"[a-zA-Z0-9_-]{1,64}"),
}
"""The call IDs that a provider accepts. Bedrock's API also accepts periods and colons, but Claude
does not."""
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
    taken = _ACCEPTED_TYPES[provider]
    if taken is not None and media_type not in taken and media_type.startswith(_PLAIN):
        media_type = "text/plain"
    if taken is not None and media_type not in taken:
        return (
            f"({part.type} {part.filename or ''}: {media_type}, which {provider} does not support)"
        )
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
        text = f"An image or a file of the conversation is not valid base64: {error}."
        raise ModelError(RunErrorCode.MODEL_REFUSED_REQUEST, text, transient=False) from error


EMPTY: Final = "(empty)"
"""Replaces an empty string if the provider does not accept empty texts."""


def messages(
    items: Iterable[Item], model: Model, provider: ProviderName
) -> tuple[list[ModelMessage], list[str]]:
    """Return the messages, and the system messages at the beginning, which these providers receive
    as instructions."""
    writer = _Writer(model, provider)
    accepted = _ACCEPTED_IDS.get(provider)
    for item in items if accepted is None else with_accepted_ids(items, accepted):
        writer.add(item)
    return writer.finished(), writer.standing


class _Writer:
    def __init__(self, model: Model, provider: ProviderName) -> None:
        self.standing: list[str] = []
        self._model = model
        self._provider: ProviderName = provider
        self._inline_system = model.profile.get("supports_inline_system_prompts", False)
        self._messages: list[ModelMessage] = []
        self._said: list[ModelResponsePart] = []
        self._asked: list[ModelRequestPart] = []
        self._results: list[ToolResult] = []
        self._calls: dict[str, str] = {}  # Names of the calls in the last response, by ID.
        self._attached: list[UserContent] = []  # Images and files in the model's own messages.

    def add(self, item: Item) -> None:
        match item:
            case ToolResult():
                self._end_response()
                self._results.append(item)
            case Message(role="user"):
                self._end_response()
                self._asked.append(UserPromptPart(self._user_content(item.content)))
            case Message(role="system"):
                self._add_system(_plain(item.content))
            case _:
                self._end_request()
                self._add_said(item)

    def finished(self) -> list[ModelMessage]:
        self._end_response()
        self._end_request()
        if self._attached:
            self._messages.append(ModelRequest([self._attachments()]))
        if not self._messages and self.standing:
            prompts = [UserPromptPart(_tagged(text)) for text in self.standing]
            self._messages.append(ModelRequest(prompts))
            self.standing.clear()
        return self._messages

    def _add_system(self, text: str) -> None:
        if not text:
            return
        if not (self._messages or self._said or self._asked):
            self.standing.append(text)
            return
        self._end_response()
        inline = self._inline_system and bool(self._messages or self._asked)
        self._asked.append(SystemPromptPart(text) if inline else UserPromptPart(_tagged(text)))

    def _add_said(self, item: Item) -> None:
        match item:
            case Reasoning():
                if (part := thinking_part(item, self._model, self._provider)) is not None:
                    self._said.append(part)
            case ToolCall():
                self._calls[item.call_id] = item.name
                self._said.append(
                    ToolCallPart(
                        item.name,
                        item.arguments,
                        item.call_id,
                        provider_name=self._provider_of(item.native),
                        provider_details=provider_details_of(item.native, self._provider),
                    )
                )
            case HostedCall(provider=self._provider):
                self._said += hosted_parts(item)
            case HostedCall():
                self._said.append(TextPart(texts.hosted_call(item)))
            case Message():
                self._add_answer(item)
            case _:
                raise AssertionError(item)

    def _add_answer(self, message: Message) -> None:
        details = provider_details_of(message.native, self._provider)
        if isinstance(message.content, str):
            if message.content or details:
                part = text_part(message.content, message.native, self._model, self._provider)
                self._said.append(part)
            return
        for part in message.content:
            if isinstance(part, Text):
                if part.text:
                    self._said.append(TextPart(part.text))
                continue
            media = media_content(part, self._provider)
            if isinstance(media, str):
                self._said.append(TextPart(media))
            elif self._provider == "gemini" and isinstance(media, BinaryContent):
                provider = self._provider_of(message.native)
                self._said.append(FilePart(media, provider_name=provider, provider_details=details))
            else:
                self._said.append(TextPart(f"(Attached in the next user message: {part.type}.)"))
                self._attached.append(media)

    def _provider_of(self, native: Native | None) -> str | None:
        own = native is not None and native.provider == self._provider
        return self._model.system if own else None

    def _end_response(self) -> None:
        if not self._said:
            return
        self._messages.append(
            ModelResponse(
                self._said,
                provider_name=self._model.system,
                canonical_system=self._model.canonical_system,
            )
        )
        self._said = []

    def _end_request(self) -> None:
        """Append a request. Results come first, in the order of their calls."""
        if not (self._results or self._asked):
            return
        order = {call_id: at for at, call_id in enumerate(self._calls)}
        self._results.sort(key=lambda result: order.get(result.call_id, len(order)))
        parts: list[ModelRequestPart] = [self._returned(result) for result in self._results]
        if self._attached:
            parts.append(self._attachments())
        self._messages.append(ModelRequest([*parts, *self._asked]))
        self._results, self._asked, self._attached, self._calls = [], [], [], {}

    def _attachments(self) -> UserPromptPart:
        return UserPromptPart(["Attached to the assistant message above:", *self._attached])

    def _returned(self, result: ToolResult) -> ToolReturnPart:
        return ToolReturnPart(
            self._calls.get(result.call_id, ""),
            self._result_content(result),
            result.call_id,
            outcome="failed" if result.is_error else "success",
        )

    def _result_content(self, result: ToolResult) -> object:
        """Return the content of a result. pydantic-ai reads a list as several pieces of content, so
        a list is sent as text. Bedrock and Gemini accept objects as results."""
        if result.parts:
            content = self._pieces(result.parts)
            return content or EMPTY
        match result.output:
            case dict() if self._provider != "anthropic":
                return result.output
            case "" if self._provider == "anthropic":
                return []
            case "" if self._provider == "bedrock":
                return EMPTY
            case _:
                return result.text

    def _user_content(self, content: MessageContent) -> str | list[UserContent]:
        if isinstance(content, str):
            return content or EMPTY
        return self._pieces(content) or EMPTY

    def _pieces(self, content: Iterable[Text | MediaPart]) -> list[UserContent]:
        pieces: list[UserContent] = []
        for part in content:
            piece = part.text if isinstance(part, Text) else media_content(part, self._provider)
            if piece:
                pieces.append(piece)
        return pieces


def _plain(content: MessageContent) -> str:
    if isinstance(content, str):
        return content
    lines = [part.text if isinstance(part, Text) else _named(part) for part in content]
    return "\n".join(lines)


def _named(part: MediaPart) -> str:
    return f"({part.type} {part.filename or part.url or ''})"


def _tagged(text: str) -> str:
    return f"<system>\n{text}\n</system>"
