"""/v1/responses: start and follow runs with OpenAI's clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query, Response

from runward.api.events.open_streams import Frames, respond_with_stream, start_stream
from runward.api.http.audit import AuditDep
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.dependencies import (
    LiveDep,
    RegistryDep,
    RequestLimitsDep,
    RunQueueDep,
    StorageDep,
)
from runward.api.http.idempotency import REPLAY_HEADERS, IdempotentRequest, RequestKey
from runward.api.http.paging import Page, Pagination, slice_page
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.api.responses import continuation, log_reader, run_request
from runward.api.responses.approval_answers import find_answered_response
from runward.api.responses.compaction import make_unsealer, seal
from runward.api.responses.conversation import parameter_error, parse_conversation
from runward.api.responses.input_items import list_continuation_input, list_initial_input
from runward.api.responses.items import ENCRYPTED, JsonItem, Tokens
from runward.api.responses.log import ResponseLog
from runward.api.responses.models import CompactResponse, CreateResponse, Includable
from runward.api.responses.parts import ResponseId
from runward.api.responses.references import resolve_references
from runward.api.responses.response_models import (
    RESPONSE_STREAM,
    Compaction,
    DeletedResponse,
    ResponseInputItemList,
    ResponseObject,
)
from runward.api.responses.sealed_reasoning import make_seal
from runward.api.runs.acceptance import AcceptResult, accept_once, with_current_agent
from runward.api.runs.cancel import cancel
from runward.api.runs.erase import erase, finish_unstored
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import ProjectId
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.domain.run.items import Item
from runward.services import Live, Registry, RunQueue, Storage
from runward.store.postgres.db import mint
from runward.store.runs import queries

routes = make_router("Responses")

HOLD_SECONDS: Final = 590.0
"""Maximum number of seconds until a response that is neither streamed nor in the background is
sent. OpenAI's clients time out after 600."""
MAX_SEQUENCE: Final = 2**53

_STREAMED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": RESPONSE_STREAM}}}
}
ResponsePath = Annotated[str, Path(description="ID of the response.")]


def _read_included(
    include: Annotated[
        list[Includable] | None,
        Query(
            max_length=16,
            description="Additional data, as in `POST /v1/responses`. The parameter can also have "
            "the name `include[]`, which OpenAI's SDKs use.",
        ),
    ] = None,
    # Generators of clients cannot generate two parameters whose names differ only in brackets.
    in_brackets: Annotated[
        list[Includable] | None, Query(alias="include[]", max_length=16, include_in_schema=False)
    ] = None,
) -> tuple[Includable, ...]:
    return (*(include or ()), *(in_brackets or ()))


Included = Annotated[tuple[Includable, ...], Depends(_read_included)]
"""The additional data that a query asks for."""


@routes.post("/responses", response_model=ResponseObject, responses={**_STREAMED, 404: {}})
async def create_response(
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    queue: RunQueueDep,
    live: LiveDep,
    request_key: RequestKey,
    body: CreateResponse,
) -> Response:
    """Create a response. Runward starts a run, or continues a run that waits for results or
    decisions from the client. By default, Runward responds when the run has ended or waits for the
    client. With `background`, it responds immediately. With `stream`, it returns a stream of
    events."""
    run_request.check_supported(body)

    async def finish(log: ResponseLog) -> None:
        if log.ended and not body.store:
            run_id = log_reader.get_run_id(log)
            await finish_unstored(storage, queue, principal.project_id, run_id, request_key)

    async def streamed() -> Frames:
        log, replayed = await _start_response(
            storage, registry, queue, principal, body, request_key
        )
        frames = _frames(storage, live, principal.project_id, log, finish)
        return frames, REPLAY_HEADERS if replayed else {}

    if body.stream:
        return await start_stream(live, principal, streamed)
    log, replayed = await _start_response(storage, registry, queue, principal, body, request_key)
    headers = REPLAY_HEADERS if replayed else {}
    if body.background:
        async with storage.connect() as tx:
            await log_reader.read_log(tx, principal.project_id, log)
    else:
        await _wait_for_end(storage, live, principal.project_id, log)
        await finish(log)
    return json_response(log.shape(log.snapshot), 200, headers)


async def _start_response(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: CreateResponse,
    request_key: IdempotentRequest,
) -> tuple[ResponseLog, bool]:
    """Return the new response, before any of its events is read, and whether it was created earlier
    with the same idempotency key."""
    seal = make_seal(storage.vault, principal.project_id)
    former = await _load_previous(storage, principal.project_id, body)
    if former is None and (
        found := await find_answered_response(storage, principal.project_id, body.input)
    ):
        former, body = found[0], body.model_copy(update={"input": found[1]})
    if former is not None and continuation.answers_wait(former, body.input):
        id_, made = await continuation.continue_run(
            storage, queue, principal, body, former, request_key
        )
        log = log_reader.create_log(former.view, id_, seal=seal)
        return log, "Idempotent-Replayed" in made.headers
    items = await _load_conversation(storage, principal.project_id, body, former)

    async def start() -> AcceptResult:
        continued_from = former.id.run_id if former else None
        return await run_request.start(
            storage, registry, queue, principal, body, request_key, items, continued_from
        )

    current = with_current_agent(registry, principal.project_id, start)
    accepted = await accept_once(storage, principal, request_key, current)
    run = accepted.run
    if run.erased_at is not None:
        raise not_found.RunErasedError
    return log_reader.create_log(run, ResponseId(run.id), seal=seal), accepted.replayed


async def _load_previous(
    storage: Storage, project_id: ProjectId, body: CreateResponse | CompactResponse
) -> continuation.PreviousResponse | None:
    shown = body.previous_response_id
    if shown is None:
        return None
    return await continuation.load_previous_response(storage, project_id, shown)


async def _load_conversation(
    storage: Storage,
    project_id: ProjectId,
    body: CreateResponse | CompactResponse,
    former: continuation.PreviousResponse | None,
) -> tuple[Item, ...]:
    """Return the history of the previous response, if there is one, and the input. Raises
    InvalidRequestError if both are empty."""
    before = await continuation.load_history(storage, project_id, former) if former else ()
    given = await resolve_references(storage, project_id, body.input)
    items = parse_conversation(given, make_unsealer(storage.vault, project_id), before)
    if not items:
        raise parameter_error("input", "is required")
    return items


async def _wait_for_end(
    storage: Storage, live: Live, project_id: ProjectId, log: ResponseLog
) -> None:
    """Wait until the response has ended, or until HOLD_SECONDS have passed. The caller then shows
    its current state."""
    try:
        async with asyncio.timeout(HOLD_SECONDS):
            async for _ in log_reader.follow_response(storage, live, project_id, log, deltas=False):
                pass
    except TimeoutError:
        return


async def _do_nothing(_log: ResponseLog) -> None:
    pass


async def _frames(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    log: ResponseLog,
    finish: Callable[[ResponseLog], Awaitable[None]] = _do_nothing,
) -> AsyncIterator[str]:
    """Yield the frames. `finish` runs before the last one."""
    async for sent in log_reader.follow_response(storage, live, project_id, log, deltas=True):
        yield "".join(one.frame for one in sent) or ": still here\n\n"
    await finish(log)
    if log.ended:
        yield "data: [DONE]\n\n"


@routes.get("/responses/{response_id}", response_model=ResponseObject, responses=_STREAMED)
async def get_response(
    principal: RunsReader,
    storage: StorageDep,
    live: LiveDep,
    response_id: ResponsePath,
    included: Included,
    stream: Annotated[
        bool, Query(description="Whether to return a stream of the response's events.")
    ] = False,
    starting_after: Annotated[
        int | None,
        Query(
            ge=0,
            le=MAX_SEQUENCE,
            description="`sequence_number` of the last event that the client received. The stream "
            "begins with the next event.",
        ),
    ] = None,
    include_obfuscation: Annotated[
        bool, Query(description="Whether events have random padding. Runward supports only false.")
    ] = False,
) -> Response:
    """Get the current state of a response. With `stream`, Runward returns the events after
    `starting_after` as a stream."""
    if include_obfuscation:
        raise e.UnsupportedParameterError(
            "include_obfuscation",
            "Runward does not add padding to events. Omit `include_obfuscation`.",
        )
    if starting_after is not None and not stream:
        raise parameter_error("query.starting_after", "is allowed only with stream=true")
    view, id_, log = await log_reader.load_response(
        storage, principal.project_id, response_id, included
    )
    if not stream:
        return json_response(log.shape(log.snapshot))
    after = -1 if starting_after is None else starting_after
    seal = make_seal(storage.vault, principal.project_id)
    log = log_reader.create_log(view, id_, after, seal=seal, include=included)
    return respond_with_stream(live, principal, _frames(storage, live, principal.project_id, log))


@routes.delete("/responses/{response_id}")
async def delete_response(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    audit: AuditDep,
    response_id: ResponsePath,
) -> DeletedResponse:
    """Delete a response. Runward cancels its run if the run is open, and erases the content of the
    run with all of its responses. The run's ID, agent, model, status, times, usage and cost are
    kept. Later responses that continue the conversation have their own copy of it."""
    _, id_, _ = await log_reader.load_response(storage, principal.project_id, response_id)
    await erase(storage, queue, principal.project_id, id_.run_id, audit)
    return DeletedResponse(id=str(id_))


@routes.post("/responses/{response_id}/cancel", response_model=ResponseObject)
async def cancel_response(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    audit: AuditDep,
    response_id: ResponsePath,
) -> JsonObject:
    """Cancel a response and its run, even if the run waits for the client. If the response is
    already cancelled, nothing changes. If the run has ended in another way, Runward responds with
    409."""
    view, id_, _ = await log_reader.load_response(storage, principal.project_id, response_id)
    await cancel(storage, queue, principal.project_id, id_.run_id, actor=audit.actor)
    seal = make_seal(storage.vault, principal.project_id)
    log = log_reader.create_log(view, id_, seal=seal)
    async with storage.connect() as tx:
        await log_reader.read_log(tx, principal.project_id, log)
    return log.shape(log.snapshot)


@routes.get(
    "/responses/{response_id}/input_items",
    response_model=ResponseInputItemList,
    summary="List a response's input items",
)
async def list_input_items(
    principal: RunsReader,
    storage: StorageDep,
    response_id: ResponsePath,
    pagination: Pagination,
    included: Included,
) -> Page[JsonItem]:
    """List the input items of a response. If the response continues a waiting run, the items are
    the results and decisions that the client submitted. Otherwise, they are the input of the
    request and the conversation before it."""
    view, id_, log = await log_reader.load_response(storage, principal.project_id, response_id)
    async with storage.connect() as tx:
        found = await queries.load(tx, principal.project_id, id_.run_id)
        before = await log_reader.read_previous_response(tx, principal.project_id, view, log)
        messages = (
            await log_reader.count_messages(tx, principal.project_id, id_) if id_.after else 0
        )
    assert found is not None
    run = id_.run_id.hex
    state = found[1]
    seal = make_seal(storage.vault, principal.project_id) if ENCRYPTED in included else None
    shown = list_initial_input(run, state, seal)
    if id_.after:
        shown = list_continuation_input(run, before, state, messages)
    return slice_page(shown, pagination, lambda item: str(item["id"]))


@routes.post("/responses/compact", responses={404: {}}, summary="Compact a conversation")
async def compact_response(
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    limits: RequestLimitsDep,
    body: CompactResponse,
) -> Compaction:
    """Compact a conversation into one encrypted item. Later requests can use this item as input in
    place of the conversation. Runward does not summarize the conversation and does not call a
    model."""
    await run_request.resolve_model(
        storage, registry, principal.project_id, run_request.build_model_request(body.model)
    )
    former = await _load_previous(storage, principal.project_id, body)
    items = await _load_conversation(storage, principal.project_id, body, former)
    id_ = f"cmp_{mint().hex}"
    item: JsonObject = {
        "type": "compaction",
        "id": id_,
        "encrypted_content": seal(
            storage.vault, principal.project_id, items, limits.max_body_bytes
        ),
    }
    return Compaction(id=id_, created_at=int(time.time()), output=[item], usage=Tokens().usage)
