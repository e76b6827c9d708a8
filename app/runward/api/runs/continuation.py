"""Accept a run that continues another one."""

from dataclasses import replace

from runward.api.http.idempotency import IdempotentRequest
from runward.api.runs.acceptance import (
    AcceptResult,
    accept_in_session,
    accept_in_transaction,
    accept_once,
)
from runward.api.runs.request_models import ContinueRun, build_messages
from runward.domain import errors as e
from runward.domain.ids import RunId, SessionId
from runward.domain.registry.scopes import Principal
from runward.services import RunQueue, Storage
from runward.store.runs import continuation
from runward.store.runs.queue import NewRun


async def accept_continuation(
    storage: Storage,
    queue: RunQueue,
    principal: Principal,
    run_id: RunId,
    body: ContinueRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """After this the new run is committed. Raises AppErrors."""

    async def start() -> AcceptResult:
        async with storage.read() as tx:
            messages = () if body.input is None else build_messages(body.input)
            found = await continuation.prepare(
                tx, principal.project_id, run_id, turns=body.max_turns, messages=messages
            )
        new = request_key.with_key(
            replace(found.run, state=replace(found.run.state, created_by=principal.key_id))
        )
        accepted = await _accept(storage, queue, new, found.session_id)
        return replace(accepted, run=replace(accepted.run, agent=found.agent))

    return await accept_once(storage, request_key, start)


async def _accept(
    storage: Storage, queue: RunQueue, new: NewRun, session_id: SessionId | None
) -> AcceptResult:
    """Raises AppErrors."""
    if session_id is None:
        return await accept_in_transaction(storage, queue, new, continuation.copy_history)
    try:
        return await accept_in_session(
            storage, queue, new, session_id, after_accept=continuation.copy_history
        )
    except e.SessionNotFoundError:
        raise e.ConflictError("The session of this run has been deleted.") from None
