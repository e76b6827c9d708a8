"""`POST /v1/approvals/{id}/decision`: decide an approval."""

from fastapi import Response

from runward.api.approvals.models import Approval
from runward.api.http.auth import ApprovalsDecider
from runward.api.http.dependencies import RunQueueDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.params import ApprovalPath
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain.ids import RunId
from runward.domain.run.decisions import Decision
from runward.store.postgres.db import Tx
from runward.store.runs import decisions, transitions

routes = make_router("Approvals")


@routes.post(
    "/approvals/{approval_id}/decision", response_model=Approval, summary="Decide on an approval"
)
async def decide_approval(
    principal: ApprovalsDecider,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    approval_id: ApprovalPath,
    decision: Decision,
) -> Response:
    """Decide on an approval. The run then continues automatically. Runward accepts only the first
    decision. If a client repeats it, Runward returns the same response. If a client sends a
    different decision, Runward responds with 409, and the error contains the first decision."""
    run_id: RunId | None = None

    async def decide(tx: Tx) -> Approval:
        nonlocal run_id
        decided = await decisions.decide(tx, storage.vault, principal, approval_id, decision)
        run_id = decided.run_id
        return Approval.from_row(decided)

    try:
        shown = await respond_once(storage, request_key, decide)
    # The approval may still be pending although its run has ended.
    except e.ApprovalAlreadyDecidedError:
        async with storage.begin() as tx:
            await transitions.expire_approval(tx, principal.project_id, approval_id)
        raise
    queue.wake_worker(run_id)
    return shown
