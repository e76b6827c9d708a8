"""/v1/responses/input_tokens: estimate the number of input tokens of a response."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from runward.api.http.auth import RunsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.routes import make_router
from runward.api.responses import continuation, run_request
from runward.api.responses.compaction import make_unsealer
from runward.api.responses.continuation import Answers, PreviousResponse
from runward.api.responses.conversation import parse_conversation, parse_output
from runward.api.responses.models import CountInputTokens, CreateResponse
from runward.api.responses.references import resolve_references
from runward.domain import not_found
from runward.domain.ids import CallId, ProjectId
from runward.domain.json import compact
from runward.domain.registry.tools import ToolSpec
from runward.domain.run.config import AgentConfig
from runward.domain.run.conversation import build_conversation
from runward.domain.run.history import BYTES_A_TOKEN, estimate_bytes, trimmed_history
from runward.domain.run.items import Item, ToolResult
from runward.services import Storage
from runward.store.registry import tool_registry
from runward.store.runs import queries, session_items, sessions

routes = make_router("Responses")

_MAX_SEQ: Final = 2**62


class InputTokens(ResponseModel):
    """The estimated number of input tokens."""

    model_config = with_example(input_tokens=11)

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int
    """Estimated number of input tokens: one for every four bytes of the instructions, the tools and
    the conversation. An image or a file counts as 1,000 tokens."""


@routes.post("/responses/input_tokens", responses={404: {}}, summary="Count input tokens")
async def count_input_tokens(
    principal: RunsWriter, storage: StorageDep, registry: RegistryDep, body: CountInputTokens
) -> InputTokens:
    """Estimate the number of input tokens of a response. Runward does not create the response and
    does not ask the provider."""
    project_id = principal.project_id
    request = CreateResponse.model_construct(body.model_fields_set, **dict(body))
    run_request.check_supported(request)
    config, functions = AgentConfig(), run_request.parse_functions(request)
    if body.model:
        _, resolved = await run_request.resolve(storage, registry, project_id, request)
        config = resolved.config
    items = await _load_items(storage, project_id, request, config)
    async with storage.connect() as tx:
        tools = await tool_registry.find_tools(tx, project_id, config.tools)
    specs = (*functions, *(one.spec for one in tools))
    instructions = config.instructions or body.instructions or ""
    size = len(instructions.encode()) + estimate_bytes(items) + _estimate_tools(specs)
    if config.output_schema is not None:
        size += len(compact(config.output_schema).encode())
    return InputTokens(input_tokens=-(-size // BYTES_A_TOKEN))


def _estimate_tools(specs: Iterable[ToolSpec]) -> int:
    return sum(len(compact([one.name, one.description, one.parameters]).encode()) for one in specs)


async def _load_items(
    storage: Storage, project_id: ProjectId, body: CreateResponse, config: AgentConfig
) -> Sequence[Item]:
    """Return the earlier conversation and the input. Raises AppErrors."""
    before: tuple[Item, ...] = ()
    if body.previous_response_id is not None:
        former = await continuation.load_previous_response(
            storage, project_id, body.previous_response_id
        )
        if continuation.answers_wait(former, body.input):
            return await _load_answered(storage, project_id, former, body)
        before = await continuation.load_history(storage, project_id, former)
    elif (session_id := run_request.parse_session(body)) is not None:
        async with storage.connect() as tx:
            if await sessions.get(tx, project_id, session_id) is None:
                raise not_found.SessionNotFoundError
            history = await session_items.load_history(tx, project_id, session_id, _MAX_SEQ)
        before = trimmed_history(history, config.history)
    given = await resolve_references(storage, project_id, body.input)
    return parse_conversation(given, make_unsealer(storage.vault, project_id), before)


async def _load_answered(
    storage: Storage, project_id: ProjectId, former: PreviousResponse, body: CreateResponse
) -> Sequence[Item]:
    """Return the conversation of a waiting run and the client's answers."""
    answers = Answers.parse(body.input)
    async with storage.connect() as tx:
        found = await queries.load(tx, project_id, former.id.run_id)
    assert found is not None
    results = [ToolResult(CallId(one.call_id), parse_output(one)) for one in answers.outputs]
    return (*build_conversation(found[1]), *results, *answers.messages)
