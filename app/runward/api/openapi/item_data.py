"""The items of a conversation as answers show them, for openapi.json: types alone, of which
nothing is made at run time."""

from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import Field, JsonValue
from typing_extensions import TypedDict

from runward.domain.json import JsonObject, documented
from runward.domain.run.items import Role


@documented
class ShownText(TypedDict):
    """Text."""

    type: Literal["text"]
    text: str
    """The text itself."""


@documented
class ShownImage(TypedDict):
    """An image, by its address or inline."""

    type: Literal["image"]
    url: NotRequired[str]
    """Where it is."""
    data: NotRequired[str]
    """The content itself, in base64."""
    media_type: NotRequired[str]
    """For instance `image/png`."""
    filename: NotRequired[str]
    """What it is called."""


@documented
class ShownFile(TypedDict):
    """A file, by its address or inline."""

    type: Literal["file"]
    url: NotRequired[str]
    """Where it is."""
    data: NotRequired[str]
    """The content itself, in base64."""
    media_type: NotRequired[str]
    """For instance `application/pdf`."""
    filename: NotRequired[str]
    """What it is called."""


ShownPart: TypeAlias = Annotated[ShownText | ShownImage | ShownFile, Field(discriminator="type")]


@documented
class NativePart(TypedDict):
    """What a vendor said beside the neutral part of an item, in its own format."""

    vendor: str
    """The only one that understands it."""
    data: JsonObject
    """As it was said."""


@documented
class MessageItem(TypedDict):
    """A message. It is the one item without a `type`."""

    role: Role
    """Who said it."""
    content: str | list[ShownPart]
    """Text, or parts: text, images, files."""
    refusal: NotRequired[Literal[True]]
    """It is the model's refusal."""
    native: NotRequired[NativePart]
    """What only one vendor understands of it."""


@documented
class ToolCallItem(TypedDict):
    """A call that the model asked for."""

    type: Literal["tool_call"]
    call_id: str
    """The call's id in its run."""
    name: str
    """Its tool."""
    arguments: JsonObject
    """Its arguments; empty where the model wrote no JSON object."""
    arguments_text: NotRequired[str]
    """What the model wrote, where it was no JSON object."""
    native: NotRequired[NativePart]
    """What only one vendor understands of it."""


@documented
class ToolResultItem(TypedDict):
    """What the model reads of a call's result."""

    type: Literal["tool_result"]
    call_id: str
    """Of which call."""
    output: JsonValue
    """The result."""
    is_error: bool
    """Whether the model is told that it failed."""
    content: NotRequired[list[ShownPart]]
    """Of a result of parts: text, images, files."""


@documented
class ReasoningItem(TypedDict):
    """A vendor's reasoning."""

    type: Literal["reasoning"]
    vendor: str
    """The only one that understands it."""
    data: JsonObject
    """As it was said."""


@documented
class HostedCallItem(TypedDict):
    """A call of a tool that the vendor ran by itself, with its result."""

    type: Literal["hosted_call"]
    call_id: str
    """The vendor's id of it."""
    name: str
    """Its tool."""
    kind: str
    """The kind of its tool, or what the vendor calls it."""
    vendor: str
    """Who ran it."""
    arguments: JsonObject
    """What it was called with."""
    output: JsonValue
    """What came of it."""
    is_error: bool
    """Whether it failed."""
    data: JsonObject
    """The vendor's own item."""


ITEMS: Final[tuple[Any, ...]] = (
    MessageItem,
    ToolCallItem,
    ToolResultItem,
    ReasoningItem,
    HostedCallItem,
)
"""What GET /v1/runs/{run_id}/items has in its `data`, without what says whose an item is."""
