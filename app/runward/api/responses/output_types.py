"""Types of the output items of a response. `runward.api.responses.items` builds the values."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from typing_extensions import TypedDict

from runward.domain.json import JsonObject, documented

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete", "failed"]


@documented
class OutputText(TypedDict):
    """The text of a message."""

    type: Literal["output_text"]
    text: str
    """The text."""
    annotations: list[JsonObject]
    """Always empty."""
    logprobs: list[JsonObject]
    """Always empty."""


@documented
class OutputRefusal(TypedDict):
    """A refusal of the model."""

    type: Literal["refusal"]
    refusal: str
    """The text of the refusal."""


@documented
class SummaryText(TypedDict):
    """A part of the model's reasoning."""

    type: Literal["summary_text"]
    text: str
    """The text."""


OutputPart: TypeAlias = Annotated[OutputText | OutputRefusal, Field(discriminator="type")]


@documented
class OutputMessage(TypedDict):
    """A message of the model."""

    type: Literal["message"]
    id: str
    """ID of the item."""
    status: ItemStatus
    """Progress of the item."""
    role: Literal["assistant"]
    """The author of the message."""
    content: list[OutputPart]
    """The parts of the message."""


@documented
class OutputReasoning(TypedDict):
    """The reasoning of the model, as far as its provider shows it."""

    type: Literal["reasoning"]
    id: str
    """ID of the item."""
    summary: list[SummaryText]
    """The texts of the reasoning."""


@documented
class OutputFunctionCall(TypedDict):
    """A call of a function that the client must run."""

    type: Literal["function_call"]
    id: str
    """ID of the item."""
    call_id: str
    """ID of the call. Send it with the result."""
    name: str
    """Name of the function."""
    arguments: str
    """The arguments, as the text of a JSON object."""
    status: ItemStatus
    """Progress of the item."""


@documented
class OutputMcpCall(TypedDict):
    """A tool call that Runward or the model's provider ran."""

    type: Literal["mcp_call"]
    id: str
    """ID of the item."""
    server_label: str
    """`runward`, or the kind of the provider's own tool."""
    name: str
    """Name of the tool."""
    arguments: str
    """The arguments, as the text of a JSON object."""
    approval_request_id: str | None
    """ID of the approval. Null if the call needed none."""
    output: str | None
    """The result. Null if the call has not succeeded."""
    error: JsonObject | None
    """The error. Null if the call has not failed."""
    status: ItemStatus
    """Progress of the item."""


@documented
class OutputApprovalRequest(TypedDict):
    """A tool call that waits for the client's approval."""

    type: Literal["mcp_approval_request"]
    id: str
    """ID of the approval. Send it as `approval_request_id`."""
    server_label: str
    """`runward`."""
    name: str
    """Name of the tool."""
    arguments: str
    """The arguments, as the text of a JSON object."""


OutputItem: TypeAlias = Annotated[
    OutputMessage | OutputReasoning | OutputFunctionCall | OutputMcpCall | OutputApprovalRequest,
    Field(discriminator="type"),
]
