"""Translation of a conversation into pydantic-ai's messages: items to the parts of its requests
(from people, tools and the system) and of its responses (from the model).

Data of a provider goes back to it unchanged and in its place. IDs of calls are the items' own. A
system message after the beginning stays one if the model supports it; else it becomes a user
message in `<system>` tags. Parts of one side are joined to one message.
"""

from collections.abc import Iterable
from typing import Final

from pydantic_ai import (
    BinaryContent,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model

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
from runward.llm.providers.access import ProviderName
from runward.llm.providers.media import media_content
from runward.llm.providers.parts import hosted_parts, provider_details_of, text_part, thinking_part

EMPTY: Final = "(empty)"
"""Replaces an empty text where the provider does not accept one."""


def messages(
    items: Iterable[Item], model: Model, provider: ProviderName
) -> tuple[list[ModelMessage], list[str]]:
    """Return the messages, and the system's texts at the beginning, which these providers take as
    instructions."""
    writer = _Writer(model, provider)
    for item in items:
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
        self._calls: dict[str, str] = {}  # of the last response: id -> name
        self._attached: list[UserContent] = []  # media of the model's own messages

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
        """Return the content of a result. pydantic-ai takes a list as several pieces of content, so
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
