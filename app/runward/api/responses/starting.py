"""From a request to a run: what a response is asked to be becomes what a run is."""

from dataclasses import replace
from typing import Any, Final

from runward.api.http.idempotency import IdempotentRequest
from runward.api.responses.conversing import refused
from runward.api.responses.models import (
    ConversationIn,
    CreateResponse,
    FunctionIn,
    JsonSchemaIn,
    RunwardToolsIn,
)
from runward.api.responses.shapes import kept_of
from runward.api.runs import accept
from runward.api.runs.accept import Answered
from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import Resolved, resolve
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, parse
from runward.domain.json import JsonObject
from runward.domain.registry.builtin_names import is_reserved
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import MAX_TOOLS, Limits, NamedTool, RunConfig
from runward.domain.run.items import Item
from runward.domain.run.state import Member
from runward.domain.schema.validator import check_schema
from runward.wiring import Services

DEADLINE_SECONDS: Final = 30 * 86_400.0
"""Of a run with functions that its client runs, and may never come back with."""

_SETTINGS: Final = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "max_output_tokens",
    "user",
    "safety_identifier",
    "prompt_cache_key",
)
_OF_THE_AGENT: Final = (
    "instructions",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    *_SETTINGS[:5],
)
_NOTHING: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": False}


def check_supported(body: CreateResponse) -> None:
    """Raises UnsupportedParameterError for what no response can be."""
    if not body.store:
        why = "A response is a durable run, which is stored. Leave `store` out."
        raise e.UnsupportedParameterError("store", why)
    if body.truncation != "disabled":
        why = "Nothing is left out of a conversation by itself; summarise it, or use a session."
        raise e.UnsupportedParameterError("truncation", why)
    if body.include:
        raise e.UnsupportedParameterError("include", "Nothing can be included beside the items.")
    if body.top_logprobs:
        raise e.UnsupportedParameterError("top_logprobs", "There are no log probabilities.")
    if body.conversation is not None and body.previous_response_id is not None:
        raise refused("conversation", "cannot stand beside previous_response_id")


async def start(
    services: Services,
    principal: Principal,
    body: CreateResponse,
    request_key: IdempotentRequest,
    items: tuple[Item, ...],
    continued_from: RunId | None,
) -> Answered:
    """After this the run and its first event are committed. Raises AppErrors."""
    session_id = _session_of(body)
    request = _as_run(body)
    resolved = await resolved_model(services, principal.project_id, request)
    resolved = _with_own(body, resolved)
    new = accept.new_run(principal, request, resolved, items, continued_from)
    new = request_key.with_key(replace(new, metadata=dict(body.metadata)))
    if session_id is not None:
        return await accept.accept_in_session(services, new, session_id)
    return await accept.accept_at_once(services, new)


async def resolved_model(services: Services, project_id: ProjectId, request: StartRun) -> Resolved:
    """Raises ModelNotFoundError for an unknown agent or model."""
    try:
        return await resolve(services, project_id, request)
    except (e.UnknownAgentError, e.UnknownModelError) as error:
        if error.errors and error.errors[0].path in ("agent", "model"):
            wrong = [FieldError("model", error.errors[0].message)]
            raise e.ModelNotFoundError(error.detail, errors=wrong) from None
        raise


def model_alone(model: str) -> StartRun:
    """A run of it and nothing else, to see whether there is such a model."""
    named = "model" if ":" in model else "agent"
    return StartRun.model_construct(None, input="", **{named: model})


def _as_run(body: CreateResponse) -> StartRun:
    fields: dict[str, Any] = {"input": ""}
    if body.max_tool_calls is not None:
        fields["limits"] = Limits.model_construct(None, max_tool_calls=body.max_tool_calls)
    if ":" not in body.model:
        _check_agent_s(body)
        return StartRun.model_construct(None, agent=body.model, **fields)
    fields["model"] = body.model
    fields["tools"] = registered_of(body)
    if body.instructions is not None:
        fields["instructions"] = body.instructions
    if body.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    if settings := _settings(body):
        fields["model_settings"] = settings
    if (schema := _schema(body)) is not None:
        fields["output_schema"] = schema
    return StartRun.model_construct(None, **fields)


def _check_agent_s(body: CreateResponse) -> None:
    for name in _OF_THE_AGENT:
        if getattr(body, name) is not None:
            why = f"belongs to the agent '{body.model}' and cannot be set beside it"
            raise e.UnsupportedParameterError(name, why)
    text = body.text
    if text is not None and (isinstance(text.format, JsonSchemaIn) or text.verbosity is not None):
        why = f"belongs to the agent '{body.model}' and cannot be set beside it"
        raise e.UnsupportedParameterError("text", why)
    if registered_of(body):
        why = f"The agent '{body.model}' has its tools; only functions can be added."
        raise e.UnsupportedParameterError("tools", why)


def registered_of(body: CreateResponse) -> tuple[str, ...]:
    """The registered tools that are asked for. Raises InvalidRequestError for more than a run
    can have."""
    named = [one.names for one in body.tools or () if isinstance(one, RunwardToolsIn)]
    found = tuple(dict.fromkeys(name for names in named for name in names))
    if len(found) > MAX_TOOLS:
        raise refused("tools", f"must name at most {MAX_TOOLS} registered tools")
    return found


def _schema(body: CreateResponse) -> JsonObject | None:
    format_ = body.text.format if body.text else None
    return format_.schema_ if isinstance(format_, JsonSchemaIn) else None


def _settings(body: CreateResponse) -> JsonObject:
    given: JsonObject = {name: getattr(body, name) for name in _SETTINGS}
    given["reasoning"] = (body.reasoning and body.reasoning.model_dump(exclude_none=True)) or None
    given["verbosity"] = body.text.verbosity if body.text else None
    tier = body.service_tier
    given["service_tier"] = None if tier in ("auto", "default") else tier
    return {name: value for name, value in given.items() if value is not None}


def functions_in(body: CreateResponse) -> tuple[ToolSpec, ...]:
    """Raises InvalidRequestError."""
    errors: list[FieldError] = []
    specs: dict[str, ToolSpec] = {}
    for n, one in enumerate(body.tools or ()):
        if not isinstance(one, FunctionIn):
            continue
        parameters = _NOTHING if one.parameters is None else one.parameters
        place = f"tools.{n}.parameters"
        errors += check_schema(parameters, strict=one.strict, at=place)
        if is_reserved(one.name) or one.name in specs:
            why = "is there twice" if one.name in specs else "is reserved for Runward's own tools"
            errors.append(FieldError(f"tools.{n}.name", why))
        specs[one.name] = ToolSpec.model_construct(
            None,
            name=one.name,
            description=one.description,
            parameters=parameters,
            strict=one.strict,
            type="client",
        )
    if errors:
        raise e.InvalidRequestError(errors=errors)
    return tuple(specs.values())


def _with_own(body: CreateResponse, resolved: Resolved) -> Resolved:
    """The run's config, with what only this run has."""
    config, functions = resolved.config, functions_in(body)
    taken = {*config.tools, *(one.name for one in functions)}
    if len(taken) < len(config.tools) + len(functions):
        raise refused("tools", "has a function with the name of a registered tool")
    fields: dict[str, Any] = dict(config)
    if (choice := body.tool_choice) is not None:
        if not isinstance(choice, str) and choice.name not in taken:
            raise refused("tool_choice", "must name one of the response's tools")
        named = choice if isinstance(choice, str) else NamedTool(name=choice.name)
        fields["tool_choice"] = named
    if functions and config.limits.deadline_seconds is None:
        fields["limits"] = config.limits.model_copy(update={"deadline_seconds": DEADLINE_SECONDS})
    fields |= {"functions": functions, "request": kept_of(body)}
    own = RunConfig.model_construct(None, **fields)
    team = dict(resolved.team)
    if resolved.version is not None and body.model in team:
        team[body.model] = Member(own, resolved.version)
    return Resolved(own, resolved.version, team)


def _session_of(body: CreateResponse) -> SessionId | None:
    given = body.conversation
    if given is None:
        return None
    value = parse(Prefix.SESSION, given.id if isinstance(given, ConversationIn) else given)
    if value is None:
        raise e.SessionNotFoundError(errors=[FieldError("conversation", "is no session")])
    return SessionId(value)


def check_goes_on(body: CreateResponse, config: RunConfig) -> None:
    """A run that goes on is what it was when it was started. Raises InvalidRequestError where the
    request says otherwise."""
    kept = config.request or {}
    for name, value in kept_of(body).items():
        if name not in ("background", "previous_response_id") and kept.get(name) != value:
            raise _differs(name)
    if body.instructions is not None and body.instructions != config.instructions:
        raise _differs("instructions")
    registered = config.tools if ":" in body.model else ()  # an agent has its own
    same = (functions_in(body), registered_of(body)) == (config.functions, registered)
    if body.tools is not None and not same:
        raise _differs("tools")


def _differs(name: str) -> e.InvalidRequestError:
    return refused(name, "must be left out or as in the response that this one goes on from")
