"""Settling calls from outside: callbacks of tools, and a person's word on an unknown outcome."""

import asyncio
from typing import Annotated, Final

from fastapi import Path, Request, Response

from app.api import shapes
from app.api.answers import answer
from app.api.auth import ApprovalsDecider
from app.api.idempotency import Once, once
from app.api.models.runs import ToolCall
from app.api.params import CallPath, IdempotencyKey, RunPath
from app.api.routes import router
from app.api.services import Using
from app.domain import errors as e
from app.domain.resolve import Callback, Resolution
from app.store import callback_tokens, outside, views
from app.store.db import Tx

routes = router("Runs")
callbacks = router("Callbacks")

EARLY_TRIES: Final = 50
EARLY_SECONDS: Final = 0.1
"""A tool may call back before its own 202 has arrived; that is waited for, for so long."""


@routes.post("/runs/{run_id}/tool_calls/{call_id:path}/resolve", response_model=ToolCall)
async def resolve_tool_call(
    who: ApprovalsDecider,
    services: Using,
    request: Request,
    run_id: RunPath,
    call_id: CallPath,
    resolution: Resolution,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Say what became of a call whose outcome is unknown: its result, its failure, or that it did
    not take effect and is to be sent again."""

    async def resolve(tx: Tx) -> ToolCall:
        await outside.resolve_call(tx, services.vault, who.project_id, run_id, call_id, resolution)
        calls = await views.calls_of(tx, who.project_id, run_id)
        [call] = [one for one in calls if one.call.id == call_id]
        return shapes.tool_call(run_id, call)

    shown = await once(services, Once.of(request, who.project_id, idempotency_key), resolve)
    services.wake_worker()
    return shown


@callbacks.post("/callbacks/{token}", status_code=200, responses={410: {}})
async def call_back(
    services: Using,
    token: Annotated[str, Path(max_length=128, description="From the call's own body.")],
    said: Callback,
) -> Response:
    """A tool that answered 202 delivers progress, its result or its failure. The token is the
    authority: no API key. The first result wins; the same again is fine, another is 409, and one
    that comes after the call has ended otherwise is kept and answered 410."""
    ref = callback_tokens.read(services.vault, token)
    if ref is None:
        raise e.CallbackNotFoundError
    policy = await services.policies.of(ref.project_id)
    for _ in range(EARLY_TRIES):
        async with services.database.pool.begin() as tx:
            found = await outside.take_callback(
                tx, services.vault, ref, said, checked=policy.checks_results
            )
        match found:
            case None:
                services.wake_worker()
                return answer({"accepted": True})
            case outside.Late():
                raise e.LateCallbackError
            case outside.TooEarly():
                await asyncio.sleep(EARLY_SECONDS)
    raise e.TooEarlyError
