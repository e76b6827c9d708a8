"""Types of the output items of a response. `runward.api.responses.items` builds the values."""

from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from runward.domain.json import JsonObject, documented

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]
_OPTIONAL: Final[Any] = Field(exclude_if=lambda value: value is None)
"""Responses require all other fields, also those that have a default."""


@documented
class ResponseOutputText(TypedDict):
    """A text part of a message."""

    type: Literal["output_text"]
    text: str
    """Text of the part."""
    annotations: list[JsonObject]
    """Always an empty list."""
    logprobs: list[JsonObject]
    """Always an empty list."""


@documented
class ResponseOutputRefusal(TypedDict):
    """A refusal by the model."""

    type: Literal["refusal"]
    refusal: str
    """The text of the refusal."""


@documented
class ResponseSummaryText(TypedDict):
    """A part of the model's reasoning."""

    type: Literal["summary_text"]
    text: str
    """Text of the part."""


ResponseOutputPart: TypeAlias = Annotated[
    ResponseOutputText | ResponseOutputRefusal, Field(discriminator="type")
]


@documented
class ResponseOutputMessage(TypedDict):
    """A message from the model."""

    type: Literal["message"]
    id: str
    """ID of the output item that the event is about."""
    status: ItemStatus
    """Status of the item."""
    role: Literal["assistant"]
    """Role of the author of the message."""
    content: list[ResponseOutputPart]
    """Parts of the message: text and refusals."""


@documented
class ResponseOutputReasoning(TypedDict):
    """The model's reasoning. Only some providers return reasoning."""

    type: Literal["reasoning"]
    id: str
    """ID of the output item that the event is about."""
    summary: list[ResponseSummaryText]
    """Text parts of the reasoning."""
    encrypted_content: str | None
    """Encrypted reasoning, which a later request can send back. Null if the request does not
    include `reasoning.encrypted_content`, or if neither a message nor a tool call followed the
    reasoning."""


@documented
class ResponseOutputFunctionCall(TypedDict):
    """A call of a function that the client must run."""

    type: Literal["function_call"]
    id: str
    """ID of the output item that the event is about."""
    call_id: str
    """ID of the call. Send it with the result."""
    name: str
    """Name of the function."""
    namespace: NotRequired[Annotated[str, _OPTIONAL]]
    """Namespace of the function. Missing if the function has none."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    status: ItemStatus
    """Status of the item."""


@documented
class ResponseOutputMcpCall(TypedDict):
    """A tool call that Runward or the model's provider ran."""

    type: Literal["mcp_call"]
    id: str
    """ID of the output item that the event is about."""
    server_label: str
    """Label of the server: `runward`, or the kind of a hosted tool."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    approval_request_id: str | None
    """ID of the approval. Null if the call needed no approval."""
    output: str | None
    """Result of the call. Null if the call has not succeeded."""
    error: JsonObject | None
    """Error of the call. Null unless the call has failed."""
    status: ItemStatus
    """Status of the item."""


@documented
class ResponseOutputMcpApprovalRequest(TypedDict):
    """A tool call that needs approval."""

    type: Literal["mcp_approval_request"]
    id: str
    """ID of the approval. Send it as `approval_request_id`."""
    server_label: str
    """Label of the server. Always `runward`."""
    name: str
    """Name of the tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


ResponseOutputItem: TypeAlias = Annotated[
    ResponseOutputMessage
    | ResponseOutputReasoning
    | ResponseOutputFunctionCall
    | ResponseOutputMcpCall
    | ResponseOutputMcpApprovalRequest,
    Field(discriminator="type"),
]
