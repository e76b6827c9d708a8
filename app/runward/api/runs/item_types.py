"""The items of a conversation in responses, for openapi.json. These types have no instances at run
time."""

from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.domain.json import JsonObject, documented
from runward.domain.run.items import MessageRole


@documented
class ItemText(TypedDict):
    """A text part of a message or a result."""

    type: Literal["text"]
    text: str
    """Text of the part."""


@documented
class ItemImage(TypedDict):
    """An image, as a URL or as base64 data."""

    type: Literal["image"]
    url: NotRequired[str]
    """URL of the image. Missing if the image is in `data`."""
    data: NotRequired[str]
    """The image in base64. Missing if the image has a `url`."""
    media_type: NotRequired[str]
    """Media type of the image, such as `image/png`."""
    filename: NotRequired[str]
    """Name of the image file."""


@documented
class ItemFile(TypedDict):
    """A file, as a URL or as base64 data."""

    type: Literal["file"]
    url: NotRequired[str]
    """URL of the file. Missing if the file is in `data`."""
    data: NotRequired[str]
    """The file in base64. Missing if the file has a `url`."""
    media_type: NotRequired[str]
    """Media type of the file, such as `application/pdf`."""
    filename: NotRequired[str]
    """Name of the file."""


ItemPart: TypeAlias = Annotated[ItemText | ItemImage | ItemFile, Field(discriminator="type")]


@documented
class ProviderData(TypedDict):
    """Provider-specific data of an item, in the provider's format."""

    provider: str
    """Name of the provider that can read the data."""
    data: JsonObject
    """Data in the provider's format, unchanged."""


@documented
class MessageItem(TypedDict):
    """A message from a user, a model, or the system."""

    type: Literal["message"]
    role: MessageRole
    """Role of the author of the message."""
    content: str | list[ItemPart]
    """Content of the message: a string, or a list of text, image, and file parts."""
    refusal: NotRequired[Literal[True]]
    """True if the message is a refusal by the model."""
    native: NotRequired[ProviderData]
    """Data of the message in the provider's format. Missing if the provider returned no such
    data."""


@documented
class ToolCallItem(TypedDict):
    """A tool call that the model requested."""

    type: Literal["tool_call"]
    call_id: str
    """ID of the tool call. Unique within its run."""
    name: str
    """Name of the tool."""
    arguments: JsonObject
    """Arguments of the call. Empty if the model's text is not a JSON object."""
    arguments_text: NotRequired[str]
    """Text that the model wrote as arguments. Set only if the text is not a JSON object."""
    native: NotRequired[ProviderData]
    """Data of the call in the provider's format. Missing if the provider returned no such data."""


@documented
class ToolResultItem(TypedDict):
    """The result of a tool call, as the model reads it."""

    type: Literal["tool_result"]
    call_id: str
    """ID of the tool call that the result belongs to."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the model reads the output as an error."""
    content: NotRequired[list[ItemPart]]
    """Parts of the result: text, images, and files. Set only if the tool returned parts."""


@documented
class ReasoningItem(TypedDict):
    """Reasoning of a model, in its provider's format."""

    type: Literal["reasoning"]
    provider: str
    """Name of the provider that can read the reasoning."""
    data: JsonObject
    """Reasoning in the provider's format, unchanged."""


@documented
class HostedCallItem(TypedDict):
    """A hosted tool call, which the model's provider ran, together with its result."""

    type: Literal["hosted_call"]
    call_id: str
    """ID of the hosted tool call, as the provider generated it."""
    name: str
    """Name of the hosted tool."""
    kind: str
    """Kind of the hosted tool. If Runward does not know the kind, this is the provider's name for
    it."""
    provider: str
    """Name of the provider that ran the tool."""
    arguments: JsonObject
    """Arguments of the call."""
    output: JsonValue
    """Output of the call: any JSON value."""
    is_error: bool
    """Whether the call failed."""
    data: JsonObject
    """The call in the provider's format, unchanged."""


Item: TypeAlias = Annotated[
    MessageItem | ToolCallItem | ToolResultItem | ReasoningItem | HostedCallItem,
    Field(discriminator="type"),
]

ITEMS: Final[tuple[Any, ...]] = (
    MessageItem,
    ToolCallItem,
    ToolResultItem,
    ReasoningItem,
    HostedCallItem,
)
"""The items in `data` of GET /v1/runs/{run_id}/items, without the fields that identify the item and
its agent."""
