"""The bodies of requests about runs."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, model_validator

from runward.api.http.models import Metadata, RequestModel, with_example
from runward.domain.json import JsonObject
from runward.domain.registry.guards import Guardrails, Hooks
from runward.domain.registry.tools import ToolName
from runward.domain.run.config import (
    MAX_TOOLS,
    AgentConfig,
    AgentKind,
    History,
    Limits,
    ModelName,
    OnMaxTurns,
    ToolChoice,
    ToolUseBehavior,
)
from runward.domain.run.items import MediaPart, Message, Part, TextPart
from runward.domain.run.resolve import Answer, CallbackCompleted, CallbackFailed

MAX_ITEMS = 1000

Url = Annotated[str, Field(max_length=2048, pattern=r"^https?://\S+$")]


class InputText(RequestModel):
    """Text."""

    type: Literal["text"]
    """`text`."""
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
    """`image`."""

    def to_part(self) -> Part:
        return MediaPart("image", self.url, self.data, self.media_type)


class InputFile(_MediaInput):
    """A file, by its address or inline."""

    type: Literal["file"]
    """`file`."""
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


class StartRun(RequestModel):
    """A run: either a registered `agent`, or a `model` with everything else inline."""

    model_config = ConfigDict(
        json_schema_extra=with_example(
            model="offline:rules",
            instructions="Pay what is asked for.",
            input="Please pay(amount=500)",
            tools=["pay"],
            limits={"max_turns": 5},
            metadata={"order": "A-1017"},
        )
    )

    input: Input
    """What the run is about: a text, or messages of a conversation so far."""
    agent: ToolName | None = None
    """The name of a registered agent. Then the agent's own fields cannot stand beside it."""
    model: (
        ModelName | Annotated[tuple[ModelName, ...], Field(min_length=1, max_length=8)] | None
    ) = None
    """`vendor:model`, such as `openai:gpt-5.2` or `offline:rules`; or several, tried in order when
    the first cannot answer."""
    instructions: Annotated[str, Field(max_length=262_144)] = ""
    """What the model is told first, before the input."""
    kind: AgentKind = "llm"
    """`llm` asks the model; `sequential`, `parallel` and `loop` run `agents` instead, and have no
    model."""
    tools: Annotated[tuple[ToolName, ...], Field(max_length=MAX_TOOLS)] = ()
    """The names of registered tools that the model may call. Of more than 64 it is shown a search
    over them."""
    handoffs: Annotated[tuple[ToolName, ...], Field(max_length=16)] = ()
    """The names of agents that may take the run over: a tool `transfer_to_NAME` for each."""
    agents: Annotated[tuple[ToolName, ...], Field(max_length=32)] = ()
    """Of a workflow: the names of the agents that it runs, in order."""
    max_iterations: Annotated[int, Field(ge=1, le=100)] = 10
    """Of a loop: how often it runs its agents at most."""
    tool_choice: ToolChoice = "auto"
    """Whether the model may, must not or must call a tool, or which one: `auto`, `none`,
    `required` or `{"name": …}`."""
    reset_tool_choice: bool = True
    """After the first tool call `tool_choice` becomes `auto`, so that the model can end."""
    parallel_tool_calls: bool = True
    """Whether the model may ask for several calls at once."""
    model_settings: Annotated[dict[str, JsonValue], Field(max_length=64)] = Field(
        default_factory=dict[str, JsonValue]
    )
    """What the model's vendor understands: `temperature`, `max_output_tokens`, `reasoning` …"""
    output_schema: JsonObject | None = None
    """A JSON Schema that the final output must match; it is then in `output_parsed`."""
    repair_attempts: Annotated[int, Field(ge=0, le=5)] = 1
    """How often the model is told what is wrong with its output before the run ends
    `incomplete`."""
    tool_use_behavior: ToolUseBehavior = "run_llm_again"
    """Whether the model sees every result, or the result of the first tool, or of one in
    `stop_at`, is the run's output."""
    on_unknown_tool: Literal["return_error", "fail_run"] = "return_error"
    """What a call of a tool that is not there does."""
    on_max_turns: OnMaxTurns = "incomplete"
    """What happens at `limits.max_turns`: end `incomplete`, ask the model for one last answer
    without tools, end `failed`, or end `completed` with a fixed output."""
    limits: Limits = Limits()
    """What the run may use over its whole life."""
    hooks: Hooks = ()
    """What is asked before or after each model call and each tool call."""
    guardrails: Guardrails = ()
    """What checks the run's input, its calls and its final output."""
    history: History = History()
    """What of the session's earlier runs the model is shown."""
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

    def to_config(self) -> AgentConfig:
        """Of an inline run, one that names a model."""
        fields = self.model_fields_set & AgentConfig.model_fields.keys()
        return AgentConfig.model_construct(None, **{name: getattr(self, name) for name in fields})

    def to_messages(self) -> tuple[Message, ...]:
        return build_messages(self.input)


class SendInput(RequestModel):
    """Another message for an open run."""

    model_config = ConfigDict(json_schema_extra=with_example(input="And send me the receipt."))

    input: Input
    """A text, or messages. The model sees them with its next turn; while calls have no result
    yet, they wait."""


class ContinueRun(RequestModel):
    """How a run that was stopped by a limit goes on."""

    model_config = ConfigDict(json_schema_extra=with_example(max_turns=5))

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

    model_config = ConfigDict(json_schema_extra=with_example(output={"temperature": 21.5}))

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
