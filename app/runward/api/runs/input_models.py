"""The input of a run in requests: a text, or messages in the format of OpenAI's chat histories."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from runward.api.http.models import RequestModel
from runward.api.runs.input_parts import AssistantInput, InputRefusal, MessageInput
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.ids import CallId
from runward.domain.json import compact
from runward.domain.run.bounds import MAX_CALL_ID
from runward.domain.run.items import (
    Item,
    MediaPart,
    Message,
    Part,
    ToolCall,
    ToolResult,
    join_text,
)
from runward.domain.run.pairing import UnpairedItemError, pair_results
from runward.domain.schema.validator import parse_arguments

MAX_ITEMS: Final = 1000
MAX_CALLS: Final = 128

UserRole: TypeAlias = Literal["user", "system", "developer"]
AuthorName = Annotated[str, Field(max_length=256)]


class InputFunction(RequestModel):
    """The function of an earlier tool call, in OpenAI's format."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    """Name of the function. It does not need to be the name of a tool of the run."""
    arguments: str
    """Arguments of the call: a JSON object as text. An empty text means no arguments."""
    parsed_arguments: JsonValue = None
    """Arguments that OpenAI's SDKs have parsed. Accepted but ignored."""


class InputToolCall(RequestModel):
    """An earlier tool call, in the format of OpenAI's Chat Completions API. Runward does not run
    it."""

    id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID)]
    """ID of the tool call. A later message of the role `tool` contains its result."""
    type: Literal["function"] = "function"
    """Always `function`."""
    function: InputFunction
    """Function that the model called."""
    index: int | None = None
    """Position of the call in a stream. Accepted but ignored."""


class InputUserMessage(RequestModel):
    """A message of a user or of the system."""

    role: UserRole
    """Role of the author of the message. `developer` has the same meaning as `system`."""
    content: MessageInput
    """Content of the message: a string, or a list of text, image, and file parts."""
    name: AuthorName | None = None
    """Name of the author. Accepted but ignored."""

    def to_items(self, at: str) -> Iterator[tuple[str, Item]]:
        yield at, Message("user" if self.role == "user" else "system", _read_content(self.content))


class InputAssistantMessage(RequestModel):
    """A message of the assistant: the response of a model, with its tool calls. It must have
    `content`, `refusal` or `tool_calls`."""

    role: Literal["assistant"]
    """Always `assistant`."""
    content: AssistantInput | None = None
    """Content of the message: a string, or a list of parts. Null: the message has no content."""
    refusal: str | None = None
    """Refusal of the model. Null: the model did not refuse."""
    tool_calls: Annotated[tuple[InputToolCall, ...], Field(max_length=MAX_CALLS)] | None = None
    """Tool calls of the response. Each call needs a result, which is a later message of the role
    `tool`. Null: no tool calls."""
    name: AuthorName | None = None
    """Name of the author. Accepted but ignored."""
    annotations: tuple[JsonValue, ...] | None = None
    """Annotations of the text. Accepted but ignored."""
    parsed: JsonValue = None
    """Content that OpenAI's SDKs have parsed. Accepted but ignored."""
    provider_specific_fields: JsonValue = None
    """Additional fields that LiteLLM adds to its messages. Accepted but ignored."""
    audio: None = None
    """Always null. Accepted because OpenAI's SDKs send it."""
    function_call: None = None
    """Always null. Accepted because OpenAI's SDKs send it."""

    @model_validator(mode="after")
    def _check_content(self) -> Self:
        if self.content is None and self.refusal is None and not self.tool_calls:
            raise ValueError("must have content, refusal or tool_calls")
        return self

    def to_items(self, at: str) -> Iterator[tuple[str, Item]]:
        if self.content is not None and (self.content or not self.tool_calls):
            refuses = not isinstance(self.content, str) and any(
                isinstance(part, InputRefusal) for part in self.content
            )
            yield at, Message("assistant", _read_content(self.content), refusal=refuses)
        if self.refusal is not None:
            yield at, Message("assistant", self.refusal, refusal=True)
        for n, call in enumerate(self.tool_calls or ()):
            place = f"{at}.tool_calls.{n}"
            arguments = parse_arguments(call.function.arguments)
            if not isinstance(arguments, dict):
                path = f"{place}.function.arguments"
                raise InvalidRequestError(errors=[FieldError(path, arguments[0].message)])
            yield (
                f"{place}.id",
                ToolCall(CallId(call.id), call.function.name, compact(arguments)),
            )


class InputToolMessage(RequestModel):
    """The result of an earlier tool call, in the format of OpenAI's Chat Completions API."""

    role: Literal["tool"]
    """Always `tool`."""
    tool_call_id: Annotated[str, Field(min_length=1, max_length=MAX_CALL_ID)]
    """ID of the tool call that the result belongs to."""
    content: MessageInput
    """Result of the tool call: a string, or a list of text, image, and file parts."""
    name: AuthorName | None = None
    """Name of the function. Accepted but ignored."""

    def to_items(self, at: str) -> Iterator[tuple[str, Item]]:
        content = _read_content(self.content)
        media = not isinstance(content, str) and any(isinstance(p, MediaPart) for p in content)
        parts = content if media and not isinstance(content, str) else ()
        result = ToolResult(CallId(self.tool_call_id), join_text(content), parts=parts)
        yield f"{at}.tool_call_id", result


def _read_content(content: MessageInput | AssistantInput) -> str | tuple[Part, ...]:
    return content if isinstance(content, str) else tuple(part.to_part() for part in content)


InputMessage: TypeAlias = Annotated[
    InputUserMessage | InputAssistantMessage | InputToolMessage, Field(discriminator="role")
]
InputMessages: TypeAlias = Annotated[
    tuple[InputMessage, ...], Field(min_length=1, max_length=MAX_ITEMS)
]
Input: TypeAlias = str | InputMessages


def build_items(value: Input, at: str = "input") -> tuple[Item, ...]:
    """Return the items of the input. Each tool call is followed by its result. `at`: the path of
    the input in the request. Raises InvalidRequestError."""
    if isinstance(value, str):
        return (Message("user", value),)
    return pair_items(
        [one for n, message in enumerate(value) for one in message.to_items(f"{at}.{n}")]
    )


LocatedItem: TypeAlias = tuple[str, Item]
"""An item and its path in the request."""


def locate_items(message: InputMessage, at: str) -> list[LocatedItem]:
    """Return the items of a message. `at`: the path of the message. Raises InvalidRequestError."""
    return [*message.to_items(at)]


def pair_items(read: Sequence[LocatedItem]) -> tuple[Item, ...]:
    """Return the items. Each tool call is followed by its result. Raises InvalidRequestError."""
    try:
        return pair_results([item for _, item in read])
    except UnpairedItemError as error:
        problem = FieldError(read[error.index][0], str(error))
        raise InvalidRequestError(errors=[problem]) from None
