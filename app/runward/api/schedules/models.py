"""Request and response models of schedules and their slots."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import AfterValidator, Field, model_validator

from runward.api.http.models import (
    EXAMPLE_TIME,
    KEY_ID,
    RUN_ID,
    RequestModel,
    ResponseModel,
    UtcDatetime,
    create_request_model,
    make_optional,
    with_example,
)
from runward.api.runs.models import Actor
from runward.api.runs.request_models import StartRun
from runward.domain.ids import Prefix, format_id, format_optional_id
from runward.domain.json import JsonObject
from runward.domain.schedules import (
    MAX_AHEAD,
    MAX_CRON,
    ScheduleMisfires,
    ScheduleOverlap,
    SlotSkipReason,
    SlotStatus,
    find_cron_problem,
    is_time_zone,
)
from runward.store.schedules.schedules import StoredSchedule
from runward.store.schedules.slots import StoredSlot

SCHEDULE_ID: Final = "sched_019a5f1e9c637f749e2f7d9dbd5f5f94"
TIMINGS: Final = ("cron", "at", "after_seconds")
"""The fields of which a schedule has one."""
_SLOT_ID: Final = re.compile(rf"{Prefix.SCHEDULE_SLOT}_[0-9a-f]{{32}}_([0-9]{{1,17}})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RUN: Final[dict[str, Any]] = {"agent": "clerk", "input": "Send the report of yesterday."}
_GIVEN: Final[dict[str, Any]] = {
    "name": "Daily report",
    "cron": "0 7 * * MON-FRI",
    "time_zone": "Europe/Berlin",
    "run": _RUN,
}


def parse_slot_id(text: str) -> datetime | None:
    """Return the time of a slot, with which its ID ends, or None if the text is no such ID."""
    found = _SLOT_ID.fullmatch(text)
    return found and _EPOCH + timedelta(microseconds=int(found[1]))


def _check_cron(value: str) -> str:
    problem = find_cron_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


def _check_time_zone(value: str) -> str:
    if not is_time_zone(value):
        raise ValueError("must be a name of the IANA time zone database, such as Europe/Berlin")
    return value


def _check_run(value: StartRun) -> StartRun:
    if value.start_at is not None:
        raise ValueError("must not have start_at, because each run starts at its slot")
    return value


class CreateSchedule(RequestModel):
    """A schedule to create. It must have exactly one of `cron`, `at` and `after_seconds`."""

    model_config = with_example(**_GIVEN)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Name of the schedule, for people."""
    cron: Annotated[str, Field(max_length=MAX_CRON), AfterValidator(_check_cron)] | None = None
    """Cron expression with five fields: minute, hour, day of month, month, and day of week. Null:
    the schedule starts one run."""
    time_zone: Annotated[str, Field(max_length=64), AfterValidator(_check_time_zone)] | None = None
    """Time zone of `cron`, as a name of the IANA time zone database. Null: `UTC`."""
    at: UtcDatetime | None = None
    """Time of the only run. It must be in the future, by at most ten years."""
    after_seconds: Annotated[int, Field(ge=1, le=int(MAX_AHEAD.total_seconds()))] | None = None
    """Seconds until the only run, counted from this request."""
    run: Annotated[StartRun, AfterValidator(_check_run)]
    """Request of each run, as in `POST /v1/runs`. Runward validates it now, and again for each
    slot. At most 64 KiB as JSON."""
    overlap: ScheduleOverlap = ScheduleOverlap.SKIP
    """What happens at a slot if a run of an earlier slot has not ended. `skip`: the slot starts no
    run. `queue`: the new run waits until the earlier runs have ended. `replace`: Runward cancels
    the earlier runs."""
    misfires: ScheduleMisfires = ScheduleMisfires.ONCE
    """What happens with slots for which no worker was available for more than a minute. `skip`:
    they start no run. `once`: only the newest of them starts a run. `all`: the newest 100 of them
    start runs, oldest first."""
    enabled: bool = True
    """Whether the schedule starts runs."""

    @model_validator(mode="after")
    def _check_timing(self) -> Self:
        if sum(getattr(self, name) is not None for name in TIMINGS) != 1:
            raise ValueError("must have exactly one of cron, at and after_seconds")
        if self.time_zone is not None and self.cron is None:
            raise ValueError("must not have time_zone without cron")
        return self


_PatchFields: Final = create_request_model(
    "_PatchFields", make_optional(CreateSchedule, without=())
)


class UpdateSchedule(_PatchFields):
    """The fields to update. `cron`, `at` or `after_seconds` replaces the previous timing. A
    schedule that is enabled continues with the first slot in the future."""

    model_config = with_example(enabled=False)

    @model_validator(mode="after")
    def _check_timing(self) -> Self:
        given = self.model_fields_set.intersection(TIMINGS)
        if len(given) > 1:
            raise ValueError("must have at most one of cron, at and after_seconds")
        if "time_zone" in self.model_fields_set and given - {"cron"}:
            raise ValueError("must not have time_zone without cron")
        return self


class SlotError(ResponseModel):
    """Why the run of a slot could not start."""

    code: str
    """Stable error code, for programs. It is the code that `POST /v1/runs` would return."""
    message: str
    """Description of the error, for people."""
    errors: list[JsonObject]
    """The invalid values of the request, with `path` and `message`. A path begins with `run`."""


class Schedule(ResponseModel):
    """A schedule, which starts runs at certain times."""

    model_config = with_example(
        id=SCHEDULE_ID,
        object="schedule",
        **_GIVEN,
        at=None,
        after_seconds=None,
        overlap="skip",
        misfires="once",
        enabled=True,
        next_at="2026-11-03T06:00:00Z",
        last_at="2026-11-02T06:00:00Z",
        last_run_id=RUN_ID,
        last_skip_reason=None,
        last_error=None,
        created_by={"type": "key", "id": KEY_ID, "name": "shop"},
        created_at=EXAMPLE_TIME,
        updated_at=EXAMPLE_TIME,
    )

    id: str
    """ID of the schedule."""
    object: Literal["schedule"] = "schedule"
    name: str
    """Name of the schedule, for people."""
    cron: str | None
    """Cron expression. Null if the schedule starts one run."""
    time_zone: str | None
    """Time zone of `cron`. Null without `cron`."""
    at: datetime | None
    """Time of the only run. Null with `cron`."""
    after_seconds: int | None
    """The `after_seconds` from which Runward computed `at`. Null if there was none."""
    run: JsonObject
    """Request of each run. Values of the headers of tools are shown as `…`, and references to
    secrets are shown unchanged."""
    overlap: ScheduleOverlap
    """What happens at a slot if a run of an earlier slot has not ended."""
    misfires: ScheduleMisfires
    """What happens with slots for which no worker was available."""
    enabled: bool
    """Whether the schedule starts runs."""
    next_at: datetime | None
    """Time of the next slot. Null if the schedule is disabled or has no further slot."""
    last_at: datetime | None
    """Time of the last slot that Runward processed. Null if there was none."""
    last_run_id: str | None
    """ID of the last run. Null if there was none."""
    last_skip_reason: SlotSkipReason | None
    """Why the last slot started no run. `overlap`: a run of an earlier slot had not ended.
    `queue_full`: 100 runs of the schedule were waiting. `missed`: no worker was available. Null if
    the last slot was not skipped."""
    last_error: SlotError | None
    """Why the run of the last slot could not start. Null if there was no error."""
    created_by: Actor | None
    """API key that created the schedule. The runs have the same `created_by`."""
    created_at: datetime
    """When the schedule was created."""
    updated_at: datetime
    """When the schedule was last updated."""

    @classmethod
    def from_row(cls, row: StoredSchedule) -> Self:
        return cls.from_attributes(
            row,
            id=format_id(Prefix.SCHEDULE, row.id),
            time_zone=None if row.cron is None else row.time_zone,
            last_run_id=format_optional_id(Prefix.RUN, row.last_run_id),
            last_error=row.last_error and SlotError.model_validate(row.last_error),
            created_by=row.creator_name
            and Actor(id=format_id(Prefix.KEY, row.created_by), name=row.creator_name),
        )


class ScheduleSlot(ResponseModel):
    """A slot of a schedule that Runward has processed."""

    model_config = with_example(
        id=f"slot_{SCHEDULE_ID.removeprefix('sched_')}_1793599200000000",
        at="2026-11-02T06:00:00Z",
        status="started",
        run_id=RUN_ID,
        skip_reason=None,
        error=None,
        created_at="2026-11-02T06:00:00.412000Z",
    )

    id: str
    """ID of the slot."""
    object: Literal["schedule_slot"] = "schedule_slot"
    at: datetime
    """Time of the slot."""
    status: SlotStatus
    """Result of the slot. `started`: it started a run. `skipped`: it started no run because of
    `overlap` or `misfires`. `failed`: its run could not start."""
    run_id: str | None
    """ID of the run. Null if the slot started no run."""
    skip_reason: SlotSkipReason | None
    """Why Runward skipped the slot. If several slots in a row were missed, the list contains only
    the first one. Null if the slot was not skipped."""
    error: SlotError | None
    """Why the run could not start. Null if there was no error."""
    created_at: datetime
    """When Runward processed the slot. Runward deletes slots 30 days later."""

    @classmethod
    def from_row(cls, schedule_id: UUID, row: StoredSlot) -> Self:
        microseconds = (row.slot_at - _EPOCH) // timedelta(microseconds=1)
        return cls.from_attributes(
            row,
            id=f"{format_id(Prefix.SCHEDULE_SLOT, schedule_id)}_{microseconds}",
            at=row.slot_at,
            run_id=format_optional_id(Prefix.RUN, row.run_id),
            error=row.error and SlotError.model_validate(row.error),
        )
