"""/v1/sessions: conversations shared by several runs."""

import re
from typing import Annotated, Final

from fastapi import Query, Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.dependencies import RunQueueDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import ChronologicalPagination, Page, PageParams, Pagination
from runward.api.http.params import SessionPath
from runward.api.http.routes import make_router
from runward.api.runs.erase import erase_session
from runward.api.sessions.models import (
    CreateSession,
    ForkSession,
    Session,
    SessionItemList,
    UpdateSession,
)
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.ids import (
    Prefix,
    ProjectId,
    RunId,
    SessionId,
    format_id,
    format_optional_id,
    parse_id,
)
from runward.domain.json import JsonObject
from runward.services import Storage
from runward.store.postgres.db import Tx
from runward.store.runs import session_items, sessions

routes = make_router("Sessions")

_ITEM_POSITION: Final = re.compile(r"_([0-9]{1,18})_([0-9]{1,9})")
"""The end of an item's ID: the number of its run and its own number. Before it, the ID has `item_`
and the session's digits."""


@routes.post("/sessions", status_code=201, response_model=Session)
async def create_session(
    principal: RunsWriter,
    storage: StorageDep,
    request_key: RequestKey,
    session: CreateSession,
) -> Response:
    """Create a session. To run an agent in it, start a run with the session's ID as
    `session_id`."""

    async def create(tx: Tx) -> Session:
        made = await sessions.create(
            tx,
            principal.project_id,
            name=session.name,
            metadata=session.metadata,
            state=session.state,
            on_conflict=session.on_conflict,
        )
        return Session.from_row(made)

    return await respond_once(
        storage, request_key, create, status=201, collection_path="/v1/sessions"
    )


@routes.get("/sessions")
async def list_sessions(
    principal: RunsReader, storage: StorageDep, pagination: Pagination
) -> Page[Session]:
    """List sessions, newest first."""
    async with storage.connect() as tx:
        found = await sessions.search(tx, principal.project_id, **pagination.by_id(Prefix.SESSION))
    return pagination.page(found, Session.from_row, lambda session: session.id)


@routes.get("/sessions/{session_id}")
async def get_session(
    principal: RunsReader, storage: StorageDep, session_id: SessionPath
) -> Session:
    """Get a session and its current state."""
    async with storage.connect() as tx:
        found = await sessions.get(tx, principal.project_id, session_id)
    if found is None:
        raise not_found.SessionNotFoundError
    return Session.from_row(found)


@routes.patch("/sessions/{session_id}")
async def update_session(
    principal: RunsWriter, storage: StorageDep, session_id: SessionPath, patch: UpdateSession
) -> Session:
    """Update a session. Runward merges the given state with changes that the session's runs make at
    the same time."""
    async with storage.begin() as tx:
        changed = await sessions.update_session(
            tx, principal.project_id, session_id, delta=patch.state, **patch.get_changes()
        )
    return Session.from_row(changed)


@routes.delete("/sessions/{session_id}", status_code=204)
async def delete_session(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    audit: AuditDep,
    session_id: SessionPath,
    erase_runs: Annotated[
        bool,
        Query(
            description="Also erase the content of the session's runs, as `DELETE"
            " /v1/runs/{run_id}` does. Runward first cancels open runs."
        ),
    ] = False,
) -> None:
    """Delete a session with its conversation and its state. Without `erase_runs`, the session's
    runs are kept, and Runward refuses the request with 409 `session_busy` if one of them is
    open."""
    if erase_runs:
        await erase_session(storage, queue, principal.project_id, session_id, audit)
    async with storage.begin() as tx:
        await sessions.delete(tx, principal.project_id, session_id)
        await audit.record(tx, AuditAction.SESSION_DELETED, format_id(Prefix.SESSION, session_id))


@routes.get(
    "/sessions/{session_id}/items",
    response_model=SessionItemList,
    summary="List a session's items",
)
async def list_session_items(
    principal: RunsReader,
    storage: StorageDep,
    session_id: SessionPath,
    pagination: ChronologicalPagination,
) -> Page[JsonObject]:
    """List the items of a session's runs that have ended. The next run of the session continues
    from these items."""
    return await _load_items(storage, principal.project_id, session_id, pagination)


@routes.post("/sessions/{session_id}/fork", status_code=201, response_model=Session)
async def fork_session(
    principal: RunsWriter,
    storage: StorageDep,
    request_key: RequestKey,
    session_id: SessionPath,
    fork: ForkSession | None = None,
) -> Response:
    """Fork a session: create a new session with the same conversation, up to a run of your choice.
    The fork also gets a copy of the current state."""
    asked = fork or ForkSession()

    async def make(tx: Tx) -> Session:
        run_id = None if asked.run_id is None else _parse_run_id(asked.run_id)
        made = await sessions.fork(
            tx, principal.project_id, session_id, run_id=run_id, name=asked.name
        )
        return Session.from_row(made)

    return await respond_once(
        storage, request_key, make, status=201, collection_path="/v1/sessions"
    )


async def _load_items(
    storage: Storage, project_id: ProjectId, session_id: SessionId, params: PageParams
) -> Page[JsonObject]:
    """Return the items of a page. Raises SessionNotFoundError, and InvalidRequestError for a cursor
    of another list."""
    begin = f"{Prefix.ITEM}_{session_id.hex}"

    def parse(cursor: str) -> tuple[int, int] | None:
        place = _ITEM_POSITION.fullmatch(cursor.removeprefix(begin))
        return None if place is None else (int(place[1]), int(place[2]))

    window = params.by_cursor(parse, "must be the `first_id` or `last_id` of a page of this list")
    async with storage.connect() as tx:
        if await sessions.get(tx, project_id, session_id) is None:
            raise not_found.SessionNotFoundError
        found = await session_items.list_items(tx, project_id, session_id, **window)

    def shown(kept: session_items.SessionItem) -> JsonObject:
        own: JsonObject = {
            "id": f"{begin}_{kept.seq}_{kept.number}",
            "run_id": format_optional_id(Prefix.RUN, kept.run_id),
        }
        return own | kept.item

    return params.page(found, shown, lambda item: str(item["id"]))


def _parse_run_id(shown: str) -> RunId:
    value = parse_id(Prefix.RUN, shown)
    if value is None:
        raise not_found.RunNotFoundError("This session has no run with this ID.")
    return RunId(value)
