"""Start the run of a chat completion."""

import re
from dataclasses import replace
from typing import Any, Final

from runward.api.completions.history import build_history
from runward.api.completions.request_models import (
    CompletionFormatJsonSchema,
    CompletionFunctionTool,
    CreateChatCompletion,
)
from runward.api.http.idempotency import IdempotentRequest
from runward.api.responses import run_request
from runward.api.responses.model_settings import PARAMETERS
from runward.api.responses.models import (
    CreateResponse,
    ReasoningConfig,
    ResponseFormatJsonSchema,
    ResponseFunctionTool,
    ResponseTextConfig,
    ResponseToolChoice,
)
from runward.api.responses.run_request import SCHEMA_PLACE
from runward.api.runs.acceptance import AcceptResult
from runward.api.runs.concurrency import add_concurrency_groups
from runward.api.runs.resolution import ResolvedAgent
from runward.api.runs.start import accept_immediately, build_new_run
from runward.domain.errors import FieldError
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.services import Registry, RunQueue, Storage

_OTHER_SETTINGS: Final = ("stop", "seed")
"""Model settings that are not parameters of a response."""
_PLACES: Final = (
    (re.compile(r"^(tools\.[0-9]+)\.(?=name|parameters)"), r"\1.function."),
    (re.compile(rf"^{re.escape(SCHEMA_PLACE)}\b"), "response_format.json_schema.schema"),
    (re.compile(r"^text\.format\b"), "response_format"),
    (re.compile(r"^text\.verbosity$"), "verbosity"),
    (re.compile(r"^reasoning$"), "reasoning_effort"),
    (re.compile(r"^max_output_tokens$"), "max_completion_tokens"),
)
"""The places of parameters of a response, and their places in a completion."""


async def start(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: CreateChatCompletion,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """Start the run. When this returns, the run and its first event are committed. Raises
    AppErrors."""
    items = await build_history(storage, principal.project_id, body.messages)
    response = _build_response_request(body)
    with run_request.locate_errors(_locate):
        request, resolved = await run_request.resolve(
            storage, registry, principal.project_id, response, _list_other_settings(body)
        )
        resolved = run_request.add_run_settings(response, _limit_waiting(response, resolved))
    new = build_new_run(principal, request, resolved, items)
    new = replace(new, metadata=dict(body.metadata or {}), erase_at_end=body.store is False)
    new = await add_concurrency_groups(registry, principal.limits, new)
    return await accept_immediately(queue, request_key.with_key(new))


def _locate(error: FieldError) -> FieldError:
    path = error.path
    for pattern, place in _PLACES:
        path = pattern.sub(place, path)
    return FieldError(path, error.message)


def _build_response_request(body: CreateChatCompletion) -> CreateResponse:
    """Return the request for a response with the same model, tools and settings."""
    names = (*PARAMETERS, "service_tier", "parallel_tool_calls")
    fields: dict[str, Any] = {name: getattr(body, name, None) for name in names}
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    fields["max_output_tokens"] = most
    if body.reasoning_effort is not None:
        fields["reasoning"] = ReasoningConfig(effort=body.reasoning_effort)
    fields["tools"] = body.tools and [
        ResponseFunctionTool.model_construct(None, type="function", **dict(tool.function))
        if isinstance(tool, CompletionFunctionTool)
        else tool
        for tool in body.tools
    ]
    choice = body.tool_choice
    if choice is not None and not isinstance(choice, str):
        choice = ResponseToolChoice(type="function", name=choice.function.name)
    fields["tool_choice"] = choice
    fields["text"] = _build_text_config(body)
    given = {name: value for name, value in fields.items() if value is not None}
    return CreateResponse.model_construct(None, model=body.model, **given)


def _build_text_config(body: CreateChatCompletion) -> ResponseTextConfig | None:
    match body.response_format:
        case CompletionFormatJsonSchema(json_schema=given):
            format_ = ResponseFormatJsonSchema.model_construct(
                None, type="json_schema", name=given.name, schema_=given.schema_
            )
        case format_:
            pass
    if format_ is None and body.verbosity is None:
        return None
    return ResponseTextConfig.model_construct(None, format=format_, verbosity=body.verbosity)


def _list_other_settings(body: CreateChatCompletion) -> JsonObject:
    given: JsonObject = {name: getattr(body, name) for name in _OTHER_SETTINGS}
    return {name: value for name, value in given.items() if value is not None}


def _limit_waiting(response: CreateResponse, resolved: ResolvedAgent) -> ResolvedAgent:
    """Return the configuration with a deadline, if the client has functions."""
    limits = resolved.config.limits
    if not response.tools or limits.deadline_seconds is not None:
        return resolved
    limits = limits.model_copy(update={"deadline_seconds": run_request.UNSTORED_DEADLINE_SECONDS})
    return replace(resolved, config=resolved.config.model_copy(update={"limits": limits}))
