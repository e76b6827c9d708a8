"""/v1/runs: list, poll and continue runs, and read their items and tool calls."""

from typing import Annotated, Literal

from fastapi import Query, Response

from runward.api.http.audit import AuditDep
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.dependencies import LiveDep, RunQueueDep, StorageDep
from runward.api.http.idempotency import RequestKey, respond_once
from runward.api.http.paging import ChronologicalPagination, Page, Pagination, slice_page
from runward.api.http.params import RunPath, WaitSeconds
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.api.runs.acceptance import accept_continuation
from runward.api.runs.answers import (
    load_content,
    load_run,
    make_headers,
    read_run,
    render_accepted,
    wait_and_respond,
)
from runward.api.runs.call_models import ToolCall
from runward.api.runs.cancel import cancel
from runward.api.runs.erase import erase
from runward.api.runs.filters import RunFilterParams
from runward.api.runs.input_models import build_items
from runward.api.runs.models import Run, RunItemList
from runward.api.runs.request_models import CancelRun, ContinueRun, SendInput
from runward.domain import not_found
from runward.domain.ids import Prefix, RunId, format_id
from runward.domain.json import JsonObject
from runward.domain.run.conversation import attribute_items
from runward.domain.run.items import item_to_json
from runward.domain.run.status import TERMINAL
from runward.store.postgres.db import Tx
from runward.store.runs import queries, search, transitions, views
from runward.store.runs.search import FoundRuns
from runward.store.runs.views import WaitingCall

routes = make_router("Runs")


@routes.get("/runs")
async def list_runs(
    principal: RunsReader,
    storage: StorageDep,
    pagination: Pagination,
    run_filter: RunFilterParams,
) -> Page[Run]:
    """List runs, newest first. The list contains no child runs unless `parent_run_id` is set. If
    the parent run does not exist, the list is empty. With `q`, Runward searches up to 2,000 runs
    for each page, so a page can contain fewer runs than `limit`. If `has_more` is true, continue
    with `last_id`. If the deployment has a replica, a search can miss the changes of the last 30
    seconds."""
    if run_filter is None:
        return pagination.page([], Run.from_row, lambda run: run.id)

    async def read(tx: Tx) -> tuple[FoundRuns, dict[RunId, list[WaitingCall]]]:
        found = await search.search_runs(
            tx, principal.project_id, run_filter, **pagination.by_id(Prefix.RUN)
        )
        open_ids = [run.id for run in found.runs if run.status not in TERMINAL]
        return found, await views.list_waiting_calls(tx, principal.project_id, open_ids)

    if run_filter.text is None:
        async with storage.connect() as tx:
            found, waiting = await read(tx)
    else:
        found, waiting = await storage.read_lagging(read)
    page = pagination.page(
        found.runs,
        lambda run: Run.from_row(run, waiting.get(run.id, ())),
        lambda run: run.id,
    )
    if found.resume_after is not None:
        end = "last_id" if pagination.before is None else "first_id"
        reached = format_id(Prefix.RUN, found.resume_after)
        page = page.model_copy(update={end: reached, "has_more": True})
    return page


@routes.get(
    "/runs/{run_id}",
    response_model=Run,
    responses={
        202: {
            "description": "The run has neither ended nor reached the status `requires_action` "
            "within the time in `wait`.",
            "model": Run,
        }
    },
    summary="Get a run",
)
async def get_run(
    principal: RunsReader,
    storage: StorageDep,
    live: LiveDep,
    run_id: RunPath,
    wait: WaitSeconds,
    include: Annotated[
        Literal["config"] | None,
        Query(
            description="Additional data to return. `config`: the input and the configuration "
            "of the run."
        ),
    ] = None,
) -> Response:
    """Get a run. With `wait`, Runward responds when the run has ended or has the status
    `requires_action`."""
    project_id, with_config = principal.project_id, include is not None
    if wait:
        return await wait_and_respond(
            storage, live, project_id, run_id, wait, with_config=with_config
        )
    return json_response(await read_run(storage, project_id, run_id, with_config=with_config))


@routes.get("/runs/{run_id}/items", response_model=RunItemList, summary="List a run's items")
async def list_items(
    principal: RunsReader,
    storage: StorageDep,
    run_id: RunPath,
    pagination: ChronologicalPagination,
) -> Page[JsonObject]:
    """List the conversation of a run as the model sees it. The tool calls of a response are
    followed by their results."""
    async with storage.connect() as tx:
        found = await queries.load(tx, principal.project_id, run_id)
    if found is None:
        raise not_found.RunNotFoundError
    shown: list[JsonObject] = [
        {"id": f"{Prefix.ITEM}_{run_id.hex}_{number}", **item_to_json(item)}
        | {"agent": segment.agent, "turn": segment.turn}
        for number, (item, segment) in enumerate(attribute_items(found[1]), start=1)
    ]
    return slice_page(shown, pagination, lambda item: str(item["id"]))


@routes.get("/runs/{run_id}/tool_calls", summary="List a run's tool calls")
async def list_tool_calls(
    principal: RunsReader,
    storage: StorageDep,
    run_id: RunPath,
    pagination: ChronologicalPagination,
) -> Page[ToolCall]:
    """List the tool calls of a run in the order in which the model requested them."""
    async with storage.connect() as tx:
        await load_content(tx, principal.project_id, run_id)
        found = await views.list_calls(tx, principal.project_id, run_id)
    shown = [ToolCall.from_row(run_id, one) for one in found]
    return slice_page(shown, pagination, lambda call: call.id)


@routes.post(
    "/runs/{run_id}/input",
    status_code=202,
    response_model=Run,
    summary="Send a message to a run",
)
async def send_input(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    run_id: RunPath,
    message: SendInput,
) -> Response:
    """Send another message to an open run. The model reads the message in its next turn. The
    message does not decide pending approvals and does not replace results that the run waits
    for."""

    async def send(tx: Tx) -> Run:
        await transitions.add_input(tx, principal.project_id, run_id, build_items(message.input))
        return await load_run(tx, principal.project_id, run_id)

    shown = await respond_once(storage, request_key, send, status=202)
    queue.wake_worker()
    return shown


@routes.post(
    "/runs/{run_id}/continue",
    status_code=202,
    response_model=Run,
    summary="Continue an incomplete run",
)
async def continue_run(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    request_key: RequestKey,
    run_id: RunPath,
    body: ContinueRun | None = None,
) -> Response:
    """Continue a run whose status is `incomplete`. Runward starts a new run that begins with the
    items and tool calls of the previous run and has its own limits. The previous run does not
    change."""
    accepted = await accept_continuation(
        storage, queue, principal, run_id, body or ContinueRun(), request_key
    )
    headers = make_headers(accepted)
    if accepted.replayed:
        shown = await read_run(storage, principal.project_id, accepted.run.id)
        return json_response(shown, 202, headers)
    return json_response(render_accepted(principal, accepted), 202, headers)


@routes.post("/runs/{run_id}/cancel")
async def cancel_run(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    audit: AuditDep,
    run_id: RunPath,
    body: CancelRun | None = None,
) -> Run:
    """Cancel a run. After the response, Runward starts no new work for the run. This also works if
    no worker is running."""
    after_turn = body is not None and body.mode == "after_turn"
    await cancel(
        storage, queue, principal.project_id, run_id, after_turn=after_turn, actor=audit.actor
    )
    return await read_run(storage, principal.project_id, run_id)


@routes.delete("/runs/{run_id}", status_code=204)
async def delete_run(
    principal: RunsWriter,
    storage: StorageDep,
    queue: RunQueueDep,
    audit: AuditDep,
    run_id: RunPath,
) -> None:
    """Erase the content of a run and its child runs. If the run is open, Runward first cancels it.
    The run's ID, agent, model, status, times, usage, cost and error code are kept, and its event
    log is kept without content. The content cannot be restored. For a child run, Runward refuses
    the request with 409."""
    await erase(storage, queue, principal.project_id, run_id, audit)
