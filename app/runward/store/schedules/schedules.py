"""The schedules of a project."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update

from runward.domain.ids import KeyId, ProjectId, RunId
from runward.domain.json import JsonObject
from runward.domain.schedules import ScheduleMisfires, ScheduleOverlap, SlotSkipReason, Timing
from runward.store.access import idempotency
from runward.store.access.keys import starter_columns
from runward.store.access.vault import Vault
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.tables import schedules

RUN_COLUMN: Final = "schedules.run"


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule. `run`: the request of its runs, without the values of headers. `next_at`: its
    next slot, which is None if it is disabled or has no further slot. `last_at`: the last slot
    that was processed. `creator_name`: the name of the API key `created_by`."""

    project_id: ProjectId
    id: UUID
    name: str
    cron: str | None
    time_zone: str
    at: datetime | None
    after_seconds: int | None
    run: JsonObject
    overlap: ScheduleOverlap
    misfires: ScheduleMisfires
    enabled: bool
    created_by: KeyId
    creator_name: str | None
    next_at: datetime | None
    last_at: datetime | None
    last_run_id: RunId | None
    last_skip_reason: SlotSkipReason | None
    last_error: JsonObject | None
    created_at: datetime
    updated_at: datetime

    @property
    def timing(self) -> Timing:
        return Timing(self.cron, self.time_zone, self.at)


SCHEDULE: Final = RowMapping(
    StoredSchedule,
    schedules,
    only=[field.name for field in fields(StoredSchedule) if field.name != "creator_name"],
)
_COLUMNS: Final = (
    *(schedules.c[name] for name in SCHEDULE.columns if name != "created_by"),
    *starter_columns(schedules),
)
_COUNT: Final = select(func.count()).select_from(schedules)


async def read_clock(tx: Tx) -> datetime:
    """Return the database's time, by which slots are due."""
    return (await tx.execute(select(func.clock_timestamp()))).scalar_one()


async def count_schedules(tx: Tx, project_id: ProjectId) -> int:
    return (await tx.execute(_COUNT.where(schedules.c.project_id == project_id))).scalar_one()


async def add_schedule(
    tx: Tx, vault: Vault, project_id: ProjectId, columns: Mapping[str, Any], secret_run: str | None
) -> StoredSchedule:
    """Add a schedule. `columns`: with `next_at`. `secret_run`: see `seal_run`."""
    schedule_id = mint()
    made = insert(schedules).values(
        project_id=project_id,
        id=schedule_id,
        due_at=columns["next_at"],
        sealed_run=seal_run(vault, project_id, schedule_id, secret_run),
        **columns,
    )
    await tx.execute(made)
    return await _get(tx, project_id, schedule_id)


async def get_schedule(
    tx: Tx, project_id: ProjectId, schedule_id: UUID, *, lock: bool = False
) -> StoredSchedule | None:
    """Return the schedule, or None if it does not exist. `lock`: until the transaction ends."""
    query = select(*_COLUMNS).where(*_identify(project_id, schedule_id))
    row = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if row is None else _read(row)


async def list_schedules(
    tx: Tx, project_id: ProjectId, *, after: UUID | None, limit: int, descending: bool
) -> list[StoredSchedule]:
    query = select_page(
        select(*_COLUMNS).where(schedules.c.project_id == project_id),
        schedules.c.id,
        after=after,
        limit=limit,
        descending=descending,
    )
    return [_read(row) for row in await tx.execute(query)]


async def update_schedule(
    tx: Tx, project_id: ProjectId, schedule_id: UUID, columns: Mapping[str, Any]
) -> StoredSchedule:
    """Update a schedule that the transaction has locked. `columns`: the changed ones, and
    `next_at`. A worker that has claimed the next slot claims it again."""
    values = {**columns, "due_at": columns["next_at"], "updated_at": func.clock_timestamp()}
    changed = update(schedules).where(*_identify(project_id, schedule_id)).values(values)
    await tx.execute(changed)
    return await _get(tx, project_id, schedule_id)


async def delete_schedule(tx: Tx, project_id: ProjectId, schedule_id: UUID) -> bool:
    """Delete the schedule, its slots and the stored response that contains it, but not its runs.
    Returns False if it does not exist."""
    await idempotency.delete_answer(tx, project_id, "POST /v1/schedules", schedule_id)
    gone = delete(schedules).where(*_identify(project_id, schedule_id)).returning(schedules.c.id)
    return (await tx.execute(gone)).one_or_none() is not None


def seal_run(
    vault: Vault, project_id: ProjectId, schedule_id: UUID, secret_run: str | None
) -> bytes | None:
    """Return the encrypted request of a run whose tools have headers with values. None: the
    request has none, so the column `run` is complete."""
    if secret_run is None:
        return None
    return vault.seal(secret_run, column=RUN_COLUMN, project_id=project_id, row=schedule_id.hex)


def open_run(vault: Vault, project_id: ProjectId, schedule_id: UUID, sealed: bytes) -> str:
    """Return the decrypted request of a run. Raises SecretUnreadableError."""
    return vault.open(sealed, column=RUN_COLUMN, project_id=project_id, row=schedule_id.hex)


async def _get(tx: Tx, project_id: ProjectId, schedule_id: UUID) -> StoredSchedule:
    found = await get_schedule(tx, project_id, schedule_id)
    assert found is not None
    return found


def _read(row: Any) -> StoredSchedule:
    return SCHEDULE.read(row, creator_name=row.created_by_name)


def _identify(project_id: ProjectId, schedule_id: UUID) -> tuple[Any, ...]:
    return (schedules.c.project_id == project_id, schedules.c.id == schedule_id)
