"""Settling calls from outside: what clients and tools' callbacks say, and a person's word on an
unknown outcome."""

import asyncio
from typing import Annotated, Final, Literal

from fastapi import Path, Response

from runward.api.http.auth import ApprovalsDecider, RunsReader, RunsWriter
from runward.api.http.dependencies import RunQueueDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.params import CallPath, MaxArgumentsBytes, RunPath
from runward.api.http.routes import make_router
from runward.api.runs.call_models import ToolCall
from runward.api.runs.request_models import ClientResult
from runward.domain import errors as e
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.run.resolve import Callback, Resolution
from runward.store.postgres.db import Tx
from runward.store.registry import policies
from runward.store.runs import client_results, transitions, views

routes = make_router("Runs")
callbacks = make_router("Callbacks")

MAX_EARLY_ATTEMPTS: Final = 50
EARLY_RETRY_SECONDS: Final = 0.1
"""A tool may call back before its own 202 has arrived; that is waited for, for so long."""


class Accepted(ResponseModel):
    """What a tool said has been taken in."""

    model_config = with_example(accepted=True)

    accepted: Literal[True]
    """true."""


@routes.get("/runs/{run_id}/tool_calls/{call_id:path}", summary="Get tool call")
async def get_tool_call(
    principal: RunsReader,
    storage: StorageDep,
    run_id: RunPath,
    call_id: CallPath,
    max_arguments_bytes: MaxArgumentsBytes = None,
) -> ToolCall:
    """Show one call of a run."""
    async with storage.read() as tx:
        found = await views.list_calls(tx, principal.project_id, run_id, call_id=call_id)
    if not found:
        raise e.CallNotFoundError
    return ToolCall.from_row(run_id, found[0], max_arguments_bytes)


@routes.post(
    "/runs/{run_id}/tool_calls/{call_id:path}/resolve",
    response_model=ToolCall,
    summary="Settle a call whose outcome is unknown",
)
async def resolve_tool_call(
    principal: ApprovalsDecider,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    run_id: RunPath,
    call_id: CallPath,
    resolution: Resolution,
) -> Response:
    """Say what became of a call whose outcome is unknown: its result, its failure, or that it did
    not take effect and is to be sent again."""

    async def resolve(tx: Tx) -> ToolCall:
        await transitions.resolve_call(
            tx, storage.vault, principal.project_id, run_id, call_id, resolution
        )
        return await _read_call(tx, principal.project_id, run_id, call_id)

    shown = await respond_once(storage, request_key, resolve)
    queue.wake_worker()
    return shown


@routes.post(
    "/runs/{run_id}/tool_calls/{call_id:path}/result",
    response_model=ToolCall,
    summary="Give the result of a client's tool",
)
async def give_tool_result(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    run_id: RunPath,
    call_id: CallPath,
    result: ClientResult,
) -> Response:
    """Give the result of a tool that the client runs, or answer what a tool asks. The first result
    wins; the same again is fine, another is 409."""

    async def give(tx: Tx) -> ToolCall:
        policy = await policies.get_policy(tx, principal.project_id)
        await client_results.submit_result(
            tx,
            storage.vault,
            principal.project_id,
            run_id,
            call_id,
            result.to_answer(),
            project_has_checks=policy.checks_results,
        )
        return await _read_call(tx, principal.project_id, run_id, call_id)

    shown = await respond_once(storage, request_key, give)
    queue.wake_worker()
    return shown


async def _read_call(tx: Tx, project_id: ProjectId, run_id: RunId, call_id: CallId) -> ToolCall:
    [call] = await views.list_calls(tx, project_id, run_id, call_id=call_id)
    return ToolCall.from_row(run_id, call)


@callbacks.post("/callbacks/{token}", responses={410: {}}, summary="Deliver progress or a result")
async def call_back(
    storage: StorageDep,
    queue: RunQueueDep,
    token: Annotated[str, Path(max_length=128, description="From the call's own body.")],
    callback: Callback,
) -> Accepted:
    """A tool that answered 202 delivers progress, its result or its failure, or asks the caller
    something. The token is the authority: no API key. The first result wins; the same again is
    fine, another is 409, and one that comes after the call has ended otherwise is kept and
    answered 410."""
    vault = storage.vault
    ref = vault.read_callback_token(token)
    if ref is None:
        raise e.CallbackNotFoundError
    for _ in range(MAX_EARLY_ATTEMPTS):
        async with storage.write() as tx:
            policy = await policies.get_policy(tx, ref.project_id)
            found = await transitions.take_callback(
                tx, storage.vault, ref, callback, project_has_checks=policy.checks_results
            )
        match found:
            case None:
                queue.wake_worker()
                return Accepted(accepted=True)
            case transitions.LateCallback():
                raise e.LateCallbackError
            case transitions.EarlyCallback():
                await asyncio.sleep(EARLY_RETRY_SECONDS)
    raise e.TooEarlyError
