"""/v1/audit_log."""

from collections.abc import AsyncGenerator
from typing import Annotated, Final

from fastapi import Depends, Query, Response
from starlette.responses import StreamingResponse

from runward.api.audit.models import AuditEntry, AuditHead
from runward.api.http.auth import Admin
from runward.api.http.dependencies import StorageDep
from runward.api.http.models import UtcDatetime
from runward.api.http.paging import Page, Pagination
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId, parse_id
from runward.domain.json import to_compact_json
from runward.services import Storage
from runward.store.access import audit
from runward.store.access.audit import AuditFilter

BATCH: Final = 100
"""Number of entries that an export reads at once."""
MAX_NUMBER: Final = 2**63 - 1
JSON_LINES: Final = "application/jsonl"

routes = make_router("Audit log")


def _read_filter(
    action: Annotated[
        AuditAction | None,
        Query(
            description="Return only entries with this action.",
            examples=[AuditAction.AGENT_UPDATED],
        ),
    ] = None,
    actor_id: Annotated[
        str | None, Query(max_length=64, description="Return only changes by this API key.")
    ] = None,
    resource_type: Annotated[
        str | None,
        Query(max_length=64, description="Return only changes of resources of this type."),
    ] = None,
    resource_id: Annotated[
        str | None,
        Query(max_length=256, description="Return only changes of resources with this ID or name."),
    ] = None,
    created_after: Annotated[
        UtcDatetime | None, Query(description="Return only entries created at or after this time.")
    ] = None,
    created_before: Annotated[
        UtcDatetime | None, Query(description="Return only entries created before this time.")
    ] = None,
) -> AuditFilter:
    """Raises InvalidRequestError."""
    actor = None if actor_id is None else parse_id(Prefix.KEY, actor_id)
    if actor_id is not None and actor is None:
        problem = FieldError("query.actor_id", f"must be an ID like {Prefix.KEY}_…")
        raise e.InvalidRequestError(errors=[problem])
    return AuditFilter(action, actor, resource_type, resource_id, created_after, created_before)


@routes.get("/audit_log", summary="List the audit log")
async def list_audit_log(
    principal: Admin,
    storage: StorageDep,
    pagination: Pagination,
    filter_: Annotated[AuditFilter, Depends(_read_filter)],
) -> Page[AuditEntry]:
    """List the changes of the project's resources, newest first. The cursors `first_id` and
    `last_id` are numbers of entries."""
    window = pagination.by_cursor(_parse_number, "must be the number of an entry")
    async with storage.connect() as tx:
        found = await audit.list_entries(tx, principal.project_id, filter_, **window)
    return pagination.page(found, AuditEntry.from_row, lambda one: str(one.number))


@routes.get(
    "/audit_log/export",
    response_class=Response,
    responses={
        200: {
            "description": "Entries as JSON Lines: one JSON object in each line.",
            "content": {JSON_LINES: {"schema": {"type": "string"}}},
        }
    },
    summary="Export the audit log",
)
async def export_audit_log(
    principal: Admin,
    storage: StorageDep,
    after: Annotated[
        int,
        Query(
            ge=0,
            le=MAX_NUMBER,
            description="Return the entries after this number. Use the number of the last entry "
            "of the previous export.",
        ),
    ] = 0,
) -> Response:
    """Export all entries as JSON Lines, in the order of their numbers. Runward sends them while it
    reads them. To verify the file, use `runward audit verify`."""
    return StreamingResponse(
        export_entries(storage, principal.project_id, after), media_type=JSON_LINES
    )


async def export_entries(
    storage: Storage, project_id: ProjectId, after: int
) -> AsyncGenerator[bytes]:
    """Return pieces of the export, each with up to `BATCH` lines."""
    while True:
        async with storage.connect() as tx:
            found = await audit.list_entries(
                tx, project_id, AuditFilter(), after=after, limit=BATCH, descending=False
            )
        yield b"".join(to_compact_json(audit.render(one)) + b"\n" for one in found)
        if len(found) < BATCH:
            return
        after = found[-1].number


@routes.get("/audit_log/head", summary="Get the ends of the audit log")
async def get_audit_head(principal: Admin, storage: StorageDep) -> AuditHead:
    """Get the hash of the last entry, and of the last entry that retention has removed."""
    async with storage.connect() as tx:
        return AuditHead.from_row(await audit.get_chain(tx, principal.project_id))


def _parse_number(text: str) -> int | None:
    """Return the number of a cursor, or None if it is invalid."""
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_NUMBER))):
        return None
    return number if (number := int(text)) <= MAX_NUMBER else None
