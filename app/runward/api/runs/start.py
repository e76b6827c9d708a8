"""`POST /v1/runs`: start a run, and the commit that accepts it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import Header, Request, Response

from runward.api.events.follow import RunLog, encode_log
from runward.api.events.models import EVENT_STREAM
from runward.api.events.open_streams import Frames, start_stream
from runward.api.http.auth import RunsWriter
from runward.api.http.dependencies import LiveDep, RegistryDep, RunQueueDep, StorageDep
from runward.api.http.idempotency import IdempotentRequest
from runward.api.http.params import IdempotencyKey, WaitSeconds
from runward.api.http.responses import json_response
from runward.api.http.routes import make_router
from runward.api.registry.inline_tools import ensure_may_define
from runward.api.runs.acceptance import (
    AcceptResult,
    accept_in_session,
    accept_once,
    build_view,
    with_current_agent,
)
from runward.api.runs.answers import make_headers, read_run, render_accepted, wait_and_respond
from runward.api.runs.concurrency import add_concurrency_groups
from runward.api.runs.models import Run
from runward.api.runs.request_models import StartRun
from runward.api.runs.resolution import ResolvedAgent, resolve_agent
from runward.domain.errors import FieldError, InvalidRequestError
from runward.domain.events.kinds import RunStartedEvent
from runward.domain.events.run_data import RunOrigin
from runward.domain.ids import Prefix, RunId, format_id
from runward.domain.registry.scopes import Principal
from runward.domain.run.bounds import check_room, count_json_bytes
from runward.domain.run.config import add_trace
from runward.domain.run.items import Item
from runward.domain.run.run_events import add_run_created
from runward.domain.run.state import Changes, RunState, Segment, SegmentKind
from runward.services import Registry, RunQueue, Storage
from runward.store.access.audit import AuditActor
from runward.store.live.carried import CommittedEvents
from runward.store.postgres.db import mint
from runward.store.runs.queue import AcceptedRun, NewRun
from runward.tracing import write_trace

routes = make_router("Runs")

MAX_START_DELAY: Final = timedelta(days=366)
"""Maximum time until the `start_at` of a run."""


@routes.post(
    "/runs",
    status_code=202,
    response_model=Run,
    responses={
        200: {
            "description": "Runward accepted the run. With `wait`, the run has also ended or "
            "reached the status `requires_action`. If the client accepts `text/event-stream`, the "
            "response is the stream of the run's events.",
            "model": Run,
            "content": {"application/json": {}, "text/event-stream": {"schema": EVENT_STREAM}},
        },
        202: {
            "description": "Runward accepted the run. The run and its first event are stored "
            "durably."
        },
        404: {},
    },
)
async def start_run(  # noqa: PLR0913
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    queue: RunQueueDep,
    live: LiveDep,
    request: Request,
    run: StartRun,
    wait: WaitSeconds,
    idempotency_key: IdempotencyKey = None,
    accept_header: Annotated[
        str,
        Header(
            alias="Accept",
            description="Media type of the response. `text/event-stream` returns the stream of "
            "the run's events.",
        ),
    ] = "*/*",
) -> Response:
    """Start a run. When Runward responds, the run and its first event are stored durably."""
    what = IdempotentRequest.from_request(request, principal.project_id, idempotency_key)

    async def streamed() -> Frames:
        accepted = await accept(storage, registry, queue, principal, run, what)
        log = RunLog(principal.project_id, accepted.run.id)
        return encode_log(storage, live, log), make_headers(accepted)

    if "text/event-stream" in accept_header:
        return await start_stream(live, principal, streamed)
    accepted = await accept(storage, registry, queue, principal, run, what)
    run_id, headers = accepted.run.id, make_headers(accepted)
    if wait:
        return await wait_and_respond(storage, live, principal.project_id, run_id, wait, headers)
    if accepted.replayed:
        return json_response(await read_run(storage, principal.project_id, run_id), 202, headers)
    return json_response(render_accepted(principal, accepted), 202, headers)


async def accept(
    storage: Storage,
    registry: Registry,
    queue: RunQueue,
    principal: Principal,
    body: StartRun,
    request_key: IdempotentRequest,
) -> AcceptResult:
    """Accept a run. When this returns, the run and its first event are committed. Raises
    AppErrors."""

    _check_start(body.start_at)

    async def start() -> AcceptResult:
        ensure_may_define(principal, body.tools)
        resolved = await resolve_agent(storage, registry, principal.project_id, body)
        new = request_key.with_key(build_new_run(principal, body, resolved, body.to_items()))
        new = await add_concurrency_groups(registry, principal.limits, new, body.session_id)
        session = body.find_session()
        if session is None:
            return await accept_immediately(queue, new)
        actor = AuditActor.from_principal(principal)
        return await accept_in_session(storage, queue, new, *session, actor=actor)

    current = with_current_agent(registry, principal.project_id, start)
    return await accept_once(storage, principal, request_key, current)


def _check_start(start_at: datetime | None) -> None:
    """Raises InvalidRequestError."""
    if start_at is not None and start_at > datetime.now(UTC) + MAX_START_DELAY:
        raise InvalidRequestError(errors=[FieldError("start_at", "must be at most one year ahead")])


def build_new_run(
    principal: Principal,
    body: StartRun,
    resolved: ResolvedAgent,
    items: tuple[Item, ...],
    continued_from: RunId | None = None,
) -> NewRun:
    """Return the new run. `items`: the items that it begins with. Raises ConflictError if they
    exceed the maximum size of a run."""
    if continued_from is not None:  # If not, the items are no larger than the request.
        check_room(items)
    config, changes = resolved.config, Changes()
    if trace := write_trace():
        config = add_trace(config, trace)
    origin: RunOrigin = {}
    if continued_from:
        origin = {"continued_from": format_id(Prefix.RUN, continued_from)}
    add_run_created(changes, body.agent, config, origin)
    segment = Segment(SegmentKind.INPUT, 0, body.agent, items)
    changes.segments.append(segment)
    state = RunState(
        project_id=principal.project_id,
        id=RunId(mint()),
        agent=body.agent,
        config=config,
        context=body.context,
        created_by=principal.key_id,
        team=resolved.team,
    )
    return NewRun(
        state,
        changes,
        metadata=body.metadata,
        agent_version=resolved.version,
        continued_from=continued_from,
        priority=body.priority,
        start_at=body.start_at,
        may_lease=body.start_at is None
        and not principal.limits.restrict_claims(principal.key_limits),
        needs_current_agent=resolved.version is not None,
    )


async def accept_immediately(queue: RunQueue, new: NewRun) -> AcceptResult:
    """Accept a run that waits for no other run. If this process has capacity, it leases the run in
    the same commit."""
    lease = new.may_lease and queue.reserve_place()
    new = replace(new, lease=lease)
    if lease:
        new.changes.add(RunStartedEvent({}))
    try:
        accepted = await queue.accept(new)
    except BaseException:
        if lease:
            queue.release_place()
        raise
    if lease:
        state, events = _build_state(new, accepted), new.changes.events
        queue.start_accepted(state, CommittedEvents(new.id, len(events), accepted.at, events))
    else:
        queue.wake_worker(new.id)
    return AcceptResult(build_view(new, accepted), replayed=False)


def _build_state(new: NewRun, accepted: AcceptedRun) -> RunState:
    """Return the state of the run as it would be loaded."""
    return replace(
        new.state,
        fence=1,
        tool_versions=accepted.tool_versions,
        last_seq=len(new.changes.events),
        segments=tuple(new.changes.segments),
        seconds_left=new.state.config.limits.deadline_seconds,
        stored_bytes=count_json_bytes(new.changes.segments),
    )
