"""/v1/events: the event log of a project, across all its runs."""

from typing import Annotated, Final

from fastapi import Query, Response

from runward.api.events.models import Event
from runward.api.http.auth import RunsReader
from runward.api.http.dependencies import StorageDep
from runward.api.http.paging import Page
from runward.api.http.routes import make_router
from runward.domain.errors import FieldError, InvalidRequestError
from runward.store.live.project_log import LogPosition, find_end, read_log

LATEST: Final = "latest"

routes = make_router("Runs")


@routes.get("/events", response_model=Page[Event], summary="List the events of all runs")
async def list_project_events(
    principal: RunsReader,
    storage: StorageDep,
    after: Annotated[
        str | None,
        Query(
            max_length=128,
            description="Cursor: the `last_id` of the previous page. `latest` returns an empty "
            "page whose `last_id` is the end of the log. By default, the log is read from the "
            "beginning.",
        ),
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=1000, description="Maximum number of events to return.")
    ] = 100,
) -> Response:
    """List the events of all runs of the project, including child runs. A client that always passes
    the last `last_id` gets each event exactly once, and misses none. `sequence` is the order of the
    events of one run, which can differ from the order of this list. If there is no new event,
    `last_id` repeats the cursor. The list leaves out events that the retention has removed."""
    async with storage.connect() as tx:
        position = await find_end(tx) if after == LATEST else _parse(after)
        found = (
            [] if after == LATEST else await read_log(tx, principal.project_id, position, limit + 1)
        )
    page = found[:limit]
    data = b",".join(event.json for _, event in page)
    first = f'"{page[0][0]}"' if page else "null"
    last = page[-1][0] if page else position
    more = "true" if len(found) > limit else "false"
    rest = f'"first_id":{first},"last_id":"{last}","has_more":{more}}}'
    body = b'{"object":"list","data":[%b],%b' % (data, rest.encode())
    return Response(body, media_type="application/json")


def _parse(after: str | None) -> LogPosition:
    """Return the position of the cursor. Raises InvalidRequestError."""
    position = LogPosition() if after is None else LogPosition.parse(after)
    if position is None:
        wrong = FieldError(
            "query.after", "must be `latest` or the `last_id` of a page of this list"
        )
        raise InvalidRequestError(errors=[wrong])
    return position
