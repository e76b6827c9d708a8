"""/v1/chat/completions: start runs with clients of OpenAI's Chat Completions API."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

from fastapi import Response

from runward.api.completions import completion
from runward.api.completions.completion import AbandonedTextError, ChunkWriter, CompletionInfo
from runward.api.completions.request_models import CreateChatCompletion
from runward.api.completions.response_models import CHUNK_STREAM, ChatCompletion
from runward.api.completions.start import start
from runward.api.events.open_streams import Frames, start_stream
from runward.api.http.auth import RunsWriter
from runward.api.http.dependencies import LiveDep, RegistryDep, RunQueueDep, StorageDep
from runward.api.http.idempotency import REPLAY_HEADERS, IdempotentRequest, RequestKey
from runward.api.http.openai_errors import build_openai_error, make_openai_response
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.api.responses.log import ResponseLog
from runward.api.responses.log_reader import follow_response
from runward.api.responses.parts import ResponseSnapshot
from runward.api.responses.routes import HOLD_SECONDS
from runward.api.runs.acceptance import AcceptResult, accept_once, with_current_agent
from runward.api.runs.cancel import cancel
from runward.api.runs.erase import finish_unstored
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.events.values import CallReason
from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.registry.scopes import Principal
from runward.services import Live, Registry, RunQueue, Storage

routes = make_router("Chat completions")

RUN_ID_HEADER: Final = "Runward-Run-Id"
_HEADERS: Final = {
    RUN_ID_HEADER: {
        "description": "ID of the run (`run_…`).",
        "schema": {"type": "string"},
    }
}
_NEVER_RETRY: Final = {"x-should-retry": "false"}


@routes.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses={
        200: {"content": {"text/event-stream": {"schema": CHUNK_STREAM}}, "headers": _HEADERS},
        404: {},
    },
)
async def create_chat_completion(
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    queue: RunQueueDep,
    live: LiveDep,
    request_key: RequestKey,
    body: CreateChatCompletion,
) -> Response:
    """Create a chat completion. Runward starts a run with the messages as its input, and responds
    when the run has ended or waits for functions of the client. If a tool call requires approval,
    Runward waits for the decision."""
    project_id = principal.project_id
    if not body.stream:
        found = await _accept(storage, registry, queue, principal, body, request_key)
        log = completion.create_log(found.run)
        await _wait_for_end(storage, live, project_id, log)
        await _close(storage, queue, project_id, found, log, request_key)
        return _respond(_describe(found, body), log, _make_headers(found))

    async def streamed() -> Frames:
        found = await _accept(storage, registry, queue, principal, body, request_key)
        frames = _frames(storage, queue, live, project_id, found, body, request_key)
        return frames, _make_headers(found)

    return await start_stream(live, principal, streamed)


async def _accept(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: CreateChatCompletion,
    request_key: IdempotentRequest,
) -> AcceptResult:
    async def accept() -> AcceptResult:
        return await start(storage, registry, queue, principal, body, request_key)

    current = with_current_agent(registry, principal.project_id, accept)
    found = await accept_once(storage, principal, request_key, current)
    if found.run.erased_at is not None:
        raise not_found.RunErasedError
    return found


def _describe(found: AcceptResult, body: CreateChatCompletion) -> CompletionInfo:
    return CompletionInfo.from_run(found.run, body.model)


def _make_headers(found: AcceptResult) -> dict[str, str]:
    headers = {RUN_ID_HEADER: CompletionInfo.from_run(found.run, "").run_id}
    return headers | REPLAY_HEADERS if found.replayed else headers


async def _wait_for_end(
    storage: Storage, live: Live, project_id: ProjectId, log: ResponseLog
) -> None:
    """Wait until the completion has ended, or until HOLD_SECONDS have passed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HOLD_SECONDS):
            async for _ in follow_response(storage, live, project_id, log, deltas=False):
                pass


async def _close(
    storage: Storage,
    queue: RunQueue,
    project_id: ProjectId,
    found: AcceptResult,
    log: ResponseLog,
    request_key: IdempotentRequest,
) -> None:
    """Cancel a run that waits for functions of the client. The next request contains their results,
    and starts a new run. Erase a run with `store: false`."""
    if log.ended and found.run.erase_at_end:
        await finish_unstored(storage, queue, project_id, found.run.id, request_key)
    elif log.ended and completion.list_tool_calls(log.snapshot):
        with suppress(e.RunEndedError):
            reason = CallReason.RETURNED_TO_CLIENT
            await cancel(storage, queue, project_id, found.run.id, reason=reason)


def _respond(info: CompletionInfo, log: ResponseLog, headers: Mapping[str, str]) -> Response:
    error = _find_error(info, log)
    if error is None:
        return json_response(completion.build_completion(info, log.snapshot), 200, headers)
    status, code, message = error
    return make_openai_response(status, code, message, [], {**headers, **_NEVER_RETRY})


def _find_error(info: CompletionInfo, log: ResponseLog) -> tuple[int, str, str] | None:
    """Return the status, the code and the message of a completion that did not end, or whose run
    failed."""
    found: ResponseSnapshot = log.snapshot
    if not log.ended:
        why = "has not ended, or waits for a decision. Retrieve the run to see its current state."
        return 409, "run_not_ended", f"The run {info.run_id} {why}"
    if found.error is not None:
        limited = found.error["code"] == "rate_limit_exceeded"
        text = f"The run {info.run_id} failed with {found.error['message']}"
        return 429 if limited else 500, "run_failed", text
    if found.status == "cancelled":
        return 409, "run_cancelled", f"The run {info.run_id} was cancelled."
    return None


async def _frames(
    storage: Storage,
    queue: RunQueue,
    live: Live,
    project_id: ProjectId,
    accepted: AcceptResult,
    body: CreateChatCompletion,
    request_key: IdempotentRequest,
) -> AsyncIterator[str]:
    info, log = _describe(accepted, body), completion.create_log(accepted.run)
    writer = ChunkWriter(info)
    yield writer.begin()
    async with aclosing(follow_response(storage, live, project_id, log, deltas=True)) as batches:
        async for events in batches:
            try:
                chunks = "".join(map(writer.convert, events))
            except AbandonedTextError:
                why = "repeated a model request, and its text differs from the text of this stream."
                yield _frame_error(500, "text_abandoned", f"The run {info.run_id} {why}")
                return
            if chunks or not events:
                yield chunks or ": waiting\n\n"
    await _close(storage, queue, project_id, accepted, log, request_key)
    error = _find_error(info, log)
    if error is not None:
        yield _frame_error(*error)
    else:
        options = body.stream_options
        include_usage = options is not None and options.include_usage
        yield writer.end(log.snapshot, include_usage=include_usage)


def _frame_error(status: int, code: str, message: str) -> str:
    error: dict[str, Any] = build_openai_error(status, code, message, [])
    return f"data: {compact(error)}\n\n"
