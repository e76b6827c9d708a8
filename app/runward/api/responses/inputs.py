"""Models of the items of a conversation, as OpenAI's clients send them. Null has the same meaning
as a missing field."""

from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from runward.api.http.models import RequestModel
from runward.api.runs.input_parts import ImageDetail
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolName

MAX_ITEMS: Final = 10_000


class OpenAIRequestModel(RequestModel):
    """Base class of the request models. OpenAI's clients send null for all fields that they do not
    set."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: one for name, one in fields.items() if one is not None}
        return value


def _get_item_type(value: Any) -> str | None:
    """Return the item's type. It is `message` if the field is missing."""
    if not isinstance(value, dict):
        return getattr(value, "type", None)
    kind = cast("dict[str, Any]", value).get("type") or "message"
    return kind if isinstance(kind, str) else None


class _Item(OpenAIRequestModel):
    """Base of the items. `id` and `status` come from the response that contained the item. Runward
    ignores them."""

    id: str | None = None
    """ID of the item in an earlier response. Optional and ignored."""
    status: str | None = None
    """Status of the item in an earlier response. Optional and ignored."""


# Contents of messages and results.


class ResponseInputText(OpenAIRequestModel):
    """A text part of a message or a result."""

    type: Literal["input_text", "output_text"]
    """Kind of the text part: `output_text` for messages from the assistant, `input_text`
    otherwise."""
    text: str
    """Text of the part."""
    annotations: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Annotations of the text in an earlier response. Accepted but ignored."""
    logprobs: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Log probabilities of the text in an earlier response. Accepted but ignored."""


class ResponseInputRefusal(OpenAIRequestModel):
    """A refusal by the assistant."""

    type: Literal["refusal"]
    refusal: str
    """Text of the refusal."""


class ResponseInputImage(OpenAIRequestModel):
    """An image, as a URL or as a data URL."""

    type: Literal["input_image"]
    image_url: str
    """URL of the image: `https://…` or `data:image/png;base64,…`."""
    detail: ImageDetail = "auto"
    """Level of detail of the image. Accepted but ignored."""


class ResponseInputFile(OpenAIRequestModel):
    """A file, as a URL or as a data URL."""

    type: Literal["input_file"]
    file_url: str | None = None
    """URL of the file. The model's provider loads the file from this URL. Null if the file is in
    `file_data`."""
    file_data: str | None = None
    """The file as a data URL, such as `data:application/pdf;base64,…`. Null if the file has a
    `file_url`."""
    filename: Annotated[str, Field(max_length=255)] | None = None
    """File name that the model sees."""


ResponseInputPart: TypeAlias = Annotated[
    ResponseInputText | ResponseInputRefusal | ResponseInputImage | ResponseInputFile,
    Field(discriminator="type"),
]
InputContent: TypeAlias = str | list[ResponseInputPart]


# Items.


class ResponseInputMessage(_Item):
    """A message of the conversation."""

    type: Literal["message"] = "message"
    """Always `message`. Optional."""
    role: Literal["user", "assistant", "system", "developer"]
    """Role of the author of the message. `developer` has the same meaning as `system`."""
    content: InputContent
    """Content of the message: a string, or a list of parts."""
    phase: Literal["commentary", "final_answer"] | None = None
    """Phase of an assistant message in an earlier response. Accepted but ignored."""


class ResponseInputFunctionCall(_Item):
    """A function call that an earlier response requested."""

    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1, max_length=512)]
    """ID of the function call."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the function."""
    namespace: ToolName | None = None
    """Namespace of the function. Null: the function has none."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class ResponseInputFunctionCallOutput(_Item):
    """The result of a function call that the client has run."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1, max_length=512)]
    """ID of the function call that the result belongs to."""
    output: InputContent
    """Result of the call: a string, or a list of parts."""
    name: str | None = None
    """Name of the function. Optional and ignored."""
    namespace: str | None = None
    """Namespace of the function. Optional and ignored."""


class ResponseInputReasoning(_Item):
    """Reasoning of an earlier response. If it has the `encrypted_content` from a response of this
    project, Runward sends the reasoning back to the provider that created it. Otherwise, the model
    does not read it again."""

    type: Literal["reasoning"]
    summary: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Summary of the reasoning in the earlier response. Accepted but ignored."""
    content: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Content of the reasoning in the earlier response. Accepted but ignored."""
    encrypted_content: str | None = None
    """Encrypted reasoning from the response. Ignored if Runward did not create it for this
    project."""


class ResponseInputMcpCall(_Item):
    """A call of a registered tool that Runward ran in an earlier response."""

    type: Literal["mcp_call"]
    server_label: str
    """Label of the server in the earlier response."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the registered tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""
    output: str | None = None
    """Result of the call. Null if the call failed."""
    error: JsonValue = None
    """Error of the call. Null if the call succeeded."""
    approval_request_id: str | None = None
    """ID of the approval request in the earlier response. Null if the call needed no approval."""


class ResponseInputMcpApprovalRequest(_Item):
    """An approval request of an earlier response. Runward ignores it, because the item of the call
    contains the outcome."""

    type: Literal["mcp_approval_request"]
    server_label: str
    """Label of the server in the earlier response."""
    name: str
    """Name of the registered tool."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class ResponseInputMcpApprovalResponse(_Item):
    """A decision about a call that needs approval. The API key needs the scope
    `approvals:decide`. Without `previous_response_id`, the request continues the run of the
    approval."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Annotated[str, Field(max_length=64)]
    """ID of the `mcp_approval_request` item. It is the same as the ID of the approval (`apr_…`)."""
    approve: bool
    """Whether the approver approves the call."""
    reason: Annotated[str, Field(max_length=4096)] | None = None
    """Reason for a rejection. The model reads it. Null: Runward uses a built-in message."""


class ResponseInputCompaction(_Item):
    """A compacted conversation from `POST /v1/responses/compact`."""

    type: Literal["compaction"]
    encrypted_content: str
    """Encrypted conversation from the compaction item."""
    created_by: str | None = None
    """Creator of the compaction item. Accepted but ignored."""


class ResponseInputItemReference(OpenAIRequestModel):
    """A reference to an output item of an earlier response. Runward replaces it by the item."""

    type: Literal["item_reference"]
    id: Annotated[str, Field(max_length=128)]
    """ID of the output item."""


ResponseInputItem: TypeAlias = Annotated[
    Annotated[ResponseInputMessage, Tag("message")]
    | Annotated[ResponseInputFunctionCall, Tag("function_call")]
    | Annotated[ResponseInputFunctionCallOutput, Tag("function_call_output")]
    | Annotated[ResponseInputReasoning, Tag("reasoning")]
    | Annotated[ResponseInputMcpCall, Tag("mcp_call")]
    | Annotated[ResponseInputMcpApprovalRequest, Tag("mcp_approval_request")]
    | Annotated[ResponseInputMcpApprovalResponse, Tag("mcp_approval_response")]
    | Annotated[ResponseInputCompaction, Tag("compaction")]
    | Annotated[ResponseInputItemReference, Tag("item_reference")],
    Discriminator(_get_item_type),
]
InputIn: TypeAlias = str | Annotated[list[ResponseInputItem], Field(max_length=MAX_ITEMS)]
