"""Results of tool calls from outside: from clients, from the callbacks of tools, and from people
who record unknown outcomes."""

import asyncio
from typing import Annotated, Final, Literal

from fastapi import Path, Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import ApprovalsDecider, RunsReader, RunsWriter
from runward.api.http.dependencies import RunQueueDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.models import ResponseModel, with_example
from runward.api.http.params import CallPath, MaxArgumentsBytes, RunPath
from runward.api.http.routes import make_router
from runward.api.runs.answers import load_content
from runward.api.runs.call_models import ToolCall
from runward.api.runs.request_models import SubmitToolResult
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.run.resolve import Callback, Resolution
from runward.store.postgres.db import Tx
from runward.store.postgres.project_scope import restrict_to
from runward.store.registry import policies
from runward.store.runs import client_results, transitions, views

routes = make_router("Runs")
callbacks = make_router("Callbacks")

MAX_EARLY_ATTEMPTS: Final = 50
EARLY_RETRY_SECONDS: Final = 0.1
"""Maximum number of seconds that a callback waits for the tool's own 202 response. The callback can
arrive before this response."""


class CallbackReceipt(ResponseModel):
    """Runward has accepted the callback."""

    model_config = with_example(accepted=True)

    accepted: Literal[True]
    """Always true."""


@routes.get("/runs/{run_id}/tool_calls/{call_id:path}", summary="Get a tool call")
async def get_tool_call(
    principal: RunsReader,
    storage: StorageDep,
    run_id: RunPath,
    call_id: CallPath,
    max_arguments_bytes: MaxArgumentsBytes = None,
) -> ToolCall:
    """Get one tool call of a run."""
    async with storage.connect() as tx:
        found = await views.list_calls(tx, principal.project_id, run_id, call_id=call_id)
        if not found:
            raise not_found.CallNotFoundError
        await load_content(tx, principal.project_id, run_id)
    return ToolCall.from_row(run_id, found[0], max_arguments_bytes)


@routes.post(
    "/runs/{run_id}/tool_calls/{call_id:path}/resolve",
    response_model=ToolCall,
    summary="Resolve an unknown outcome",
)
async def resolve_tool_call(
    principal: ApprovalsDecider,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    audit: AuditDep,
    run_id: RunPath,
    call_id: CallPath,
    resolution: Resolution,
) -> Response:
    """Record the outcome of a tool call whose outcome is unknown: it completed, it failed, or it
    did not take effect. If it did not take effect, Runward sends the call again."""

    async def resolve(tx: Tx) -> ToolCall:
        await transitions.resolve_call(
            tx, storage.vault, principal.project_id, run_id, call_id, resolution
        )
        call = await _read_call(tx, principal.project_id, run_id, call_id)
        after: JsonObject = {"tool": call.tool, "resolution": resolution.resolution}
        await audit.record(tx, AuditAction.TOOL_CALL_RESOLVED, call_id, after=after, run_id=run_id)
        return call

    shown = await respond_once(storage, request_key, resolve)
    queue.wake_worker(run_id)
    return shown


@routes.post(
    "/runs/{run_id}/tool_calls/{call_id:path}/result",
    response_model=ToolCall,
    summary="Submit a tool result",
)
async def submit_tool_result(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    run_id: RunPath,
    call_id: CallPath,
    result: SubmitToolResult,
) -> Response:
    """Submit the result of a tool that the client runs, or the input that a tool requests. Runward
    accepts only the first result. If a client repeats it, nothing changes. If a client sends a
    different result, Runward responds with 409."""

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
    queue.wake_worker(run_id)
    return shown


async def _read_call(tx: Tx, project_id: ProjectId, run_id: RunId, call_id: CallId) -> ToolCall:
    [call] = await views.list_calls(tx, project_id, run_id, call_id=call_id)
    return ToolCall.from_row(run_id, call)


@callbacks.post("/callbacks/{token}", responses={410: {}}, summary="Submit a callback")
async def submit_callback(
    storage: StorageDep,
    queue: RunQueueDep,
    token: Annotated[
        str,
        Path(
            max_length=128,
            description="Callback token from the request that Runward sent to the tool.",
        ),
    ],
    callback: Callback,
) -> CallbackReceipt:
    """Submit progress, a result, a failure, or a request for input for a tool call that the tool
    accepted with 202. The token authorizes the request, so no API key is needed. Runward accepts
    only the first result. If the tool repeats it, nothing changes. If the tool sends a different
    result, Runward responds with 409. If the call has already ended, Runward stores the result and
    responds with 410."""
    vault = storage.vault
    ref = vault.read_callback_token(token)
    if ref is None:
        raise not_found.CallbackNotFoundError
    restrict_to(ref.project_id)
    for _ in range(MAX_EARLY_ATTEMPTS):
        async with storage.begin() as tx:
            policy = await policies.get_policy(tx, ref.project_id)
            found = await transitions.take_callback(
                tx, storage.vault, ref, callback, project_has_checks=policy.checks_results
            )
        match found:
            case None:
                queue.wake_worker(ref.run_id)
                return CallbackReceipt(accepted=True)
            case transitions.LateCallback():
                raise e.LateCallbackError
            case transitions.EarlyCallback():
                await asyncio.sleep(EARLY_RETRY_SECONDS)
    raise e.TooEarlyError
