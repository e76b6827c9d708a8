"""/v1/approvals: list and read approvals."""

from typing import Annotated

from fastapi import Query

from runward.api.approvals.models import Approval
from runward.api.http.auth import ApprovalsReader
from runward.api.http.dependencies import StorageDep
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ApprovalPath, MaxArgumentsBytes
from runward.api.http.routes import make_router
from runward.domain import not_found
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import Prefix, RunId, parse_id
from runward.store.runs import approvals

routes = make_router("Approvals")


@routes.get("/approvals")
async def list_approvals(
    principal: ApprovalsReader,
    storage: StorageDep,
    pagination: Pagination,
    status: Annotated[
        ApprovalStatus | None,
        Query(
            description="Return only approvals with this status. `pending` returns the approvals "
            "that need a decision."
        ),
    ] = None,
    run_id: Annotated[
        str | None, Query(max_length=64, description="Return only approvals of this run.")
    ] = None,
    tool: Annotated[
        str | None, Query(max_length=64, description="Return only approvals for this tool.")
    ] = None,
    max_arguments_bytes: MaxArgumentsBytes = None,
) -> Page[Approval]:
    """List approvals, newest first. If the run does not exist, the list is empty."""
    run = None if run_id is None else parse_id(Prefix.RUN, run_id)
    if run_id is not None and run is None:
        return pagination.page([], Approval.from_row, lambda approval: approval.id)
    async with storage.connect() as tx:
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
    """Get an approval, whether it is pending or decided."""
    async with storage.connect() as tx:
        found = await approvals.get(tx, principal.project_id, approval_id)
    if found is None:
        raise not_found.ApprovalNotFoundError
    return Approval.from_row(found, max_arguments_bytes)
