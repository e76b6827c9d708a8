"""The responses of /v1/responses, for openapi.json: OpenAI's formats."""

from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from runward.api.http.models import ConversationPage, ResponseModel, with_example
from runward.api.responses.output_types import ResponseOutputItem
from runward.domain.json import JsonObject

RESPONSE_STREAM: Final = {"$ref": "#/components/schemas/ResponseStream"}
"""The reference in openapi.json to the schema of a stream, which `runward.api.openapi.schemas`
adds."""
RESPONSE_ID = "resp_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
_EXAMPLE: dict[str, Any] = {
    "id": RESPONSE_ID,
    "created_at": 1793610600,
    "completed_at": 1793610601,
    "status": "completed",
    "model": "offline:rules",
    "previous_response_id": None,
    "instructions": None,
    "tools": [],
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "reasoning": None,
    "user": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
    "conversation": None,
    "error": None,
    "incomplete_details": None,
    "output": [],
    "usage": None,
}


class OpenAIErrorDetails(ResponseModel):
    """Details of an error, in OpenAI's format."""

    message: str
    """Description of the error, for people."""
    type: str
    """Type of the error: `invalid_request_error`, `authentication_error`, `permission_error`,
    `rate_limit_error`, or `server_error`."""
    param: str | None
    """Name of the invalid value of the request. Null if the error is not about a single value."""
    code: str | None
    """Stable error code, for programs."""


class OpenAIError(ResponseModel):
    """An error in OpenAI's format."""

    error: OpenAIErrorDetails
    """Details of the error."""


class ResponseObject(ResponseModel):
    """A response in OpenAI's format. A response ends when its run ends or waits for the client. If
    the client submits a result or a decision, the run continues with a new response."""

    model_config = with_example(**_EXAMPLE)

    id: str
    """ID of the response (`resp_…`). It contains the hexadecimal digits of the run's ID."""
    object: Literal["response"] = "response"
    created_at: int
    """When the response was created, as a Unix timestamp in seconds."""
    completed_at: int | None
    """When the response was completed, as a Unix timestamp in seconds. Null unless `status` is
    `completed`."""
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    """Status of the response. If the run waits for the client, the status is `completed`."""
    model: str
    """Name of the model or the registered agent, as in the request."""
    previous_response_id: str | None
    """ID of the response that this response continues. Null if it continues no response."""
    instructions: str | None
    """Instructions, as in the request. Null if the request has no instructions."""
    tools: list[JsonObject]
    """Functions and registered tools, as in the request."""
    tool_choice: JsonValue
    """Tool choice, as in the request."""
    truncation: Literal["auto", "disabled"]
    """Truncation of long inputs, as in the request."""
    parallel_tool_calls: bool
    """Whether the model may request several tool calls in one turn, as in the request."""
    text: JsonObject
    """Settings of the model's text output, as in the request."""
    temperature: float
    """Sampling temperature, as in the request. 1 if the request sets no temperature."""
    top_p: float
    """Nucleus sampling probability, as in the request. 1 if the request sets no probability."""
    presence_penalty: float
    """Presence penalty, as in the request. 0 if the request sets no penalty."""
    frequency_penalty: float
    """Frequency penalty, as in the request. 0 if the request sets no penalty."""
    top_logprobs: int
    """Number of log probabilities. Always 0."""
    reasoning: JsonObject | None
    """Reasoning settings, as in the request. Null if the request has no reasoning settings."""
    user: str | None
    """Identifier of the end user, as in the request. Null if the request has no identifier."""
    max_output_tokens: int | None
    """Maximum number of output tokens in each turn, as in the request. Null: the provider's
    default."""
    max_tool_calls: int | None
    """Maximum number of tool calls, as in the request. Null: the default of
    `limits.max_tool_calls`."""
    store: bool
    """Whether the response is stored. Always true."""
    background: bool
    """Whether the request that started the run set `background`."""
    service_tier: str
    """Service tier, as in the request. `default` if the request sets no tier."""
    metadata: dict[str, str]
    """Custom metadata of the run."""
    safety_identifier: str | None
    """Identifier of the end user for safety checks, as in the request. Null if the request has no
    identifier."""
    prompt_cache_key: str | None
    """Key for the provider's prompt cache, as in the request. Null if the request has no key."""
    conversation: JsonObject | None
    """Conversation or session of the response, as `{"id": "conv_…"}` or `{"id": "sess_…"}`. Null if
    the response belongs to none."""
    error: JsonObject | None
    """Error of a failed response, with `code` and `message`. Null for other responses."""
    incomplete_details: JsonObject | None
    """Why the response is incomplete: `reason` in OpenAI's format, and Runward's own `code` and
    `message`. Null for other responses."""
    output: list[ResponseOutputItem]
    """Messages, reasoning, and calls of the response, in order."""
    usage: JsonObject | None
    """Number of tokens that the response used. Null until the response has ended."""


class ResponseInputItemList(ConversationPage):
    """The input items of a response."""

    model_config = with_example(
        data=[
            {
                "id": "msg_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
                "type": "message",
                "role": "user",
                "status": "completed",
                "content": [{"type": "input_text", "text": "Please pay(amount=500)"}],
            }
        ],
        first_id="msg_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
        last_id="msg_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57_1",
        has_more=False,
    )

    data: list[JsonObject] = Field(default_factory=list[JsonObject])
    """Input items in the requested order."""


class DeletedResponse(ResponseModel):
    """A deleted response."""

    model_config = with_example(id="resp_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57")

    id: str
    """ID of the response."""
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
    """Always true."""


class Compaction(ResponseModel):
    """A compacted conversation."""

    model_config = with_example(
        id="cmp_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57",
        created_at=1793610600,
        output=[
            {
                "type": "compaction",
                "id": "cmp_019a5f1e7d3c7b0e9a4f2c6d8e1b3a57",
                "encrypted_content": "…",
            }
        ],
        usage={"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    )

    id: str
    """ID of the compaction (`cmp_…`)."""
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    """When the compaction was created, as a Unix timestamp in seconds."""
    output: list[JsonObject]
    """List of one item with the type `compaction`. Send the item as input in place of the
    conversation."""
    usage: JsonObject
    """Number of tokens used. All numbers are 0, because no model is called."""
