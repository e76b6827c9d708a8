"""/v1/runs/{id}/events: the same log, polled or streamed."""

import asyncio
from typing import Annotated, Literal

from fastapi import Header, Query, Response

from runward.api.events.family import read_family_page, stream_family
from runward.api.events.models import EVENT_STREAM, Event
from runward.api.events.stream import stream_events
from runward.api.events.wait import RECHECK_SECONDS
from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import LiveDep, StorageDep
from runward.api.http.paging import Page
from runward.api.http.params import EventCursor, RunPath, WaitSeconds
from runward.api.http.routes import make_router
from runward.domain import errors as e
from runward.domain.ids import Prefix, ProjectId, RunId
from runward.domain.run.status import TERMINAL
from runward.services import Live, Storage
from runward.store.live import events
from runward.store.live.events import StoredEvent
from runward.store.runs import views

routes = make_router("Runs")


@routes.get(
    "/runs/{run_id}/events",
    response_model=Page[Event],
    responses={
        200: {"content": {"text/event-stream": {"schema": EVENT_STREAM}}},
        204: {"description": "The run has ended, and the client has all its events."},
    },
    summary="Poll or stream the events of a run",
)
async def list_events(  # noqa: PLR0913
    principal: RunsReader,
    storage: StorageDep,
    live: LiveDep,
    run_id: RunPath,
    after: EventCursor,
    wait: WaitSeconds,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="How many events a page holds at most.")
    ] = 100,
    until: Annotated[
        Literal["settled"] | None,
        Query(description="End the stream also when the run waits for someone."),
    ] = None,
    include: Annotated[
        Literal["children"] | None,
        Query(description="Also the events of all runs below this one, as they happened."),
    ] = None,
    accept: Annotated[
        str, Header(description="`text/event-stream` streams; anything else is a page.")
    ] = "*/*",
) -> Response:
    """A run's events after a sequence number: a page of JSON (with `wait`, as soon as there is
    one), or a stream of server-sent events that ends with the run. With `include=children` the
    cursor is an opaque `last_id`, also as the SSE `id`."""
    settled, streamed = until is not None, "text/event-stream" in accept
    if include is not None and streamed:
        return await stream_family(storage, live, principal, run_id, after, until_settled=settled)
    if include is not None:
        page = await read_family_page(
            storage, live, principal.project_id, run_id, after, limit, wait
        )
        return Response(page, media_type="application/json")
    if streamed:
        start = after.sequence
        return await stream_events(
            storage, live, principal, run_id, after=start, until_settled=settled
        )
    found = await _poll(
        storage, live, principal.project_id, run_id, after.sequence, limit + 1, wait
    )
    return Response(_encode_page(found, limit, run_id), media_type="application/json")


async def _poll(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    after: int,
    count: int,
    wait: float,
) -> list[StoredEvent]:
    loop = asyncio.get_running_loop()
    end = loop.time() + wait
    with live.follow(project_id, run_id) as follower:
        follower.seen = after
        while True:
            async with storage.read() as tx:
                status = await views.get_status(tx, project_id, run_id)
                if status is None:
                    raise e.RunNotFoundError
                found = await events.read_after(tx, project_id, run_id, after, count)
            left = end - loop.time()
            over = found or left <= 0 or status[0] in TERMINAL
            if over or live.is_stopping():
                return found
            follower.pushed.clear()
            await follower.wait(min(left, RECHECK_SECONDS))


def _encode_page(found: list[StoredEvent], limit: int, run_id: RunId) -> str:
    """The events as they are stored, without parsing and printing them again."""
    shown = found[:limit]
    data = ",".join(event.json for event in shown)
    first, last = "null", "null"
    if shown:
        first, last = (
            f'"{Prefix.EVENT}_{run_id.hex}_{one.sequence}"' for one in (shown[0], shown[-1])
        )
    more = "true" if len(found) > limit else "false"
    return (
        f'{{"object":"list","data":[{data}],"first_id":{first},"last_id":{last},"has_more":{more}}}'
    )
