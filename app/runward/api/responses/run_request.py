"""Convert a request for a response to a run."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from runward.api.http.idempotency import IdempotentRequest
from runward.api.registry.agent_checks import check_agent, list_names
from runward.api.registry.namespaces import find_length_errors, join_fields
from runward.api.responses.conversation import parameter_error
from runward.api.responses.model_settings import list_settings, locate_setting, select_hints
from runward.api.responses.models import (
    CreateResponse,
    ResponseConversation,
    ResponseFormatJsonObject,
    ResponseFormatJsonSchema,
    ResponseFunctionTool,
    ResponseMcpTool,
    ResponseNamespaceTool,
)
from runward.api.responses.response_body import NAMESPACES, select_kept_fields
from runward.api.runs.acceptance import AcceptResult, accept_in_session
from runward.api.runs.concurrency import add_concurrency_groups
from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import ResolvedAgent, resolve_agent
from runward.api.runs.start import accept_immediately, build_new_run
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.errors import FieldError
from runward.domain.ids import (
    Prefix,
    ProjectId,
    RunId,
    SessionId,
    format_optional_id,
    parse_id,
)
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.domain.registry.tools import RESERVED_NAMES, InlineToolSpec
from runward.domain.run.config import (
    MAX_TOOLS,
    AgentConfig,
    Limits,
    NamedToolChoice,
    RunConfig,
    get_inline_tools,
)
from runward.domain.run.family import Member
from runward.domain.run.items import Item
from runward.domain.run.team import format_transfer_name
from runward.domain.schema.validator import check_schema
from runward.llm.settings import check_settings
from runward.services import Registry, RunQueue, Storage
from runward.store.access.audit import AuditActor

DEADLINE_SECONDS: Final = 30 * 86_400.0
"""The deadline in seconds of a run with functions that the client runs. The client may never submit
their results."""
UNSTORED_DEADLINE_SECONDS: Final = 86_400.0
"""The same deadline if the client cannot retrieve the response. If the client disconnects, it never
receives the calls of the run."""

MAX_CLIENT_FUNCTIONS: Final = 128
"""Maximum number of functions of a request, including those in namespaces."""
_CHANGEABLE: Final = frozenset({"background", "previous_response_id", NAMESPACES})
"""The stored fields that a request that continues a run is not compared with. The namespaces are
compared together with the tools."""
SCHEMA_PLACE: Final = "text.format.schema"
"""The place of the output schema in a request."""
_SCHEMA_PATH: Final = re.compile(r"^output_schema\b")
_ANY_OBJECT: Final[JsonObject] = {"type": "object"}
_EMPTY_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


def check_supported(body: CreateResponse) -> None:
    """Check that Runward supports all parameters. Raises UnsupportedParameterError."""
    if not body.store and (body.background or body.conversation is not None):
        other = "background" if body.background else "conversation"
        raise parameter_error(other, "is not allowed with store=false")
    if body.top_logprobs:
        raise e.UnsupportedParameterError(
            "top_logprobs", "Runward does not return log probabilities."
        )
    if body.conversation is not None and body.previous_response_id is not None:
        raise parameter_error("conversation", "must not be sent together with previous_response_id")


async def start(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: CreateResponse,
    request_key: IdempotentRequest,
    items: tuple[Item, ...],
    continued_from: RunId | None,
) -> AcceptResult:
    """Start the run. When this returns, the run and its first event are committed. Raises
    AppErrors."""
    session_id = parse_session(body)
    request, resolved = await resolve(storage, registry, principal.project_id, body)
    resolved = add_run_settings(body, resolved)
    new = build_new_run(principal, request, resolved, items, continued_from)
    new = replace(new, metadata=dict(body.metadata), erase_at_end=not body.store)
    shown = format_optional_id(Prefix.SESSION, session_id)
    new = await add_concurrency_groups(registry, principal.limits, new, shown)
    new = request_key.with_key(new)
    if session_id is not None:
        actor = AuditActor.from_principal(principal)
        return await accept_in_session(storage, queue, new, session_id, actor=actor)
    return await accept_immediately(queue, new)


async def resolve(
    storage: Storage,
    registry: Registry,
    project_id: ProjectId,
    body: CreateResponse,
    settings: JsonObject | None = None,
) -> tuple[StartRun, ResolvedAgent]:
    """Return the request of the run, without its input, and the configuration, without the client's
    functions. `settings`: model settings that are not parameters of a response. Raises
    AppErrors."""
    given = list_settings(body) | (settings or {})
    hints = select_hints(given)
    request = _build_start_request(body, {name: given[name] for name in given.keys() - hints})
    with locate_errors(_locate):
        resolved = await resolve_model(storage, registry, project_id, request)
        config = resolved.config
        if request.agent is not None:
            config = _override_agent(body, request, config)
            check_agent(await registry.get_models(project_id), config)
        if wrong := check_settings(hints):
            raise e.InvalidRequestError(errors=[FieldError("model_settings", one) for one in wrong])
    merged = {**config.model_settings, **hints}
    return request, replace(resolved, config=config.model_copy(update={"model_settings": merged}))


@contextmanager
def locate_errors(locate: Callable[[FieldError], FieldError]) -> Generator[None]:
    """Replace the errors of parameters that the block raises, because the parameters have other
    places in this API."""
    try:
        yield
    except e.InvalidRequestError as error:
        error.errors = tuple(locate(one) for one in error.errors)
        raise


def _locate(error: FieldError) -> FieldError:
    place = _SCHEMA_PATH.sub(SCHEMA_PLACE, error.path)
    return locate_setting(FieldError(place, error.message))


def _override_agent(body: CreateResponse, request: StartRun, config: AgentConfig) -> AgentConfig:
    """Return the agent with the settings, the output format and the instructions of the request.
    Raises UnsupportedParameterError."""
    fields: dict[str, Any] = {}
    if config.kind != "llm":
        _check_workflow(body)
    if request.output_schema is not None:
        if config.output_schema is not None:
            why = f"The agent '{body.model}' has its own output schema. Omit the output format."
            raise e.UnsupportedParameterError("text.format", why)
        fields["output_schema"] = request.output_schema
    if body.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    if settings := request.model_settings:
        fields["model_settings"] = {**config.model_settings, **settings}
    if body.instructions:
        own = (config.instructions, body.instructions)
        fields["instructions"] = "\n\n".join(text for text in own if text)
    return config.model_copy(update=fields)


def _check_workflow(body: CreateResponse) -> None:
    """Check that the request for a workflow has no parameters of a model, because a workflow has no
    model of its own."""
    given = {
        "instructions": body.instructions,
        "text.format": _schema(body),
        "tools": body.tools,
        "tool_choice": body.tool_choice not in (None, "auto"),
    }
    for name, value in given.items():
        if value:
            why = f"The agent '{body.model}' is a workflow and has no model. Omit this parameter."
            raise e.UnsupportedParameterError(name, why)


async def resolve_model(
    storage: Storage, registry: Registry, project_id: ProjectId, request: StartRun
) -> ResolvedAgent:
    """Return the agent or the configuration of the model. Raises ModelNotFoundError if neither
    exists."""
    try:
        return await resolve_agent(storage, registry, project_id, request)
    except (e.UnknownAgentError, e.UnknownModelError) as error:
        if error.errors and error.errors[0].path in ("agent", "model"):
            wrong = [FieldError("model", error.errors[0].message)]
            raise not_found.ModelNotFoundError(error.detail, errors=wrong) from None
        raise


def build_model_request(model: str) -> StartRun:
    """Return a minimal request for a run of the model, to check whether the model exists."""
    named = "model" if ":" in model else "agent"
    return StartRun.model_construct(None, input="", **{named: model})


def _build_start_request(body: CreateResponse, settings: JsonObject) -> StartRun:
    """Return the request of the run, without its input and its functions."""
    fields: dict[str, Any] = {"input": ""}
    if body.max_tool_calls is not None:
        fields["limits"] = Limits.model_construct(None, max_tool_calls=body.max_tool_calls)
    if settings:
        fields["model_settings"] = settings
    if (schema := _schema(body)) is not None:
        fields["output_schema"] = schema
    if ":" not in body.model:
        if any(isinstance(one, ResponseMcpTool) for one in body.tools or ()):
            why = f"The agent '{body.model}' defines its own tools. A request can add functions."
            raise e.UnsupportedParameterError("tools", why)
        return StartRun.model_construct(None, agent=body.model, **fields)
    fields["model"] = body.model
    fields["tools"] = list_registered_tools(body)
    if body.instructions is not None:
        fields["instructions"] = body.instructions
    if body.parallel_tool_calls is not None:
        fields["parallel_tool_calls"] = body.parallel_tool_calls
    return StartRun.model_construct(None, **fields)


def list_registered_tools(body: CreateResponse) -> tuple[str, ...]:
    """Return the registered tools of the request. Raises InvalidRequestError if a run cannot have
    so many."""
    named = [one.names for one in body.tools or () if isinstance(one, ResponseMcpTool)]
    found = tuple(dict.fromkeys(name for names in named for name in names))
    if len(found) > MAX_TOOLS:
        raise parameter_error("tools", f"must name at most {MAX_TOOLS} registered tools")
    return found


def _schema(body: CreateResponse) -> JsonObject | None:
    match body.text.format if body.text else None:
        case ResponseFormatJsonSchema(schema_=schema):
            return schema
        case ResponseFormatJsonObject():
            return _ANY_OBJECT
        case _:
            return None


def parse_functions(body: CreateResponse) -> tuple[InlineToolSpec, ...]:
    """Return the client's functions as tools. Raises InvalidRequestError."""
    errors: list[FieldError] = []
    specs: dict[str, InlineToolSpec] = {}
    functions = list(_list_functions(body))
    if len(functions) > MAX_CLIENT_FUNCTIONS:
        raise parameter_error("tools", f"must contain at most {MAX_CLIENT_FUNCTIONS} functions")
    for place, one in functions:
        wrong = find_length_errors(one.name, one.description)
        errors += [FieldError(f"{place}.{error.path}", error.message) for error in wrong]
        parameters = _EMPTY_SCHEMA if one.parameters is None else one.parameters
        errors += check_schema(parameters, strict=one.strict, at=f"{place}.parameters")
        if one.name in RESERVED_NAMES or one.name in specs:
            why = "must be unique" if one.name in specs else "is reserved for a built-in tool"
            errors.append(FieldError(f"{place}.name", why))
        specs[one.name] = InlineToolSpec.model_construct(
            None,
            name=one.name,
            description=one.description,
            parameters=parameters,
            strict=one.strict,
            type="client",
            defer=one.defer_loading,
        )
    if errors:
        raise e.InvalidRequestError(errors=errors)
    return tuple(specs.values())


def _list_functions(body: CreateResponse) -> Iterator[tuple[str, ResponseFunctionTool]]:
    """Return the client's functions with their places in the request. Those of a namespace have the
    names and the descriptions that the model reads."""
    for n, one in enumerate(body.tools or ()):
        if isinstance(one, ResponseFunctionTool):
            yield f"tools.{n}", one
        elif isinstance(one, ResponseNamespaceTool):
            for m, tool in enumerate(one.tools):
                joined = join_fields(one.name, one.description, tool.name, tool.description)
                yield f"tools.{n}.tools.{m}", tool.model_copy(update=joined)


def add_run_settings(body: CreateResponse, resolved: ResolvedAgent) -> ResolvedAgent:
    """Return the configuration of the run, with the settings of this request."""
    config, functions = resolved.config, parse_functions(body)
    own_tools = {*list_names(config), *map(format_transfer_name, config.handoffs)}
    taken = {*own_tools, *(one.name for one in functions)}
    if len(taken) < len(own_tools) + len(functions):
        raise parameter_error(
            "tools", "contains a function with the name of a registered tool or a handoff"
        )
    fields: dict[str, Any] = dict(config)
    choice = body.tool_choice
    if choice is not None and not (choice == "auto" and resolved.version is not None):
        if not isinstance(choice, str) and choice.name not in taken:
            raise parameter_error("tool_choice", "must be the name of a tool of this request")
        named = choice if isinstance(choice, str) else NamedToolChoice(name=choice.name)
        fields["tool_choice"] = named
    if functions and config.limits.deadline_seconds is None:
        deadline = DEADLINE_SECONDS if body.store else UNSTORED_DEADLINE_SECONDS
        fields["limits"] = config.limits.model_copy(update={"deadline_seconds": deadline})
    inline_tools = (*get_inline_tools(config), *functions)
    fields |= {"inline_tools": inline_tools, "request": select_kept_fields(body)}
    own = RunConfig.model_construct(None, **fields)
    team = dict(resolved.team)
    if resolved.version is not None and body.model in team:
        team[body.model] = Member(own, resolved.version)
    return ResolvedAgent(own, resolved.version, team)


def parse_session(body: CreateResponse) -> SessionId | None:
    """Return the ID of the request's session. Raises SessionNotFoundError."""
    given = body.conversation
    if given is None:
        return None
    shown = given.id if isinstance(given, ResponseConversation) else given
    value = parse_id(Prefix.CONVERSATION, shown) or parse_id(Prefix.SESSION, shown)
    if value is None:
        raise not_found.SessionNotFoundError(
            errors=[FieldError("conversation", "is not the ID of a conversation or a session")]
        )
    return SessionId(value)


def check_continuation(body: CreateResponse, config: RunConfig) -> None:
    """Check that the request does not change the configuration of a waiting run. Raises
    InvalidRequestError."""
    kept = config.request or {}
    if not body.store:
        raise _changed_error("store")
    for name, value in select_kept_fields(body).items():
        if name not in _CHANGEABLE and kept.get(name) != value:
            raise _changed_error(name)
    instructions = config.instructions if ":" in body.model else kept.get("instructions")
    if body.instructions is not None and body.instructions != instructions:
        raise _changed_error("instructions")
    registered = config.tools if ":" in body.model else ()  # The agent has its own.
    functions = parse_functions(body)
    own = 0 if ":" in body.model else len(config.inline_tools) - len(functions)
    added = config.inline_tools[max(0, own) :]
    same = (functions, list_registered_tools(body)) == (added, registered)
    same = same and select_kept_fields(body).get(NAMESPACES) == kept.get(NAMESPACES)
    if body.tools is not None and not same:
        raise _changed_error("tools")


def _changed_error(name: str) -> e.InvalidRequestError:
    return parameter_error(
        name, "must be omitted, or must have the same value as in the previous response"
    )
