"""The responses of /v1/chat/completions, for openapi.json: OpenAI's formats."""

from typing import Any, Final, Literal

from runward.api.http.models import ResponseModel, with_example
from runward.domain.json import JsonObject

CHUNK_STREAM: Final = {"$ref": "#/components/schemas/ChatCompletionStream"}
"""The reference in openapi.json to the schema of a stream, which `runward.api.openapi.schemas`
adds."""
_ID: Final = "chatcmpl-019a5f1e7d3c7b0e9a4f2c6d8e1b3a57"
_EXAMPLE: dict[str, Any] = {
    "id": _ID,
    "created": 1793610600,
    "model": "offline:rules",
    "choices": [
        {
            "index": 0,
            "message": {"content": "Paid.", "refusal": None, "tool_calls": None},
            "finish_reason": "stop",
        }
    ],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 2,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    },
}
FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class CompletionCallFunction(ResponseModel):
    """The function of a call and its arguments."""

    name: str
    """Name of the function."""
    arguments: str
    """Arguments of the call: a JSON object as text."""


class CompletionToolCall(ResponseModel):
    """A call of a function that the client must run."""

    id: str
    """ID of the call. The message of the role `tool` with the result refers to it."""
    type: Literal["function"] = "function"
    function: CompletionCallFunction
    """The function and its arguments."""


class CompletionMessage(ResponseModel):
    """The message of a completion."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    """Texts of all turns of the run, separated by empty lines. If the output must be JSON, this is
    only the output. Null if there is no text."""
    refusal: str | None
    """Refusal of the model. Null if the model did not refuse."""
    tool_calls: list[CompletionToolCall] | None
    """Calls that the client must run. Null if there are none."""


class CompletionChoice(ResponseModel):
    """The result of a completion."""

    index: Literal[0] = 0
    message: CompletionMessage
    """Message of the completion."""
    logprobs: None = None
    """Always null."""
    finish_reason: FinishReason
    """Why the completion ended. `stop`: the run has completed. `tool_calls`: the client must run
    functions. `content_filter`: a guardrail ended the run. `length`: another limit ended the
    run."""


class CachedPromptTokens(ResponseModel):
    """Details of the input tokens."""

    cached_tokens: int
    """Number of input tokens that the provider read from its cache."""


class CompletionReasoningTokens(ResponseModel):
    """Details of the output tokens."""

    reasoning_tokens: int
    """Number of output tokens of the model's reasoning."""


class CompletionUsage(ResponseModel):
    """Number of tokens that all turns of a run used."""

    prompt_tokens: int
    """Number of input tokens."""
    completion_tokens: int
    """Number of output tokens."""
    total_tokens: int
    """Number of input and output tokens."""
    prompt_tokens_details: CachedPromptTokens
    """Details of the input tokens."""
    completion_tokens_details: CompletionReasoningTokens
    """Details of the output tokens."""


class _Completion(ResponseModel):
    id: str
    """ID of the completion. It contains the hexadecimal digits of the run's ID."""
    created: int
    """When the run was created, as a Unix timestamp in seconds."""
    model: str
    """Name of the model or the registered agent, as in the request."""
    service_tier: None = None
    """Always null."""
    system_fingerprint: None = None
    """Always null."""


class ChatCompletion(_Completion):
    """A chat completion: a run, up to its end or to its first calls of client functions."""

    model_config = with_example(**_EXAMPLE)

    object: Literal["chat.completion"] = "chat.completion"
    choices: list[CompletionChoice]
    """List with one choice."""
    usage: CompletionUsage
    """Number of tokens that all turns of the run used."""


class ChatCompletionChunkChoice(ResponseModel):
    """A change of the completion's choice."""

    index: Literal[0] = 0
    delta: JsonObject
    """Fields of the message that this chunk adds: `role`, `content`, `refusal` or `tool_calls`."""
    logprobs: None = None
    """Always null."""
    finish_reason: FinishReason | None
    """Why the completion ended. Null in all chunks except the last one."""


class ChatCompletionChunk(_Completion):
    """A chunk of a streamed chat completion."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: list[ChatCompletionChunkChoice]
    """List with one choice. Empty in the chunk with the usage."""
    usage: CompletionUsage | None
    """Number of tokens that all turns of the run used. Set only in the chunk after the last choice,
    and only with `stream_options.include_usage`."""
