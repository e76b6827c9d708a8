"""The response with one run: its current state, its state after a wait, or a run that was just
accepted."""

from contextlib import aclosing
from dataclasses import replace

from fastapi import Response

from runward.api.events.follow import RunLog, follow
from runward.api.http.idempotency import REPLAY_HEADERS
from runward.api.http.params import MAX_SEQUENCE
from runward.api.http.responses import json_response
from runward.api.runs.acceptance import AcceptResult
from runward.api.runs.models import Run, RunConfig
from runward.domain import not_found
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.registry.scopes import Principal
from runward.domain.run.status import TERMINAL, WAIT_ENDING, RunStatus
from runward.services import Live, Storage
from runward.store.access.keys import ActingKey
from runward.store.postgres.db import Tx
from runward.store.runs import views
from runward.store.runs.views import RunView


async def read_run(
    storage: Storage, project_id: ProjectId, run_id: RunId, *, with_config: bool = False
) -> Run:
    """Return the current state of the run. Raises RunNotFoundError."""
    async with storage.connect() as tx:
        return await load_run(tx, project_id, run_id, with_config=with_config)


async def load_run(
    tx: Tx, project_id: ProjectId, run_id: RunId, *, with_config: bool = False
) -> Run:
    """Return the run as the transaction reads it. Raises RunNotFoundError."""
    view = await views.get_run(tx, project_id, run_id)
    if view is None:
        raise not_found.RunNotFoundError
    config: RunConfig | None = None
    if with_config and view.erased_at is None:
        given = await views.get_first_input(tx, project_id, run_id)
        config = RunConfig.from_row(view, given)
    if view.status in TERMINAL or (view.turn == 0 and view.status is not RunStatus.REQUIRES_ACTION):
        return Run.from_row(view, config=config)
    waiting = await views.list_waiting_calls(tx, project_id, [run_id])
    return Run.from_row(view, waiting[run_id], config)


async def load_content(tx: Tx, project_id: ProjectId, run_id: RunId) -> RunView:
    """Return the row of a run that has its content. Raises RunNotFoundError, and RunErasedError if
    the content has been erased."""
    view = await views.get_run(tx, project_id, run_id)
    if view is None:
        raise not_found.RunNotFoundError
    if view.erased_at is not None:
        raise not_found.RunErasedError
    return view


async def wait_and_respond(
    storage: Storage,
    live: Live,
    project_id: ProjectId,
    run_id: RunId,
    seconds: float,
    headers: dict[str, str] | None = None,
    *,
    with_config: bool = False,
) -> Response:
    """Respond with 200 if the run has ended or requires action. Respond with 202 if it has not
    within `seconds`, or when the process stops. Raises RunNotFoundError."""
    status = RunLog(project_id, run_id, MAX_SEQUENCE)
    async with aclosing(
        follow(storage, live, status, until=WAIT_ENDING, seconds=seconds)
    ) as batches:
        async for _ in batches:
            pass
    shown = await read_run(storage, project_id, run_id, with_config=with_config)
    return json_response(shown, 200 if shown.status in WAIT_ENDING else 202, headers)


def render_accepted(principal: Principal, accepted: AcceptResult) -> Run:
    """Return a run that the key of the request has just started."""
    actor = ActingKey(principal.key_id, principal.key_name)
    return Run.from_row(replace(accepted.run, created_by=actor))


def make_headers(accepted: AcceptResult) -> dict[str, str]:
    """Return the headers: the location of the run, and whether its idempotency key was used
    before."""
    location = {"Location": f"/v1/runs/{format_id(Prefix.RUN, accepted.run.id)}"}
    return location | REPLAY_HEADERS if accepted.replayed else location
