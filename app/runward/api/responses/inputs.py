"""The items of a conversation, as OpenAI's clients send them. Null is "not given"."""

from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from runward.api.http.models import RequestModel
from runward.domain.json import JsonObject

MAX_ITEMS: Final = 10_000


class OpenAIRequestModel(RequestModel):
    """What OpenAI's clients send: with a null for everything that they lack."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {name: one for name, one in fields.items() if one is not None}
        return value


def _get_item_type(value: Any) -> str | None:
    """A message needs no `type`."""
    if not isinstance(value, dict):
        return getattr(value, "type", None)
    kind = cast("dict[str, Any]", value).get("type") or "message"
    return kind if isinstance(kind, str) else None


class _Item(OpenAIRequestModel):
    """`id` and `status` are those of the item's own response; nothing depends on them."""

    id: str | None = None
    """As it was answered; not needed."""
    status: str | None = None
    """As it was answered; not needed."""


# Contents of messages and results.


class TextIn(OpenAIRequestModel):
    """Text."""

    type: Literal["input_text", "output_text"]
    """`input_text`, or of an assistant's message `output_text`."""
    text: str
    """The text itself."""
    annotations: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Not passed on."""
    logprobs: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Not passed on."""


class RefusalIn(OpenAIRequestModel):
    """What an assistant said instead of an answer."""

    type: Literal["refusal"]
    refusal: str
    """The text."""


class ImageIn(OpenAIRequestModel):
    """An image, by its address or as a data URL."""

    type: Literal["input_image"]
    image_url: str
    """`https://…`, or `data:image/png;base64,…`."""
    detail: Literal["auto"] = "auto"
    """Only `auto`."""


class FileIn(OpenAIRequestModel):
    """A file, by its address or as a data URL."""

    type: Literal["input_file"]
    file_url: str | None = None
    """Where the model's vendor fetches it from."""
    file_data: str | None = None
    """`data:application/pdf;base64,…`."""
    filename: Annotated[str, Field(max_length=255)] | None = None
    """What the model is told that it is called."""


PartIn: TypeAlias = Annotated[
    TextIn | RefusalIn | ImageIn | FileIn,
    Field(discriminator="type"),
]
InputContent: TypeAlias = str | list[PartIn]


# Items.


class MessageIn(_Item):
    """A message."""

    type: Literal["message"] = "message"
    """`message`; may be left out."""
    role: Literal["user", "assistant", "system", "developer"]
    """`developer` means `system`."""
    content: InputContent
    """Text, or parts."""
    phase: Literal["commentary", "final_answer"] | None = None
    """Of an assistant's message. Accepted; not passed on."""


class FunctionCallIn(_Item):
    """A call that an earlier response asked for."""

    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1, max_length=512)]
    """Which call."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """The function."""
    arguments: str
    """A JSON object as text."""


class FunctionCallOutputIn(_Item):
    """What came of a function call: the client has run it."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1, max_length=512)]
    """Which call."""
    output: InputContent
    """Text, or parts."""


class ReasoningIn(_Item):
    """Reasoning of an earlier response. Accepted; the model is not given it back."""

    type: Literal["reasoning"]
    summary: list[JsonObject] = Field(default_factory=list[JsonObject])
    """As it was answered."""
    content: list[JsonObject] = Field(default_factory=list[JsonObject])
    """As it was answered."""
    encrypted_content: str | None = None
    """As it was answered."""


class McpCallIn(_Item):
    """A call that Runward ran in an earlier response."""

    type: Literal["mcp_call"]
    server_label: str
    """As it was answered."""
    name: Annotated[str, Field(min_length=1, max_length=128)]
    """The tool."""
    arguments: str
    """A JSON object as text."""
    output: str | None = None
    """Its result."""
    error: JsonValue = None
    """Why it failed."""
    approval_request_id: str | None = None
    """As it was answered."""


class McpApprovalRequestIn(_Item):
    """A question of an earlier response. Accepted; what came of it is in the call."""

    type: Literal["mcp_approval_request"]
    server_label: str
    """As it was answered."""
    name: str
    """The tool."""
    arguments: str
    """A JSON object as text."""


class McpApprovalResponseIn(_Item):
    """A decision about a call that waits for one; needs the scope `approvals:decide`."""

    type: Literal["mcp_approval_response"]
    approval_request_id: Annotated[str, Field(max_length=64)]
    """The id of the `mcp_approval_request`: Runward's `apr_…`."""
    approve: bool
    """Whether the call may be made."""
    reason: Annotated[str, Field(max_length=4096)] | None = None
    """For the model, where it may not."""


class CompactionIn(_Item):
    """A conversation that POST /v1/responses/compact sealed."""

    type: Literal["compaction"]
    encrypted_content: str
    """As it was answered."""
    created_by: str | None = None
    """As it was answered."""


ItemIn: TypeAlias = Annotated[
    Annotated[MessageIn, Tag("message")]
    | Annotated[FunctionCallIn, Tag("function_call")]
    | Annotated[FunctionCallOutputIn, Tag("function_call_output")]
    | Annotated[ReasoningIn, Tag("reasoning")]
    | Annotated[McpCallIn, Tag("mcp_call")]
    | Annotated[McpApprovalRequestIn, Tag("mcp_approval_request")]
    | Annotated[McpApprovalResponseIn, Tag("mcp_approval_response")]
    | Annotated[CompactionIn, Tag("compaction")],
    Discriminator(_get_item_type),
]
InputIn: TypeAlias = str | Annotated[list[ItemIn], Field(max_length=MAX_ITEMS)]
