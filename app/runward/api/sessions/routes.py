"""/v1/sessions: conversations across runs."""

import re
from typing import Final

from fastapi import Request, Response

from runward.api.http.answers import answer, nothing
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.idempotency import IdempotentRequest, answer_once
from runward.api.http.paging import Page, PageParams, Walking, WalkingInOrder
from runward.api.http.params import IdempotencyKey, SessionPath
from runward.api.http.routes import router
from runward.api.http.services import Using
from runward.api.sessions.models import (
    CreateSession,
    ForkSession,
    PatchSession,
    Session,
    SessionItemPage,
)
from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId, RunId, SessionId, format_id, parse
from runward.domain.json import JsonObject
from runward.store.postgres.db import Tx
from runward.store.runs import session_items, sessions
from runward.wiring import Services

routes = router("Sessions")

_PLACE: Final = re.compile(r"_([0-9]{1,18})_([0-9]{1,9})")
"""Of an item: its run's number and its own, behind `item_` and the session's digits."""


@routes.post("/sessions", status_code=201, response_model=Session)
async def create_session(
    principal: RunsWriter,
    services: Using,
    request: Request,
    session: CreateSession,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Begin a conversation. Runs join it with `session_id`."""

    async def create(tx: Tx) -> Session:
        made = await sessions.create(
            tx,
            principal.project_id,
            name=session.name,
            metadata=session.metadata,
            state=session.state,
            on_conflict=session.on_conflict,
        )
        return _shown(made)

    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    return await answer_once(services, what, create, status=201, under="/v1/sessions")


@routes.get("/sessions", response_model=Page[Session])
async def list_sessions(principal: RunsReader, services: Using, walk: Walking) -> Response:
    """List sessions, newest first."""
    async with services.autocommit.connect() as tx:
        found = await sessions.search(
            tx,
            principal.project_id,
            after=walk.after_id(Prefix.SESSION),
            limit=walk.limit + 1,
            descending=walk.descending,
        )
    return answer(Page[Session].of(found, walk.limit, _shown, lambda session: session.id))


@routes.get("/sessions/{session_id}", response_model=Session)
async def get_session(principal: RunsReader, services: Using, session_id: SessionPath) -> Response:
    """One session, with its state as it is now."""
    async with services.autocommit.connect() as tx:
        found = await sessions.get(tx, principal.project_id, session_id)
    if found is None:
        raise e.SessionNotFoundError
    return answer(_shown(found))


@routes.patch("/sessions/{session_id}", response_model=Session)
async def change_session(
    principal: RunsWriter, services: Using, session_id: SessionPath, patch: PatchSession
) -> Response:
    """Change a session. The state is merged, also with what its runs change meanwhile."""
    async with services.database.pool.begin() as tx:
        changed = await sessions.change(
            tx, principal.project_id, session_id, delta=patch.state, **patch.given()
        )
    return answer(_shown(changed))


@routes.delete("/sessions/{session_id}", status_code=204)
async def delete_session(
    principal: RunsWriter, services: Using, session_id: SessionPath
) -> Response:
    """Delete a session with its conversation and its state; its runs stay. Refused with 409
    `session_busy` while one of them is open."""
    async with services.database.pool.begin() as tx:
        await sessions.delete(tx, principal.project_id, session_id)
    return nothing()


@routes.get("/sessions/{session_id}/items", response_model=SessionItemPage)
async def list_session_items(
    principal: RunsReader, services: Using, session_id: SessionPath, walk: WalkingInOrder
) -> Response:
    """What the session's ended runs left: what its next run goes on from."""
    return answer(await _items(services, principal.project_id, session_id, walk))


@routes.post("/sessions/{session_id}/fork", status_code=201, response_model=Session)
async def fork_session(
    principal: RunsWriter,
    services: Using,
    request: Request,
    session_id: SessionPath,
    fork: ForkSession | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Begin a second conversation that shares this one's past, up to a run of it; the state is
    a copy of this one's as it is now."""
    asked = fork or ForkSession()

    async def make(tx: Tx) -> Session:
        run_id = None if asked.run_id is None else _run_id(asked.run_id)
        made = await sessions.fork(
            tx, principal.project_id, session_id, run_id=run_id, name=asked.name
        )
        return _shown(made)

    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    return await answer_once(services, what, make, status=201, under="/v1/sessions")


async def _items(
    services: Services, project_id: ProjectId, session_id: SessionId, walk: PageParams
) -> Page[JsonObject]:
    """Raises SessionNotFoundError, and InvalidRequestError for an `after` of another list."""
    begin = f"{Prefix.ITEM}_{session_id.hex}"
    after: tuple[int, int] | None = None
    if walk.after is not None:
        place = _PLACE.fullmatch(walk.after.removeprefix(begin))
        if place is None:
            wrong = FieldError("query.after", "must be the last_id of a page of this list")
            raise e.InvalidRequestError(errors=[wrong])
        after = int(place[1]), int(place[2])
    async with services.autocommit.connect() as tx:
        if await sessions.get(tx, project_id, session_id) is None:
            raise e.SessionNotFoundError
        found = await session_items.items_after(
            tx,
            project_id,
            session_id,
            after=after,
            limit=walk.limit + 1,
            descending=walk.descending,
        )

    def shown(kept: session_items.KeptItem) -> JsonObject:
        own: JsonObject = {
            "id": f"{begin}_{kept.seq}_{kept.number}",
            "run_id": format_id(Prefix.RUN, kept.run_id),
        }
        return own | kept.item

    return Page[JsonObject].of(found, walk.limit, shown, lambda item: str(item["id"]))


def _run_id(shown: str) -> RunId:
    value = parse(Prefix.RUN, shown)
    if value is None:
        raise e.RunNotFoundError("This session has no such run.")
    return RunId(value)


def _shown(one: sessions.Session) -> Session:
    return Session(
        id=format_id(Prefix.SESSION, one.id),
        name=one.name,
        metadata=one.metadata,
        state=one.state,
        on_conflict=one.on_conflict,
        forked_from=None if one.forked_from is None else format_id(Prefix.SESSION, one.forked_from),
        created_at=one.created_at,
        updated_at=one.updated_at,
    )
