"""Request and response models of /v1/conversations, in OpenAI's format."""

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field

from runward.api.http.models import ConversationPage, ResponseModel, with_example
from runward.api.responses.inputs import OpenAIRequestModel, ResponseInputItem
from runward.domain.ids import Prefix, format_id
from runward.domain.json import JsonObject, as_text
from runward.store.runs.sessions import StoredSession

CONVERSATION_ID: Final = "conv_019a5f1e7a4d7e209c3b5d7f9a1c3e5d"
ITEM_EXAMPLE: Final[JsonObject] = {
    "id": "msg_019a5f1e7a4d7e209c3b5d7f9a1c3e5d_1_1",
    "type": "message",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_text", "text": "Where is my order A-1017?"}],
}

OpenAIMetadata: TypeAlias = Annotated[
    dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
    Field(max_length=16),
]
NewItems: TypeAlias = Annotated[list[ResponseInputItem], Field(max_length=20)]


class CreateConversation(OpenAIRequestModel):
    """A conversation to create."""

    model_config = with_example(
        metadata={"customer": "c-7"},
        items=[{"type": "message", "role": "user", "content": "I am Alice."}],
    )

    items: NewItems = Field(default_factory=list[ResponseInputItem])
    """First items of the conversation, at most 20."""
    metadata: OpenAIMetadata = Field(default_factory=dict[str, str])
    """Custom metadata: up to 16 keys of 64 characters, and text values of 512 characters."""


class UpdateConversation(OpenAIRequestModel):
    """The metadata of a conversation to replace."""

    model_config = with_example(metadata={"customer": "c-8"})

    metadata: OpenAIMetadata
    """Custom metadata. It replaces the previous metadata completely."""


class CreateConversationItems(OpenAIRequestModel):
    """Items to append to a conversation."""

    model_config = with_example(
        items=[{"type": "message", "role": "user", "content": "I am Alice."}]
    )

    items: NewItems
    """Items to append, at most 20."""


class Conversation(ResponseModel):
    """A session, in OpenAI's format."""

    model_config = with_example(
        id=CONVERSATION_ID, created_at=1793610600, metadata={"customer": "c-7"}
    )

    id: str
    """ID of the conversation. It contains the digits of the session's ID."""
    object: Literal["conversation"] = "conversation"
    created_at: int
    """When the conversation was created, as a Unix timestamp in seconds."""
    metadata: dict[str, str]
    """Custom metadata of the conversation."""

    @classmethod
    def from_row(cls, session: StoredSession) -> Self:
        return cls(
            id=format_id(Prefix.CONVERSATION, session.id),
            created_at=int(session.created_at.timestamp()),
            metadata={name: as_text(value) for name, value in session.metadata.items()},
        )


class DeletedConversation(ResponseModel):
    """A deleted conversation."""

    model_config = with_example(id=CONVERSATION_ID)

    id: str
    """ID of the conversation."""
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: Literal[True] = True
    """Always true."""


class ConversationItemList(ConversationPage):
    """Items of a conversation."""

    model_config = with_example(
        data=[ITEM_EXAMPLE], first_id=ITEM_EXAMPLE["id"], last_id=ITEM_EXAMPLE["id"], has_more=False
    )

    data: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Items in the requested order."""
