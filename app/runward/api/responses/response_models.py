"""The answers of /v1/responses, for openapi.json: OpenAI's own shapes."""

from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from runward.api.http.models import ConversationPage, ResponseModel, with_example
from runward.domain.json import JsonObject

RESPONSE_STREAM: Final = {"$ref": "#/components/schemas/ResponseStream"}
"""In openapi.json: what `runward.api.openapi.schemas` says that a stream is."""
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
    """What is wrong."""

    message: str
    """For a person."""
    type: str
    """`invalid_request_error`, `authentication_error`, `permission_error`, `rate_limit_error` or
    `server_error`."""
    param: str | None
    """Which value of the request; null where it is none in particular."""
    code: str | None
    """For a program."""


class OpenAIError(ResponseModel):
    """An error, as OpenAI's clients read it."""

    error: OpenAIErrorDetails
    """What is wrong."""


class ResponseObject(ResponseModel):
    """A response: a run, from its beginning or from where it waited for the client, up to where
    it waits for the client again, or ends."""

    model_config = with_example(**_EXAMPLE)

    id: str
    """`resp_…`, with the digits of the run's id."""
    object: Literal["response"] = "response"
    created_at: int
    """Unix seconds."""
    completed_at: int | None
    """Unix seconds; null unless it is completed."""
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    """`completed` also where the run waits for the client."""
    model: str
    """As it was asked for."""
    previous_response_id: str | None
    """The response that it goes on from."""
    instructions: str | None
    """As they were given; null where the model is an agent."""
    tools: list[JsonObject]
    """The functions and registered tools that were given."""
    tool_choice: JsonValue
    """As it was given."""
    truncation: Literal["disabled"]
    parallel_tool_calls: bool
    """As it was given."""
    text: JsonObject
    """What the answer was to be."""
    temperature: float
    """As it was given; 1 where it was not."""
    top_p: float
    """As it was given; 1 where it was not."""
    presence_penalty: float
    """As it was given; 0 where it was not."""
    frequency_penalty: float
    """As it was given; 0 where it was not."""
    top_logprobs: int
    """0."""
    reasoning: JsonObject | None
    """As it was given."""
    user: str | None
    """As it was given."""
    max_output_tokens: int | None
    """As it was given."""
    max_tool_calls: int | None
    """As it was given."""
    store: bool
    """true."""
    background: bool
    """As it was given when the run was started."""
    service_tier: str
    """As it was given; `default` where it was not."""
    metadata: dict[str, str]
    """The run's."""
    safety_identifier: str | None
    """As it was given."""
    prompt_cache_key: str | None
    """As it was given."""
    conversation: JsonObject | None
    """The session: `{"id": "sess_…"}`."""
    error: JsonObject | None
    """Of a failed one: `code`, `message`."""
    incomplete_details: JsonObject | None
    """Of an incomplete one: `reason` for OpenAI's clients; `code` and `message` are Runward's."""
    output: list[JsonObject]
    """Items: `message`, `reasoning`, `mcp_call`, `function_call`, `mcp_approval_request`."""
    usage: JsonObject | None
    """Tokens; null until it has ended."""


class InputItems(ConversationPage):
    """What a response was given."""

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
    """Items."""


class Compaction(ResponseModel):
    """A sealed conversation."""

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
    """`cmp_…`."""
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    """Unix seconds."""
    output: list[JsonObject]
    """One item: `{"type": "compaction", "id", "encrypted_content"}`. Send it as input."""
    usage: JsonObject
    """Zeros: no model is asked."""
