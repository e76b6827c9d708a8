"""The request body of /v1/chat/completions, as OpenAI's clients send it. Null has the same meaning
as a missing field."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from runward.api.http.models import RequestModel, with_example
from runward.api.registry.agent_fields import NestedFunctionToolChoice
from runward.api.responses.inputs import OpenAIRequestModel
from runward.api.responses.models import (
    ClientFunction,
    ResponseFormatJsonObject,
    ResponseFormatText,
    ResponseMcpTool,
)
from runward.api.runs.input_models import InputMessages
from runward.domain.json import JsonObject


class CompletionFunction(ClientFunction):
    """A function that the client runs."""


class CompletionFunctionTool(OpenAIRequestModel):
    """A function that the client runs."""

    type: Literal["function"]
    function: CompletionFunction
    """The function: its name, its description, and its parameters."""


CompletionTool: TypeAlias = Annotated[
    CompletionFunctionTool | ResponseMcpTool, Field(discriminator="type")
]


class CompletionJsonSchema(OpenAIRequestModel):
    """A named JSON Schema."""

    name: Annotated[str, Field(max_length=64)] = ""
    """Name of the schema. Accepted but ignored."""
    description: Annotated[str, Field(max_length=4096)] | None = None
    """Description of the schema. Accepted but ignored."""
    schema_: Annotated[JsonObject, Field(alias="schema")]
    """JSON Schema that the output must match."""
    strict: bool | None = None
    """Accepted but ignored. Runward always validates the output against the schema."""


class CompletionFormatJsonSchema(OpenAIRequestModel):
    """Output format with a schema. If the output does not match the schema, the model may correct
    the output once."""

    type: Literal["json_schema"]
    json_schema: CompletionJsonSchema
    """The schema and its name."""


CompletionFormat: TypeAlias = Annotated[
    ResponseFormatText | ResponseFormatJsonObject | CompletionFormatJsonSchema,
    Field(discriminator="type"),
]


class CompletionStreamOptions(OpenAIRequestModel):
    """Options of the stream."""

    include_usage: bool = False
    """Whether the last chunk of the stream contains the usage."""
    include_obfuscation: Literal[False] = False
    """Whether chunks have random padding. Runward supports only false."""


class CreateChatCompletion(RequestModel):
    """A chat completion to create: a run of a registered agent or of a model."""

    model_config = with_example(
        model="offline:rules",
        messages=[
            {"role": "system", "content": "Pay what is asked for."},
            {"role": "user", "content": "Please pay(amount=500)"},
        ],
        tools=[{"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}],
    )

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of a registered agent, or a model as `provider:model`."""
    messages: InputMessages
    """Messages of the conversation. Runward does not run the tool calls in these messages. Each of
    them must have a result, which is a later message of the role `tool`."""
    tools: Annotated[list[CompletionTool], Field(max_length=128)] | None = None
    """Functions that the client runs, and registered tools that Runward runs."""
    tool_choice: Literal["auto", "none", "required"] | NestedFunctionToolChoice | None = None
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call."""
    parallel_tool_calls: bool | None = None
    """Whether the model may request several tool calls in one turn."""
    response_format: CompletionFormat | None = None
    """Format of the output. Null: text. A schema is not allowed if `model` is an agent with its own
    output schema."""
    max_completion_tokens: int | None = None
    """Maximum number of output tokens in each turn. Sets `model_settings.max_output_tokens`. Null:
    the value of `max_tokens`."""
    max_tokens: int | None = None
    """Older name of `max_completion_tokens`. Null: the provider's default."""
    temperature: float | None = None
    """Sampling temperature. Sets `model_settings.temperature`. Null: the provider's default."""
    top_p: float | None = None
    """Nucleus sampling probability. Sets `model_settings.top_p`. Null: the provider's default."""
    presence_penalty: float | None = None
    """Presence penalty. Sets `model_settings.presence_penalty`. Null: the provider's default."""
    frequency_penalty: float | None = None
    """Frequency penalty. Sets `model_settings.frequency_penalty`. Null: the provider's default."""
    stop: str | list[str] | None = None
    """Texts at which the model stops. Sets `model_settings.stop`. Null: no such text."""
    seed: int | None = None
    """Seed of the sampling. Sets `model_settings.seed`. Null: no seed."""
    reasoning_effort: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Amount of reasoning. Sets `model_settings.reasoning.effort`. Null: the provider's default."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """How detailed the model's answer should be. Sets `model_settings.verbosity`. Null: the
    provider's default."""
    user: str | None = None
    """Identifier of the end user. Sets `model_settings.user`. Null: Runward sends no identifier."""
    safety_identifier: str | None = None
    """Identifier of the end user for safety checks. Sets `model_settings.safety_identifier`. Null:
    Runward sends no identifier."""
    prompt_cache_key: str | None = None
    """Key for the provider's prompt cache. Sets `model_settings.prompt_cache_key`. Null: Runward
    sends no key."""
    service_tier: str | None = None
    """Service tier of the provider. Sets `model_settings.service_tier`. Runward does not send
    `auto` and `default` to the provider. Null: the provider's default."""
    metadata: (
        Annotated[
            dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
            Field(max_length=16),
        ]
        | None
    ) = None
    """Custom metadata of the run: up to 16 keys of 64 characters, and text values of 512
    characters. Null: no metadata."""
    stream: bool | None = None
    """Whether to return a stream of chunks instead of one JSON object. Null: false."""
    stream_options: CompletionStreamOptions | None = None
    """Options of the stream. Null: the defaults."""
    n: Literal[1] | None = None
    """Number of choices. Runward supports only 1. Null: 1."""
    logprobs: Literal[False] | None = None
    """Whether to return log probabilities. Runward supports only false. Null: false."""
    top_logprobs: Literal[0] | None = None
    """Number of log probabilities. Runward supports only 0. Null: 0."""
    modalities: list[Literal["text"]] | None = None
    """Kinds of output. Runward supports only text. Null: text."""
    store: bool | None = None
    """Whether to keep the content of the completion. If false, Runward erases it after the run has
    ended. The run's ID, agent, model, status, times, usage and cost are kept. Null: true."""
