"""The bodies of requests to /v1/responses, as OpenAI's clients send them. Null is "not given"."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from runward.api.http.models import with_example
from runward.api.responses.inputs import InputIn, ItemIn, OpenAIRequestModel
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolName

SERVER: Final = "runward"
"""The `server_label` of tools that Runward runs."""


class FunctionIn(OpenAIRequestModel):
    """A function that the client runs."""

    type: Literal["function"]
    name: ToolName
    """What the model calls it."""
    description: Annotated[str, Field(max_length=16_384)] = ""
    """What it does and when to use it, for the model."""
    parameters: JsonObject | None = None
    """A JSON Schema of the arguments, an object; null: it takes none."""
    strict: bool = False
    """Holds the model to the schema."""


class AllowedTools(OpenAIRequestModel):
    """Names, in an object."""

    tool_names: list[ToolName]
    """The names of registered tools."""


class RunwardToolsIn(OpenAIRequestModel):
    """Registered tools, which Runward runs: an `mcp` tool whose `server_label` is `runward`."""

    type: Literal["mcp"]
    server_label: Literal["runward"]
    allowed_tools: list[ToolName] | AllowedTools
    """The names of registered tools."""

    @property
    def names(self) -> list[str]:
        allowed = self.allowed_tools
        return allowed.tool_names if isinstance(allowed, AllowedTools) else allowed


ToolIn: TypeAlias = Annotated[FunctionIn | RunwardToolsIn, Field(discriminator="type")]


class ToolChoiceIn(OpenAIRequestModel):
    """One tool that the model must call."""

    type: Literal["function", "mcp"]
    """`function`, or `mcp` for a registered tool."""
    name: ToolName
    """Which one."""
    server_label: Literal["runward"] | None = None
    """`runward`, for a registered tool."""


class PlainText(OpenAIRequestModel):
    """Any text."""

    type: Literal["text"]


class JsonSchemaIn(OpenAIRequestModel):
    """JSON of a schema. The answer is held against it, and repaired once where it does not fit."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(max_length=64)] = ""
    """What it is called; shown again."""
    schema_: Annotated[JsonObject, Field(alias="schema")]
    """The JSON Schema."""
    description: Annotated[str, Field(max_length=4096)] | None = None
    """Shown again."""
    strict: bool | None = None
    """Shown again; the answer is always held against the schema."""


class TextConfig(OpenAIRequestModel):
    """What the answer is to be."""

    format: Annotated[PlainText | JsonSchemaIn, Field(discriminator="type")] | None = None
    """`{"type": "text"}` or `{"type": "json_schema", …}`."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """`model_settings.verbosity`."""


class ReasoningConfig(OpenAIRequestModel):
    """How much the model thinks."""

    effort: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """`model_settings.reasoning.effort`."""


class ConversationIn(OpenAIRequestModel):
    """A session, in an object."""

    id: Annotated[str, Field(max_length=64)]
    """`sess_…`."""


class StreamOptions(OpenAIRequestModel):
    """How events are streamed."""

    include_obfuscation: Literal[False] = False
    """Only false."""


class CreateResponse(OpenAIRequestModel):
    """A response: a run of a registered agent or of a model."""

    model_config = with_example(
        model="offline:rules",
        instructions="Pay what is asked for.",
        input="Please pay(amount=500)",
        tools=[{"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}],
    )

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """The name of a registered agent, or `vendor:model`."""
    input: InputIn = Field(default_factory=list[ItemIn])
    """A text, or items of a conversation."""
    instructions: Annotated[str, Field(max_length=262_144)] | None = None
    """What the model is told first. An agent has its own."""
    previous_response_id: Annotated[str, Field(max_length=64)] | None = None
    """The response that this one goes on from."""
    conversation: Annotated[str, Field(max_length=64)] | ConversationIn | None = None
    """A session, `sess_…`."""
    tools: Annotated[list[ToolIn], Field(max_length=128)] | None = None
    """Functions that the client runs, and registered tools."""
    tool_choice: Literal["auto", "none", "required"] | ToolChoiceIn | None = None
    """Whether the model may, must not or must call a tool, or which one."""
    parallel_tool_calls: bool | None = None
    """Whether the model may ask for several calls at once."""
    max_tool_calls: Annotated[int, Field(ge=0, le=200)] | None = None
    """`limits.max_tool_calls`."""
    text: TextConfig | None = None
    """What the answer is to be."""
    reasoning: ReasoningConfig | None = None
    """How much the model thinks."""
    temperature: float | None = None
    """`model_settings.temperature`."""
    top_p: float | None = None
    """`model_settings.top_p`."""
    presence_penalty: float | None = None
    """`model_settings.presence_penalty`."""
    frequency_penalty: float | None = None
    """`model_settings.frequency_penalty`."""
    max_output_tokens: int | None = None
    """`model_settings.max_output_tokens`, of one answer of the model."""
    user: str | None = None
    """`model_settings.user`."""
    safety_identifier: str | None = None
    """`model_settings.safety_identifier`."""
    prompt_cache_key: str | None = None
    """`model_settings.prompt_cache_key`."""
    service_tier: str | None = None
    """`model_settings.service_tier`; `auto` and `default` are not passed on."""
    metadata: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
        Field(max_length=16),
    ] = Field(default_factory=dict[str, str])
    """The caller's own notes, shown again with the response and the run."""
    stream: bool = False
    """Answer with events."""
    background: bool = False
    """Answer at once, while the run goes on."""
    store: bool = True
    """Only true: a run is stored."""
    truncation: Literal["auto", "disabled"] = "disabled"
    """Only `disabled`."""
    include: list[str] = Field(default_factory=list[str])
    """Only empty."""
    top_logprobs: int = 0
    """Only 0."""
    stream_options: StreamOptions = StreamOptions()
    """How events are streamed."""


class CompactResponse(OpenAIRequestModel):
    """A conversation that is to be sealed."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """The name of a registered agent, or `vendor:model`."""
    input: InputIn = Field(default_factory=list[ItemIn])
    """A text, or items of a conversation."""
    previous_response_id: Annotated[str, Field(max_length=64)] | None = None
    """The response whose conversation comes first."""
    prompt_cache_key: str | None = None
    """Accepted; nothing is cached."""
