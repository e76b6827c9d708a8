"""Erase runs: on request, with their session, and with `store: false` when the client has the
response."""

from contextlib import suppress
from typing import Final

import structlog

from runward.api.http.audit import Audit
from runward.api.http.idempotency import IdempotentRequest
from runward.api.runs.answers import load_content
from runward.api.runs.cancel import cancel
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id
from runward.services import RunQueue, Storage
from runward.store.access import holds
from runward.store.postgres.db import DATABASE_ERRORS, log_fields
from runward.store.runs import erasure, sessions

SESSION_BATCH: Final = 1_000
"""Number of runs of a session that `erase_session` reads at once."""

log = structlog.get_logger()


async def erase(
    storage: Storage,
    queue: RunQueue,
    project_id: ProjectId,
    run_id: RunId,
    audit: Audit | None = None,
) -> None:
    """Cancel the run if it is open, and erase its content and that of its child runs. Raises
    RunNotFoundError, RunErasedError, LegalHoldError, and ConflictError for a child run."""
    async with storage.connect() as tx:
        view = await load_content(tx, project_id, run_id)
        await holds.ensure_run_is_free(tx, project_id, run_id)
    if view.parent_run_id is not None:
        parent = format_id(Prefix.RUN, view.parent_run_id)
        raise e.ConflictError(
            f"This run is a child run. Its content is erased with its parent run {parent}."
        )
    with suppress(e.RunEndedError):
        await cancel(storage, queue, project_id, run_id)
    async with storage.begin() as tx:
        has_effect = await erasure.erase(tx, project_id, run_id)
        if audit is not None and has_effect:
            await audit.record(
                tx, AuditAction.RUN_ERASED, format_id(Prefix.RUN, run_id), run_id=run_id
            )


async def erase_session(
    storage: Storage, queue: RunQueue, project_id: ProjectId, session_id: SessionId, audit: Audit
) -> None:
    """Erase all runs of the session, one after another. A repeated call continues. Raises
    SessionNotFoundError, and LegalHoldError before it erases anything."""
    async with storage.connect() as tx:
        if await sessions.get(tx, project_id, session_id) is None:
            raise not_found.SessionNotFoundError
        if await holds.is_session_held(tx, project_id, session_id):
            raise e.LegalHoldError
    while True:
        async with storage.connect() as tx:
            run_ids = await erasure.list_of_session(tx, project_id, session_id, SESSION_BATCH)
        if not run_ids:
            return
        for run_id in run_ids:
            with suppress(not_found.RunErasedError):
                await erase(storage, queue, project_id, run_id, audit)


async def finish_unstored(
    storage: Storage,
    queue: RunQueue,
    project_id: ProjectId,
    run_id: RunId,
    request_key: IdempotentRequest,
) -> None:
    """Cancel and erase a run with `store: false` when its client has the response. If the request
    has an idempotency key, the client may repeat the request, so the run is only cancelled. The
    sweep erases it later, also if the database fails here or the run is under a legal hold."""
    try:
        if request_key.key is None:
            await erase(storage, queue, project_id, run_id)
        else:
            await cancel(storage, queue, project_id, run_id)
    except (e.RunEndedError, not_found.RunErasedError):
        return
    except e.LegalHoldError:
        with suppress(e.RunEndedError):
            await cancel(storage, queue, project_id, run_id)
    except DATABASE_ERRORS as error:
        log.warning("erasure_failed", run=format_id(Prefix.RUN, run_id), **log_fields(error))
