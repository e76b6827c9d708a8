"""/v1/retention, /v1/legal_holds and /v1/erasures."""

from fastapi import Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import Admin, RunsReader, RunsWriter
from runward.api.http.dependencies import RetentionDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import ErasurePath, LegalHoldPath
from runward.api.http.routes import make_router
from runward.api.retention.models import (
    ClassPreview,
    CreateErasure,
    Erasure,
    LegalHold,
    PutLegalHold,
    PutRetention,
    Retention,
    RetentionPreview,
    parse_held_id,
)
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id, parse_any_id
from runward.domain.retention import DataClass, HoldKind, RetentionLimits
from runward.store.access import holds
from runward.store.postgres.db import Tx
from runward.store.retention import choices, cleaner, erasures
from runward.store.runs import sessions, views

routes = make_router("Retention")


@routes.get("/retention", summary="Get the retention")
async def get_retention(principal: Admin, storage: StorageDep, limits: RetentionDep) -> Retention:
    """Get the number of days for which Runward keeps each class of data of the project."""
    async with storage.connect() as tx:
        choice = await choices.get_choice(tx, principal.project_id)
    return Retention.from_choice(limits, choice)


@routes.put("/retention", summary="Replace the retention")
async def put_retention(
    principal: Admin,
    storage: StorageDep,
    limits: RetentionDep,
    audit: AuditDep,
    retention: PutRetention,
) -> Retention:
    """Replace the complete retention of the project. Runward removes older data within some
    minutes, and cannot restore it. Use the preview first."""
    choice = _check_choice(limits, retention)
    async with storage.begin() as tx:
        former = await choices.get_choice(tx, principal.project_id, lock=True)
        await choices.put_choice(tx, principal.project_id, choice)
        before = Retention.from_choice(limits, former)
        after = Retention.from_choice(limits, {**choice})
        await audit.record(
            tx, AuditAction.RETENTION_UPDATED, audit.project, before=before, after=after
        )
    return after


@routes.post("/retention/preview", summary="Preview the retention")
async def preview_retention(
    principal: Admin,
    storage: StorageDep,
    limits: RetentionDep,
    retention: PutRetention | None = None,
) -> RetentionPreview:
    """Count the rows that Runward would remove now with this retention, without removing them.
    If the request has no body, Runward uses the current retention of the project."""
    choice: dict[str, int | None]
    if retention is None:
        async with storage.connect() as tx:
            choice = {**await choices.get_choice(tx, principal.project_id)}
    else:
        choice = {**_check_choice(limits, retention)}

    async def count(tx: Tx) -> dict[DataClass, ClassPreview]:
        return {
            name: ClassPreview.from_row(
                await cleaner.preview(
                    tx, principal.project_id, name, limits.find_days(name, choice)
                )
            )
            for name in DataClass
        }

    return RetentionPreview.model_validate(await storage.read_lagging(count))


def _check_choice(limits: RetentionLimits, retention: PutRetention) -> dict[DataClass, int | None]:
    """Return the choice. Raises InvalidRequestError if it exceeds the maximum."""
    choice = retention.get_choice()
    wrong = [
        FieldError(name, f"must be a number up to {maximum}, the maximum of this deployment")
        for name, days in choice.items()
        if (maximum := limits.find_maximum(name)) is not None and (days is None or days > maximum)
    ]
    if wrong:
        raise e.InvalidRequestError(errors=wrong)
    return choice


@routes.get("/legal_holds", summary="List the legal holds")
async def list_legal_holds(
    principal: Admin, storage: StorageDep, pagination: Pagination
) -> Page[LegalHold]:
    """List the legal holds of the project. Holds of newer resources come first."""
    window = pagination.by_cursor(
        parse_any_id, "must be the `first_id` or `last_id` of a page of this list"
    )
    async with storage.connect() as tx:
        found = await holds.list_holds(tx, principal.project_id, **window)
    return pagination.page(found, LegalHold.from_row, lambda one: one.id)


@routes.get("/legal_holds/{resource_id}")
async def get_legal_hold(
    principal: Admin, storage: StorageDep, resource_id: LegalHoldPath
) -> LegalHold:
    """Get the legal hold of a run, a session or the project."""
    _, subject_id = parse_held_id(resource_id)
    async with storage.connect() as tx:
        found = await holds.get_hold(tx, principal.project_id, subject_id)
    if found is None:
        raise not_found.LegalHoldNotFoundError
    return LegalHold.from_row(found)


@routes.put("/legal_holds/{resource_id}", summary="Create or update a legal hold")
async def put_legal_hold(
    principal: Admin,
    storage: StorageDep,
    audit: AuditDep,
    resource_id: LegalHoldPath,
    hold: PutLegalHold | None = None,
) -> LegalHold:
    """Create a legal hold of a run, a session or the project, or replace its reason. After the
    response, nothing erases its data: neither a retention nor a request."""
    kind, subject_id = parse_held_id(resource_id)
    async with storage.begin() as tx:
        await holds.lock_for_change(tx, principal.project_id)
        match kind:
            case HoldKind.RUN:
                await _ensure_run(tx, principal.project_id, RunId(subject_id))
            case HoldKind.SESSION:
                if await sessions.get(tx, principal.project_id, SessionId(subject_id)) is None:
                    raise not_found.SessionNotFoundError
            case HoldKind.PROJECT:
                if subject_id != principal.project_id:
                    raise not_found.ProjectNotFoundError
        reason = "" if hold is None else hold.reason
        former = await holds.get_hold(tx, principal.project_id, subject_id)
        made = await holds.put_hold(
            tx, principal.project_id, subject_id, kind, reason, principal.key_id
        )
        action = (
            AuditAction.LEGAL_HOLD_CREATED if former is None else AuditAction.LEGAL_HOLD_UPDATED
        )
        before, after = former and LegalHold.from_row(former), LegalHold.from_row(made)
        await audit.record(tx, action, resource_id, before=before, after=after)
    return after


async def _ensure_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> None:
    """Raise an AppError if the run cannot be held: it does not exist, or it is a child run."""
    view = await views.get_run(tx, project_id, run_id)
    if view is None:
        raise not_found.RunNotFoundError
    if view.parent_run_id is not None:
        parent = format_id(Prefix.RUN, view.parent_run_id)
        raise e.ConflictError(
            f"This run is a child run. It is kept and erased with its parent run {parent}."
        )


@routes.delete("/legal_holds/{resource_id}", status_code=204)
async def delete_legal_hold(
    principal: Admin, storage: StorageDep, audit: AuditDep, resource_id: LegalHoldPath
) -> None:
    """Delete a legal hold. Runward then removes the data whose retention has passed."""
    _, subject_id = parse_held_id(resource_id)
    async with storage.begin() as tx:
        await holds.lock_for_change(tx, principal.project_id)
        former = await holds.get_hold(tx, principal.project_id, subject_id)
        if former is None:
            raise not_found.LegalHoldNotFoundError
        await holds.delete_hold(tx, principal.project_id, subject_id)
        await cleaner.return_cursors(tx, principal.project_id, subject_id)
        before = LegalHold.from_row(former)
        await audit.record(tx, AuditAction.LEGAL_HOLD_DELETED, resource_id, before=before)


@routes.post("/erasures", status_code=202, response_model=Erasure)
async def create_erasure(
    principal: RunsWriter,
    storage: StorageDep,
    request_key: RequestKey,
    audit: AuditDep,
    erasure: CreateErasure,
) -> Response:
    """Erase the runs and sessions with this metadata, and all runs of these sessions. Runward
    cancels their open runs. Workers do this in the background."""

    async def create(tx: Tx) -> Erasure:
        made = await erasures.add_erasure(tx, principal.project_id, erasure.metadata)
        created = Erasure.from_row(made)
        await audit.record(tx, AuditAction.ERASURE_CREATED, created.id, after=created)
        return created

    return await respond_once(
        storage, request_key, create, status=202, collection_path="/v1/erasures"
    )


@routes.get("/erasures/{erasure_id}")
async def get_erasure(
    principal: RunsReader, storage: StorageDep, erasure_id: ErasurePath
) -> Erasure:
    """Get an erasure and its progress."""
    async with storage.connect() as tx:
        found = await erasures.get_erasure(tx, principal.project_id, erasure_id)
    if found is None:
        raise not_found.ErasureNotFoundError
    return Erasure.from_row(found)
