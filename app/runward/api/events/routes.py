"""/v1/runs/{id}/events: poll or stream the event log of a run."""

from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Response

from runward.api.events.family import FamilyLog, FamilyPosition
from runward.api.events.follow import Batch, EventLog, RunLog, follow
from runward.api.events.models import EVENT_STREAM, Event
from runward.api.events.open_streams import stream_events
from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import LiveDep, StorageDep
from runward.api.http.paging import Page
from runward.api.http.params import Cursor, EventCursor, RunPath, WaitSeconds
from runward.api.http.routes import make_router
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import TERMINAL, WAIT_ENDING

routes = make_router("Runs")


@routes.get(
    "/runs/{run_id}/events",
    response_model=Page[Event],
    responses={
        200: {"content": {"text/event-stream": {"schema": EVENT_STREAM}}},
        204: {"description": "The run has ended, and the client has received all its events."},
        410: {},
    },
    summary="List or stream events",
)
async def list_events(  # noqa: PLR0913
    principal: RunsReader,
    storage: StorageDep,
    live: LiveDep,
    run_id: RunPath,
    after: EventCursor,
    wait: WaitSeconds,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of events to return.")
    ] = 100,
    until: Annotated[
        Literal["idle"] | None,
        Query(
            description="Additional condition that ends the stream. `idle`: the stream also ends "
            "when the run waits for a person or a client. By default, it ends only with the run."
        ),
    ] = None,
    include: Annotated[
        Literal["children"] | None,
        Query(
            description="Additional events to return. `children`: the events of all child runs at "
            "any depth, in the order in which they happened."
        ),
    ] = None,
    accept: Annotated[
        str,
        Header(
            description="Media type of the response. `text/event-stream` returns a stream of "
            "server-sent events. Any other value returns a page of JSON."
        ),
    ] = "*/*",
) -> Response:
    """List or stream the events of a run that follow a sequence number. By default, the response is
    a page of JSON. With `wait`, Runward responds as soon as there is a new event. A stream of
    server-sent events ends when the run ends. With `include=children`, cursors are opaque: use the
    `last_id` of a page or the `id` of a server-sent event."""
    log = _make_log(principal.project_id, run_id, after, with_children=include is not None)
    if "text/event-stream" in accept:
        until_status = TERMINAL if until is None else WAIT_ENDING
        return await stream_events(storage, live, principal, log, until_status)
    batch = Batch()
    async with aclosing(follow(storage, live, log, count=limit + 1, seconds=wait)) as batches:
        async for batch in batches:
            if batch.items:
                break
    return Response(_encode_page(batch, limit, log), media_type="application/json")


def _make_log(
    project_id: ProjectId, run_id: RunId, after: Cursor, *, with_children: bool
) -> EventLog[Any, Any]:
    """Return the log from the position of the cursor. Raises InvalidRequestError."""
    if with_children:
        return FamilyLog(project_id, run_id, FamilyPosition.parse(after))
    return RunLog(project_id, run_id, after.sequence)


def _encode_page(batch: Batch, limit: int, log: EventLog[Any, Any]) -> bytes:
    """Return a page with the stored JSON of the events, which is not parsed again."""
    entries = batch.entries[:limit]
    data = b",".join(entry.event.json for entry in entries)
    first, last = "null", "null"
    if entries:
        first, last = (
            f'"{one.event.id if isinstance(log, RunLog) else one.cursor}"'
            for one in (entries[0], entries[-1])
        )
    more = "true" if batch.more or len(batch.items) > limit else "false"
    rest = f'"first_id":{first},"last_id":{last},"has_more":{more}}}'
    return b'{"object":"list","data":[%b],%b' % (data, rest.encode())
