"""/v1/schedules."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from fastapi import Request, Response
from pydantic_core import from_json, to_jsonable_python

from runward.api.http.audit import AuditDep
from runward.api.http.auth import RunsReader, RunsWriter
from runward.api.http.dependencies import RegistryDep, StorageDep
from runward.api.http.idempotency import RequestKey, has_stored_response, respond_once
from runward.api.http.paging import Page, Pagination
from runward.api.http.params import SchedulePath
from runward.api.http.requests import ApiRequest
from runward.api.http.routes import make_router
from runward.api.registry.inline_tools import ensure_may_define
from runward.api.runs.request_models import StartRun
from runward.api.schedules.models import (
    TIMINGS,
    CreateSchedule,
    Schedule,
    ScheduleSlot,
    UpdateSchedule,
    parse_slot_id,
)
from runward.api.schedules.run_request import build_run, hide_headers
from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.errors import FieldError
from runward.domain.ids import Prefix, ProjectId
from runward.domain.json import JsonObject, compact, compute_digest
from runward.domain.registry.scopes import Principal
from runward.domain.schedules import MAX_AHEAD, Timing
from runward.services import Registry, Storage
from runward.store.postgres.db import Tx
from runward.store.runs import sessions
from runward.store.schedules import schedules, slots
from runward.store.schedules.schedules import StoredSchedule

MAX_SCHEDULES: Final = 1_000
"""Maximum number of schedules of a project."""
MAX_RUN_BYTES: Final = 65_536
"""Maximum size in bytes of the request of a run as JSON. Lists contain the requests of all their
schedules."""

routes = make_router("Schedules")


@routes.post("/schedules", status_code=201, response_model=Schedule, responses={404: {}})
async def create_schedule(
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    request_key: RequestKey,
    audit: AuditDep,
    request: Request,
    schedule: CreateSchedule,
) -> Response:
    """Create a schedule. Runward validates the request of its runs like `POST /v1/runs`. To define
    tools in it, the API key may also need the scope `tools:write`."""
    if not await has_stored_response(storage, request_key):
        await _check_run(storage, registry, principal, schedule.run)
    shown, secret = _read_run(request)

    async def create(tx: Tx) -> Schedule:
        if await schedules.count_schedules(tx, principal.project_id) >= MAX_SCHEDULES:
            raise e.ConflictError(
                f"A project can have at most {MAX_SCHEDULES} schedules. Delete one first."
            )
        now = await schedules.read_clock(tx)
        timing = _find_timing(dict(schedule), now)
        next_at = _find_first(timing, now)
        fields = dict(schedule) | {
            "time_zone": timing.time_zone,
            "at": timing.at,
            "run": shown,
            "created_by": principal.key_id,
            "next_at": next_at if schedule.enabled else None,
        }
        made = await schedules.add_schedule(tx, storage.vault, principal.project_id, fields, secret)
        created = Schedule.from_row(made)
        await audit.record(tx, AuditAction.SCHEDULE_CREATED, created.id, after=_hide_run(made))
        return created

    return await respond_once(
        storage, request_key, create, status=201, collection_path="/v1/schedules"
    )


@routes.get("/schedules")
async def list_schedules(
    principal: RunsReader, storage: StorageDep, pagination: Pagination
) -> Page[Schedule]:
    """List the schedules of the project, with their next slots."""
    window = pagination.by_id(Prefix.SCHEDULE)
    async with storage.connect() as tx:
        found = await schedules.list_schedules(tx, principal.project_id, **window)
    return pagination.page(found, Schedule.from_row, lambda one: one.id)


@routes.get("/schedules/{schedule_id}")
async def get_schedule(
    principal: RunsReader, storage: StorageDep, schedule_id: SchedulePath
) -> Schedule:
    """Get a schedule, with its next slot and the result of the last one."""
    async with storage.connect() as tx:
        found = await _get_schedule(tx, principal.project_id, schedule_id)
    return Schedule.from_row(found)


@routes.patch("/schedules/{schedule_id}")
async def update_schedule(
    principal: RunsWriter,
    storage: StorageDep,
    registry: RegistryDep,
    audit: AuditDep,
    request: Request,
    schedule_id: SchedulePath,
    patch: UpdateSchedule,
) -> Schedule:
    """Update a schedule. Open runs of the schedule continue. Slots that pass while a schedule is
    disabled start no runs."""
    given = {name: getattr(patch, name) for name in patch.model_fields_set}
    nulls = [name for name, value in given.items() if value is None]
    if nulls:
        raise e.InvalidRequestError(errors=[FieldError(one, "must not be null") for one in nulls])
    if "run" in given:
        await _check_run(storage, registry, principal, given["run"])
        given["run"], secret = _read_run(request)
        given["sealed_run"] = schedules.seal_run(
            storage.vault, principal.project_id, schedule_id, secret
        )
    async with storage.begin() as tx:
        found = await _get_schedule(tx, principal.project_id, schedule_id, lock=True)
        fields = given | await _find_changed_timing(tx, found, given)
        changed = await schedules.update_schedule(tx, principal.project_id, schedule_id, fields)
        updated, before, after = Schedule.from_row(changed), _hide_run(found), _hide_run(changed)
        await audit.record(tx, AuditAction.SCHEDULE_UPDATED, updated.id, before=before, after=after)
    return updated


@routes.delete("/schedules/{schedule_id}", status_code=204)
async def delete_schedule(
    principal: RunsWriter, storage: StorageDep, audit: AuditDep, schedule_id: SchedulePath
) -> None:
    """Delete a schedule and its slots. Its runs continue."""
    async with storage.begin() as tx:
        found = await _get_schedule(tx, principal.project_id, schedule_id, lock=True)
        await schedules.delete_schedule(tx, principal.project_id, schedule_id)
        former = Schedule.from_row(found)
        await audit.record(tx, AuditAction.SCHEDULE_DELETED, former.id, before=_hide_run(found))


@routes.get("/schedules/{schedule_id}/slots")
async def list_schedule_slots(
    principal: RunsReader, storage: StorageDep, schedule_id: SchedulePath, pagination: Pagination
) -> Page[ScheduleSlot]:
    """List the slots that Runward has processed, in order of their times. Runward keeps a slot for
    30 days."""
    window = pagination.by_cursor(
        parse_slot_id, "must be the `first_id` or `last_id` of a page of this list"
    )
    async with storage.connect() as tx:
        await _get_schedule(tx, principal.project_id, schedule_id)
        found = await slots.list_slots(tx, principal.project_id, schedule_id, **window)
    render = partial(ScheduleSlot.from_row, schedule_id)
    return pagination.page(found, render, lambda one: one.id)


async def _get_schedule(
    tx: Tx, project_id: ProjectId, schedule_id: UUID, *, lock: bool = False
) -> StoredSchedule:
    found = await schedules.get_schedule(tx, project_id, schedule_id, lock=lock)
    if found is None:
        raise not_found.ScheduleNotFoundError
    return found


def _hide_run(schedule: StoredSchedule) -> JsonObject:
    """Return the schedule for the audit log. The request contains the input of runs, which an
    erasure must not leave in the log, so its digest replaces it."""
    shown: JsonObject = to_jsonable_python(Schedule.from_row(schedule))
    return shown | {"run": compute_digest(shown["run"])}


async def _check_run(
    storage: Storage, registry: Registry, principal: Principal, run: StartRun
) -> None:
    """Check that a run could start now. Raises AppErrors."""
    ensure_may_define(principal, run.tools)
    await build_run(storage, registry, principal, run)
    session = run.find_session()
    if session is not None:
        async with storage.connect() as tx:
            if await sessions.get(tx, principal.project_id, session[0]) is None:
                raise not_found.SessionNotFoundError


def _read_run(request: Request) -> tuple[JsonObject, str | None]:
    """Return the run as the client sent it, with hidden values of headers. If there are any, also
    return the complete request. Raises InvalidRequestError."""
    assert isinstance(request, ApiRequest)
    run: JsonObject = from_json(request.raw)["run"]
    complete, shown = compact(run), hide_headers(run)
    if len(complete.encode()) > MAX_RUN_BYTES:
        problem = FieldError("run", f"must be at most {MAX_RUN_BYTES} bytes as JSON")
        raise e.InvalidRequestError(errors=[problem])
    return shown, None if shown == run else complete


async def _find_changed_timing(
    tx: Tx, found: StoredSchedule, given: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns that the update changes. Raises InvalidRequestError."""
    now, timing, changed = await schedules.read_clock(tx), found.timing, dict[str, Any]()
    if found.last_at is not None:  # A new primary's clock can be behind.
        now = max(now, found.last_at)
    if not given.keys().isdisjoint((*TIMINGS, "time_zone")):
        chosen = {"cron": found.cron, "time_zone": found.time_zone} | given
        if given.keys() & {"at", "after_seconds"}:
            chosen["cron"] = None
        elif chosen["cron"] is None:
            problem = FieldError("time_zone", "must not be set, because the schedule has no cron")
            raise e.InvalidRequestError(errors=[problem])
        timing = _find_timing(chosen, now)
        _find_first(timing, now)
        changed = {
            "cron": timing.cron,
            "time_zone": timing.time_zone,
            "at": timing.at,
            "after_seconds": given.get("after_seconds"),
        }
    enabled = given.get("enabled", found.enabled)
    keeps_slot = not changed and found.enabled
    next_at = found.next_at if keeps_slot else timing.find_next(now)
    return changed | {"next_at": next_at if enabled else None}


def _find_timing(fields: dict[str, Any], now: datetime) -> Timing:
    if fields.get("cron") is not None:
        return Timing(fields["cron"], fields["time_zone"] or "UTC", None)
    seconds = fields.get("after_seconds")
    at = fields["at"] if seconds is None else now + timedelta(seconds=seconds)
    return Timing(None, "UTC", at)


def _find_first(timing: Timing, now: datetime) -> datetime:
    """Return the first slot of a new timing. Raises InvalidRequestError."""
    first = timing.find_next(now)
    if first is not None and (timing.cron is not None or first - now <= MAX_AHEAD):
        return first
    problem = FieldError("at", "must be in the future, by at most ten years")
    if timing.cron is not None:
        problem = FieldError("cron", "matches no time in the next 50 years")
    raise e.InvalidRequestError(errors=[problem])
