"""The request bodies of /v1/responses, as OpenAI's clients send them. Null has the same meaning as
a missing field."""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from runward.api.http.models import with_example
from runward.api.registry.namespaces import MAX_FUNCTIONS, NamespaceDescription
from runward.api.responses.inputs import InputIn, OpenAIRequestModel, ResponseInputItem
from runward.domain.json import JsonObject
from runward.domain.registry.tools import ToolName

Includable: TypeAlias = Literal[
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "web_search_call.action.sources",
    "web_search_call.results",
]
"""Additional output data that OpenAI's clients can request."""
SERVER: Final = "runward"
"""The `server_label` of tools that Runward runs."""


class ClientFunction(OpenAIRequestModel):
    """A function that the client runs."""

    name: ToolName
    """Name of the function. The model uses this name to call the function."""
    description: Annotated[str, Field(max_length=16_384)] = ""
    """Description of the function for the model: what the function does and when to use it."""
    parameters: JsonObject | None = None
    """JSON Schema of the arguments. Its type must be `object`. Null: the function has no
    arguments."""
    strict: bool = False
    """Whether the model must follow the schema exactly."""


class ResponseFunctionTool(ClientFunction):
    """A function that the client runs."""

    type: Literal["function"]
    defer_loading: bool = False
    """Whether the model sees the function only after it has found it with `search_tools`."""


class ResponseNamespaceTool(OpenAIRequestModel):
    """A group of functions that the client runs. The model calls the function `find` of the
    namespace `crm` as `crm_find`. In the response, the `name` of the call is `find` and its
    `namespace` is `crm`."""

    type: Literal["namespace"]
    name: ToolName
    """Name of the namespace."""
    description: NamespaceDescription = ""
    """Description of the namespace. The descriptions that the model reads begin with it."""
    tools: Annotated[list[ResponseFunctionTool], Field(min_length=1, max_length=MAX_FUNCTIONS)]
    """Functions of the namespace."""


class AllowedTools(OpenAIRequestModel):
    """The registered tools that the model may call."""

    tool_names: list[ToolName]
    """Names of registered tools."""


class ResponseMcpTool(OpenAIRequestModel):
    """A set of registered tools. Runward runs them."""

    type: Literal["mcp"]
    server_label: Literal["runward"]
    allowed_tools: list[ToolName] | AllowedTools
    """Names of the registered tools that the model may call."""
    server_url: Literal["runward"] | None = None
    """Address of the server, for clients that require one. It must be `runward`."""
    require_approval: Literal["never"] | None = None
    """Whether the request requires approvals. Runward accepts only `never`. The setting `approval`
    of each tool determines whether its calls require approval."""

    @property
    def names(self) -> list[str]:
        allowed = self.allowed_tools
        return allowed.tool_names if isinstance(allowed, AllowedTools) else allowed


ResponseTool: TypeAlias = Annotated[
    ResponseFunctionTool | ResponseNamespaceTool | ResponseMcpTool, Field(discriminator="type")
]


class ResponseToolChoice(OpenAIRequestModel):
    """The tool that the model must call."""

    type: Literal["function", "mcp"]
    """Kind of the tool: `function` for a client's function, `mcp` for a registered tool."""
    name: ToolName
    """Name of the tool."""
    server_label: Literal["runward"] | None = None
    """`runward` for a registered tool. Null for a function."""


class ResponseFormatText(OpenAIRequestModel):
    """Output format without a schema."""

    type: Literal["text"]


class ResponseFormatJsonSchema(OpenAIRequestModel):
    """Output format with a schema. If the output does not match the schema, the model may correct
    the output once."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(max_length=64)] = ""
    """Name of the schema. Runward returns the name unchanged and does not use it."""
    schema_: Annotated[JsonObject, Field(alias="schema")]
    """JSON Schema that the output must match."""
    description: Annotated[str, Field(max_length=4096)] | None = None
    """Description of the schema. Runward returns the description unchanged and does not use it."""
    strict: bool | None = None
    """Value that Runward returns unchanged. Runward always validates the output against the
    schema."""


class ResponseFormatJsonObject(OpenAIRequestModel):
    """Output format that can be any JSON object."""

    type: Literal["json_object"]


ResponseFormat: TypeAlias = Annotated[
    ResponseFormatText | ResponseFormatJsonObject | ResponseFormatJsonSchema,
    Field(discriminator="type"),
]


class ResponseTextConfig(OpenAIRequestModel):
    """Settings of the model's text output, such as its format."""

    format: ResponseFormat | None = None
    """Format of the output: `{"type": "text"}`, `{"type": "json_schema", …}` or
    `{"type": "json_object"}`. Null: text. A schema is not allowed if `model` is an agent with its
    own output schema."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """How detailed the model's answer should be. Sets `model_settings.verbosity`. Null: the
    provider's default."""


class ReasoningConfig(OpenAIRequestModel):
    """Settings of the model's reasoning, such as its effort."""

    effort: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Amount of reasoning. Sets `model_settings.reasoning.effort`. Null: the provider's default."""
    summary: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Detail of the summary of the reasoning, such as `auto`. Sets
    `model_settings.reasoning.summary`. Null: no summary."""


class ResponseConversation(OpenAIRequestModel):
    """A conversation or a session, as an object."""

    id: Annotated[str, Field(max_length=64)]
    """ID of the conversation (`conv_…`) or the session (`sess_…`)."""


class StreamOptions(OpenAIRequestModel):
    """Options of the event stream."""

    include_obfuscation: Literal[False] = False
    """Whether events have random padding. Runward supports only false."""


class _ResponseInput(OpenAIRequestModel):
    """The parameters of a response that determine what its model reads."""

    input: InputIn = Field(default_factory=list[ResponseInputItem])
    """Input of the response: a string, or items of a conversation."""
    instructions: Annotated[str, Field(max_length=262_144)] | None = None
    """Instructions that the model reads before the input. If `model` is a registered agent, they
    follow the agent's instructions."""
    previous_response_id: Annotated[str, Field(max_length=64)] | None = None
    """ID of the response to continue. Null: Runward starts a new conversation."""
    conversation: Annotated[str, Field(max_length=64)] | ResponseConversation | None = None
    """Conversation or session of the response: its ID (`conv_…` or `sess_…`), or an object with the
    ID. Null: the response belongs to none."""
    tools: Annotated[list[ResponseTool], Field(max_length=128)] | None = None
    """Functions that the client runs, and registered tools that Runward runs."""
    tool_choice: Literal["auto", "none", "required"] | ResponseToolChoice | None = None
    """Whether the model may (`auto`), must not (`none`), or must (`required`) call a tool. An
    object names the tool that the model must call."""
    parallel_tool_calls: bool | None = None
    """Whether the model may request several tool calls in one turn."""
    text: ResponseTextConfig | None = None
    """Settings of the model's text output, such as its format."""
    reasoning: ReasoningConfig | None = None
    """Settings of the model's reasoning, such as its effort."""
    truncation: Literal["auto", "disabled"] = "disabled"
    """What happens if the input exceeds the model's context window. `auto`: Runward drops the
    oldest items. `disabled`: the model's provider refuses the request, and the run fails."""


class CountInputTokens(_ResponseInput):
    """A request for a response. Runward counts its input tokens."""

    model_config = with_example(model="offline:rules", input="Please pay(amount=500)")

    model: Annotated[str, Field(max_length=256)] = ""
    """Name of a registered agent, or a model as `provider:model`. For an agent, Runward also counts
    its instructions and tools. Empty: Runward counts only the parameters of the request."""


class CreateResponse(_ResponseInput):
    """A response to create: a run of a registered agent or of a model."""

    model_config = with_example(
        model="offline:rules",
        instructions="Pay what is asked for.",
        input="Please pay(amount=500)",
        tools=[{"type": "mcp", "server_label": "runward", "allowed_tools": ["pay"]}],
    )

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of a registered agent, or a model as `provider:model`."""
    max_tool_calls: Annotated[int, Field(ge=0, le=200)] | None = None
    """Maximum number of tool calls. Sets `limits.max_tool_calls`. Null: the default of
    `limits.max_tool_calls`."""
    temperature: float | None = None
    """Sampling temperature. Sets `model_settings.temperature`. Null: the provider's default."""
    top_p: float | None = None
    """Nucleus sampling probability. Sets `model_settings.top_p`. Null: the provider's default."""
    presence_penalty: float | None = None
    """Presence penalty. Sets `model_settings.presence_penalty`. Null: the provider's default."""
    frequency_penalty: float | None = None
    """Frequency penalty. Sets `model_settings.frequency_penalty`. Null: the provider's default."""
    max_output_tokens: int | None = None
    """Maximum number of output tokens in each turn. Sets `model_settings.max_output_tokens`. Null:
    the provider's default."""
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
    metadata: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[str, Field(max_length=512)]],
        Field(max_length=16),
    ] = Field(default_factory=dict[str, str])
    """Custom metadata of the response and its run: up to 16 keys of at most 64 characters,
    with string values of at most 512 characters."""
    stream: bool = False
    """Whether to return a stream of events instead of one JSON object."""
    background: bool = False
    """Whether to respond immediately, before the run has ended."""
    store: bool = True
    """Whether to store the response. If false, nobody can retrieve the response, and Runward erases
    its content after it has ended. The run's ID, agent, model, status, times, usage and cost are
    kept. Not allowed together with `background` or `conversation`."""
    include: Annotated[list[Includable], Field(max_length=16)] = Field(
        default_factory=list[Includable]
    )
    """Additional output data. `reasoning.encrypted_content` adds the encrypted reasoning. Runward
    accepts the other values but has no such data."""
    top_logprobs: int = 0
    """Number of log probabilities. Runward supports only 0."""
    stream_options: StreamOptions = StreamOptions()
    """Options of the event stream."""


class CompactResponse(OpenAIRequestModel):
    """A conversation to compact."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    """Name of a registered agent, or a model as `provider:model`."""
    input: InputIn = Field(default_factory=list[ResponseInputItem])
    """Conversation to compact: a string, or items of a conversation."""
    previous_response_id: Annotated[str, Field(max_length=64)] | None = None
    """ID of a response. Runward compacts its conversation together with the input. Null: Runward
    compacts only the input."""
    prompt_cache_key: str | None = None
    """Key for the provider's prompt cache. Accepted but ignored."""
