"""Start the run of a chat completion."""

import re
from dataclasses import replace
from typing import Any, Final

from runward.api.completions.request_models import (
    CompletionFormatJsonObject,
    CompletionFormatJsonSchema,
    CompletionFunctionTool,
    CreateChatCompletion,
)
from runward.api.http.idempotency import IdempotentRequest
from runward.api.registry.agent_checks import check_agent
from runward.api.responses import run_request
from runward.api.responses.models import (
    CreateResponse,
    ResponseFunctionTool,
    ResponseMcpTool,
    ResponseToolChoice,
)
from runward.api.runs.acceptance import AcceptResult
from runward.api.runs.input_models import build_items
from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import ResolvedAgent
from runward.api.runs.start import accept_immediately, build_new_run
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.services import Registry, RunQueue, Storage

DEADLINE_SECONDS: Final = 86_400.0
"""The deadline in seconds of a run with functions that the client runs. If the client disconnects,
it never receives the calls of the run."""
_SETTINGS: Final = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "seed",
    "verbosity",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
_NESTED: Final = re.compile(r"(tools\.[0-9]+)\.(name|parameters)")
_ANY_OBJECT: Final[JsonObject] = {"type": "object"}


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
    items = build_items(body.messages, "messages")
    response = _build_response_request(body)
    request = _build_start_request(body, response)
    resolved = await run_request.resolve_model(storage, registry, principal.project_id, request)
    if request.agent is not None:
        resolved = await _override_agent(registry, principal.project_id, body, resolved)
    resolved = _add_functions(response, resolved)
    new = build_new_run(principal, request, resolved, items)
    return await accept_immediately(
        queue, request_key.with_key(replace(new, metadata=dict(body.metadata or {})))
    )


def _build_response_request(body: CreateChatCompletion) -> CreateResponse:
    """Return the request for a response with the same model and tools."""
    fields: dict[str, Any] = {"model": body.model}
    if body.tools is not None:
        fields["tools"] = [
            ResponseFunctionTool.model_construct(None, type="function", **dict(tool.function))
            if isinstance(tool, CompletionFunctionTool)
            else tool
            for tool in body.tools
        ]
    choice = body.tool_choice
    if choice is not None and not isinstance(choice, str):
        choice = ResponseToolChoice.model_construct(
            None, type="function", name=choice.function.name
        )
    if choice is not None:
        fields["tool_choice"] = choice
    return CreateResponse.model_construct(None, **fields)


def _build_start_request(body: CreateChatCompletion, response: CreateResponse) -> StartRun:
    if ":" not in body.model:
        if any(isinstance(one, ResponseMcpTool) for one in body.tools or ()):
            why = f"The agent '{body.model}' defines its own tools. A request can add functions."
            raise e.UnsupportedParameterError("tools", why)
        return StartRun.model_construct(None, agent=body.model, input="")
    fields: dict[str, Any] = {"tools": run_request.list_registered_tools(response)}
    fields |= _list_overrides(body)
    return StartRun.model_construct(None, model=body.model, input="", **fields)


def _list_overrides(body: CreateChatCompletion) -> dict[str, Any]:
    """Return the fields of the configuration that the request sets."""
    fields: dict[str, Any] = {}
    if body.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    if settings := _list_settings(body):
        fields["model_settings"] = settings
    match body.response_format:
        case CompletionFormatJsonSchema(json_schema=schema):
            fields["output_schema"] = schema.schema_
        case CompletionFormatJsonObject():
            fields["output_schema"] = _ANY_OBJECT
        case _:
            pass
    return fields


def _list_settings(body: CreateChatCompletion) -> JsonObject:
    given: JsonObject = {name: getattr(body, name) for name in _SETTINGS}
    most = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    given["max_output_tokens"] = most
    given["reasoning"] = body.reasoning_effort and {"effort": body.reasoning_effort}
    tier = body.service_tier
    given["service_tier"] = None if tier in ("auto", "default") else tier
    return {name: value for name, value in given.items() if value is not None}


async def _override_agent(
    registry: Registry, project_id: ProjectId, body: CreateChatCompletion, resolved: ResolvedAgent
) -> ResolvedAgent:
    """Return the agent with the settings of the request. Raises InvalidRequestError if its models
    do not support them."""
    fields, config = _list_overrides(body), resolved.config
    if not fields:
        return resolved
    if "output_schema" in fields and config.output_schema is not None:
        why = f"The agent '{body.model}' has its own output schema. Omit `response_format`."
        raise e.UnsupportedParameterError("response_format", why)
    fields["model_settings"] = {**config.model_settings, **fields.get("model_settings", {})}
    config = config.model_copy(update=fields)
    check_agent(await registry.get_models(project_id), config)
    return replace(resolved, config=config)


def _add_functions(response: CreateResponse, resolved: ResolvedAgent) -> ResolvedAgent:
    """Return the configuration of the run with the client's functions. Raises
    InvalidRequestError."""
    limits = resolved.config.limits
    if response.tools and limits.deadline_seconds is None:
        limits = limits.model_copy(update={"deadline_seconds": DEADLINE_SECONDS})
        config = resolved.config.model_copy(update={"limits": limits})
        resolved = replace(resolved, config=config)
    try:
        return run_request.add_run_settings(response, resolved)
    except e.InvalidRequestError as error:
        errors = [
            FieldError(_NESTED.sub(r"\1.function.\2", one.path), one.message)
            for one in error.errors
        ]
        raise e.InvalidRequestError(error.detail, errors=errors) from None
