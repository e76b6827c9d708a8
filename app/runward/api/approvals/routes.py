"""/v1/approvals: the inbox, and decisions."""

from typing import Annotated

from fastapi import Query, Request, Response

from runward.api.approvals.models import Approval
from runward.api.http.auth import ApprovalsDecider, ApprovalsReader
from runward.api.http.dependencies import RunQueueDep, StorageDep
from runward.api.http.idempotency import IdempotentRequest, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ApprovalPath, IdempotencyKey, MaxArgumentsBytes
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import Prefix, RunId, format_id, parse_id
from runward.domain.run.decisions import Decision
from runward.store.postgres.db import Tx
from runward.store.runs import approvals, decisions

routes = make_router("Approvals")


@routes.get("/approvals")
async def list_approvals(
    principal: ApprovalsReader,
    storage: StorageDep,
    pagination: Pagination,
    status: Annotated[ApprovalStatus | None, Query(description="`pending` is the inbox.")] = None,
    run_id: Annotated[
        str | None, Query(max_length=64, description="Only those of one run.")
    ] = None,
    tool: Annotated[str | None, Query(max_length=64, description="Only those of one tool.")] = None,
    max_arguments_bytes: MaxArgumentsBytes = None,
) -> Page[Approval]:
    """List approvals. An unknown run has none."""
    run = None if run_id is None else parse_id(Prefix.RUN, run_id)
    if run_id is not None and run is None:
        return pagination.page([], Approval.from_row, lambda approval: approval.id)
    async with storage.read() as tx:
        found = await approvals.search(
            tx,
            principal.project_id,
            status=status,
            run_id=None if run is None else RunId(run),
            tool=tool,
            **pagination.by_id(Prefix.APPROVAL),
        )
    return pagination.page(
        found, lambda row: Approval.from_row(row, max_arguments_bytes), lambda approval: approval.id
    )


@routes.get("/approvals/{approval_id}")
async def get_approval(
    principal: ApprovalsReader,
    storage: StorageDep,
    approval_id: ApprovalPath,
    max_arguments_bytes: MaxArgumentsBytes = None,
) -> Approval:
    """One approval, pending or not."""
    async with storage.read() as tx:
        found = await approvals.get(tx, principal.project_id, approval_id)
    if found is None:
        raise e.ApprovalNotFoundError
    return Approval.from_row(found, max_arguments_bytes)


@routes.post(
    "/approvals/{approval_id}/decision", response_model=Approval, summary="Decide about a call"
)
async def decide_approval(
    principal: ApprovalsDecider,
    storage: StorageDep,
    queue: RunQueueDep,
    request: Request,
    approval_id: ApprovalPath,
    decision: Decision,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Decide about one call; the run goes on by itself. The first decision wins: the same again
    is answered like the first, another with 409 and the one that won."""
    by = format_id(Prefix.KEY, principal.key_id)

    async def decide(tx: Tx) -> Approval:
        return Approval.from_row(
            await decisions.decide(
                tx, storage.vault, principal.project_id, approval_id, decision, by
            )
        )

    try:
        shown = await respond_once(
            storage,
            IdempotentRequest.from_request(request, principal.project_id, idempotency_key),
            decide,
        )
    except e.ApprovalAlreadyDecidedError:  # it may be pending still, and its run have ended
        async with storage.write() as tx:
            await decisions.expire_approval(tx, principal.project_id, approval_id)
        raise
    queue.wake_worker()
    return shown
