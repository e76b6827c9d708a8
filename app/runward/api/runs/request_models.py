"""The bodies of requests about runs."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from runward.api.http.models import Metadata, RequestModel, with_example
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolName
from runward.domain.run.config import AgentFields, ModelNames
from runward.domain.run.items import MediaPart, Message, Part, TextPart
from runward.domain.run.resolve import Answer, CallbackCompleted, CallbackFailed

MAX_ITEMS = 1000

Url = Annotated[str, Field(max_length=2048, pattern=r"^https?://\S+$")]


class InputText(RequestModel):
    """Text."""

    type: Literal["text"]
    text: str
    """The text itself."""

    def to_part(self) -> Part:
        return TextPart(self.text)


class _MediaInput(RequestModel):
    url: Url | None = None
    """Where the model's vendor fetches it from; Runward does not."""
    data: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9+/]+={0,2}$")] | None = None
    """The content itself in base64, with its `media_type`."""
    media_type: Annotated[str, Field(max_length=128, pattern=r"^[\w.+-]+/[\w.+-]+$")] | None = None
    """For instance `image/png`."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.url is None) == (self.data is None):
            raise ValueError("must have either url or data")
        if self.data is not None and self.media_type is None:
            raise ValueError("must have media_type beside data")
        return self


class InputImage(_MediaInput):
    """An image, by its address or inline."""

    type: Literal["image"]

    def to_part(self) -> Part:
        return MediaPart("image", self.url, self.data, self.media_type)


class InputFile(_MediaInput):
    """A file, by its address or inline."""

    type: Literal["file"]
    filename: Annotated[str, Field(max_length=255)] | None = None
    """What the model is told that it is called."""

    def to_part(self) -> Part:
        return MediaPart("file", self.url, self.data, self.media_type, self.filename)


InputPart: TypeAlias = Annotated[InputText | InputImage | InputFile, Field(discriminator="type")]


class InputMessage(RequestModel):
    """One message of the conversation so far."""

    role: Literal["user", "assistant", "system"]
    """Who said it."""
    content: str | Annotated[tuple[InputPart, ...], Field(min_length=1, max_length=256)]
    """Text, or parts: text, images, files."""

    def to_message(self) -> Message:
        if isinstance(self.content, str):
            return Message(self.role, self.content)
        return Message(self.role, tuple(part.to_part() for part in self.content))


Input: TypeAlias = (
    str | Annotated[tuple[InputMessage, ...], Field(min_length=1, max_length=MAX_ITEMS)]
)


def build_messages(value: Input) -> tuple[Message, ...]:
    if isinstance(value, str):
        return (Message("user", value),)
    return tuple(message.to_message() for message in value)


_RUN_FIELDS = {
    "agent",
    "input",
    "context",
    "limits",
    "metadata",
    "session_id",
    "on_conflict",
}
"""What may stand beside `agent`; all else belongs to the agent."""


class _RunFields(RequestModel):
    """The fields that come first in openapi.json; `AgentFields` describes the last two."""

    input: Input
    """What the run is about: a text, or messages of a conversation so far."""
    agent: ToolName | None = None
    """The name of a registered agent. Then the agent's own fields cannot stand beside it."""
    model: ModelNames | None = None
    instructions: str = ""


class StartRun(AgentFields, _RunFields):
    """A run: either a registered `agent`, or a `model` with everything else inline."""

    model_config = with_example(
        model="offline:rules",
        instructions="Pay what is asked for.",
        input="Please pay(amount=500)",
        tools=["pay"],
        limits={"max_turns": 5},
        metadata={"order": "A-1017"},
    )

    session_id: Annotated[str, Field(max_length=64)] | None = None
    """The session that the run belongs to: it sees what was said there before."""
    on_conflict: Literal["queue", "reject", "cancel_previous"] | None = None
    """What happens while another run of the session is open; null: as the session says."""
    context: JsonObject | None = None
    """For rules and tools; the model never sees it."""
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    """The caller's own notes, shown again with the run: up to 64 keys and 16 KiB."""

    @model_validator(mode="after")
    def _check_agent_or_model(self) -> Self:
        if (self.agent is None) == (self.model is None and self.kind == "llm"):
            raise ValueError("must have either agent or model")
        own = self.model_fields_set - _RUN_FIELDS - {"model"}
        if self.agent is not None and own:
            raise ValueError(f"{min(own)} belongs to the agent and cannot stand beside it")
        return self

    def to_messages(self) -> tuple[Message, ...]:
        return build_messages(self.input)


class SendInput(RequestModel):
    """Another message for an open run."""

    model_config = with_example(input="And send me the receipt.")

    input: Input
    """A text, or messages. The model sees them with its next turn; while calls have no result
    yet, they wait."""


class ContinueRun(RequestModel):
    """How a run that was stopped by a limit goes on."""

    model_config = with_example(max_turns=5)

    max_turns: Annotated[int, Field(ge=1, le=50)] | None = None
    """Model calls that are added; null: as many as the run had."""
    input: Input | None = None
    """What is said before it goes on."""


class CancelRun(RequestModel):
    """How to cancel; without a body, `immediate`."""

    mode: Literal["immediate", "after_turn"] = "immediate"
    """`immediate` ends the run before the answer; calls in flight are recorded as such.
    `after_turn` lets the model's current answer and the calls that have started finish."""


class ClientResult(RequestModel):
    """The result of a tool that the client runs, or the answer to what a tool asks: `output` or
    `error`."""

    model_config = with_example(output={"temperature": 21.5})

    output: JsonValue = None
    """Any JSON, null included; the model reads text as it is, all else as JSON."""
    error: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """What went wrong, for the model."""

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if ("output" in self.model_fields_set) == (self.error is not None):
            raise ValueError("must have either output or error")
        return self

    def to_answer(self) -> Answer:
        if self.error is not None:
            return CallbackFailed(status="failed", message=self.error)
        return CallbackCompleted(status="completed", output=self.output)
