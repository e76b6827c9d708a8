"""/v1/runs: start, list, poll, cancel; the conversation and the ledger."""

from dataclasses import replace
from typing import Annotated

from fastapi import Header, Request, Response

from runward.api.events.models import EVENT_STREAM
from runward.api.events.stream import Frames, frames_from_start, stream_of_new
from runward.api.events.wait import until_settled
from runward.api.http.answers import answer
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.idempotency import REPLAYED, IdempotentRequest, answer_once
from runward.api.http.paging import Page, Walking, WalkingInOrder, page_of
from runward.api.http.params import IdempotencyKey, RunPath, Wait
from runward.api.http.routes import router
from runward.api.http.services import Using
from runward.api.runs import render
from runward.api.runs.accept import Answered, accept
from runward.api.runs.cancel import cancel
from runward.api.runs.continuation import go_on
from runward.api.runs.filters import RunsThatFit
from runward.api.runs.input_models import items_of
from runward.api.runs.models import ItemPage, Run, ToolCall
from runward.api.runs.request_models import CancelRun, ContinueRun, SendInput, StartRun
from runward.domain import errors as e
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.json import JsonObject
from runward.domain.registry.scopes import Principal
from runward.domain.run.conversation import attributed
from runward.domain.run.items import item_to_json
from runward.domain.run.status import SETTLED, TERMINAL
from runward.store.access.keys import ActingKey
from runward.store.postgres.db import Tx
from runward.store.runs import queries, search, transitions, views
from runward.wiring import Services

routes = router("Runs")


@routes.post(
    "/runs",
    status_code=202,
    response_model=Run,
    responses={
        200: {
            "description": "Accepted too: with `wait`, the run has settled; or the run's events, "
            "where Accept asks for them.",
            "model": Run,
            "content": {"application/json": {}, "text/event-stream": {"schema": EVENT_STREAM}},
        },
        202: {"description": "Accepted: the run and its first event are committed."},
        404: {},
    },
)
async def start_run(
    principal: RunsWriter,
    services: Using,
    request: Request,
    run: StartRun,
    wait: Wait,
    idempotency_key: IdempotencyKey = None,
    accept_header: Annotated[
        str, Header(alias="Accept", description="`text/event-stream` answers with the events.")
    ] = "*/*",
) -> Response:
    """Accept a run. The answer means that it and its first event are committed."""
    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)

    async def streamed() -> Frames:
        accepted = await accept(services, principal, run, what)
        frames = frames_from_start(services, principal.project_id, accepted.run.id)
        return frames, _headers_of(accepted)

    if "text/event-stream" in accept_header:
        return await stream_of_new(services, principal, streamed)
    accepted = await accept(services, principal, run, what)
    run_id, headers = accepted.run.id, _headers_of(accepted)
    if wait:
        return await _held(services, principal.project_id, run_id, wait, headers)
    if accepted.replayed:
        return answer(await read_run(services, principal.project_id, run_id), 202, headers)
    return answer(_just_accepted(principal, accepted), 202, headers)


async def _held(
    services: Services,
    project_id: ProjectId,
    run_id: RunId,
    seconds: float,
    headers: dict[str, str] | None = None,
) -> Response:
    """Answer 200 with a run that has settled, and 202 after `seconds` with one that has not."""
    await until_settled(services, project_id, run_id, seconds)
    shown = await read_run(services, project_id, run_id)
    return answer(shown, 200 if shown.status in SETTLED else 202, headers)


def _headers_of(accepted: Answered) -> dict[str, str]:
    location = {"Location": f"/v1/runs/{format_id(Prefix.RUN, accepted.run.id)}"}
    return location | REPLAYED if accepted.replayed else location


def _just_accepted(principal: Principal, accepted: Answered) -> Run:
    actor = ActingKey(principal.key_id, principal.key_name)
    return render.run(replace(accepted.run, created_by=actor))


@routes.get("/runs", response_model=Page[Run])
async def list_runs(
    principal: RunsReader, services: Using, walk: Walking, which: RunsThatFit
) -> Response:
    """List runs, newest first: those that were started, or with `parent_run_id` the child runs
    of one. An unknown run has none. With `q` a page may hold fewer runs than `limit`, or none,
    though there are more: 2,000 runs are looked at for it. `last_id` is then the last one of
    these, and the next page goes on after it."""
    if which is None:
        return answer(Page[Run].of([], walk.limit, render.run, lambda run: run.id))
    async with services.autocommit.connect() as tx:
        found = await search.search_runs(
            tx,
            principal.project_id,
            which,
            after=walk.after_id(Prefix.RUN),
            limit=walk.limit + 1,
            descending=walk.descending,
        )
        open_ids = [run.id for run in found.runs if run.status not in TERMINAL]
        waiting = await views.waiting_for(tx, principal.project_id, open_ids)
    page = Page[Run].of(
        found.runs,
        walk.limit,
        lambda run: render.run(run, waiting.get(run.id, ())),
        lambda run: run.id,
    )
    if found.left_at is not None:
        last_id = format_id(Prefix.RUN, found.left_at)
        page = page.model_copy(update={"last_id": last_id, "has_more": True})
    return answer(page)


@routes.get(
    "/runs/{run_id}",
    response_model=Run,
    responses={202: {"description": "With `wait`: the run has not settled.", "model": Run}},
)
async def get_run(principal: RunsReader, services: Using, run_id: RunPath, wait: Wait) -> Response:
    """Poll a run; with `wait`, hold until it has ended or needs someone."""
    if wait:
        return await _held(services, principal.project_id, run_id, wait)
    return answer(await read_run(services, principal.project_id, run_id))


async def read_run(services: Services, project_id: ProjectId, run_id: RunId) -> Run:
    """Raises RunNotFoundError."""
    async with services.autocommit.connect() as tx:
        return await shown_run(tx, project_id, run_id)


async def shown_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> Run:
    """Raises RunNotFoundError."""
    view = await views.get_run(tx, project_id, run_id)
    if view is None:
        raise e.RunNotFoundError
    if view.status in TERMINAL or view.turn == 0:
        return render.run(view)
    waiting = await views.waiting_for(tx, project_id, [run_id])
    return render.run(view, waiting[run_id])


@routes.get("/runs/{run_id}/items", response_model=ItemPage)
async def list_items(
    principal: RunsReader, services: Using, run_id: RunPath, walk: WalkingInOrder
) -> Response:
    """The conversation as the model sees it: the calls of a response, then their results."""
    async with services.autocommit.connect() as tx:
        found = await queries.load(tx, principal.project_id, run_id)
    if found is None:
        raise e.RunNotFoundError
    shown: list[JsonObject] = [
        {"id": f"{Prefix.ITEM}_{run_id.hex}_{number}", **item_to_json(item)}
        | {"agent": segment.agent, "turn": segment.turn}
        for number, (item, segment) in enumerate(attributed(found[1]), start=1)
    ]
    return answer(page_of(shown, walk, lambda item: str(item["id"])))


@routes.get("/runs/{run_id}/tool_calls", response_model=Page[ToolCall])
async def list_tool_calls(
    principal: RunsReader, services: Using, run_id: RunPath, walk: WalkingInOrder
) -> Response:
    """The ledger, in the order in which the model asked."""
    async with services.autocommit.connect() as tx:
        if await views.status_of(tx, principal.project_id, run_id) is None:
            raise e.RunNotFoundError
        found = await views.calls_of(tx, principal.project_id, run_id)
    shown = [render.tool_call(run_id, one) for one in found]
    return answer(page_of(shown, walk, lambda call: call.id))


@routes.post("/runs/{run_id}/input", status_code=202, response_model=Run)
async def send_input(
    principal: RunsWriter,
    services: Using,
    request: Request,
    run_id: RunPath,
    message: SendInput,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Another message for an open run; the model sees it with its next turn. It decides nothing
    that the run waits for."""

    async def send(tx: Tx) -> Run:
        await transitions.add_input(tx, principal.project_id, run_id, items_of(message.input))
        return await shown_run(tx, principal.project_id, run_id)

    shown = await answer_once(
        services,
        IdempotentRequest.of(request, principal.project_id, idempotency_key),
        send,
        status=202,
    )
    services.wake_worker()
    return shown


@routes.post("/runs/{run_id}/continue", status_code=202, response_model=Run)
async def continue_run(
    principal: RunsWriter,
    services: Using,
    request: Request,
    run_id: RunPath,
    body: ContinueRun | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Go on from a run that is `incomplete`: a new run begins with its items, its call ids and
    their results, and with limits of its own. The old one stays as it is."""
    what = IdempotentRequest.of(request, principal.project_id, idempotency_key)
    accepted = await go_on(services, principal, run_id, body or ContinueRun(), what)
    headers = _headers_of(accepted)
    if accepted.replayed:
        shown = await read_run(services, principal.project_id, accepted.run.id)
        return answer(shown, 202, headers)
    return answer(_just_accepted(principal, accepted), 202, headers)


@routes.post("/runs/{run_id}/cancel", response_model=Run)
async def cancel_run(
    principal: RunsWriter, services: Using, run_id: RunPath, body: CancelRun | None = None
) -> Response:
    """After the answer nothing new starts. Works whether or not a worker is alive."""
    after_turn = body is not None and body.mode == "after_turn"
    await cancel(services, principal.project_id, run_id, after_turn=after_turn)
    return answer(await read_run(services, principal.project_id, run_id))
