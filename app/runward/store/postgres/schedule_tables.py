"""The tables of schedules and their slots. Only the package `store` knows their columns."""

from typing import Final

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
)

from runward.domain.run.status import OPEN
from runward.domain.schedules import ScheduleMisfires, ScheduleOverlap, SlotStatus
from runward.store.postgres.columns import (
    NOW,
    TIMESTAMP,
    enum_check,
    list_values,
    metadata,
    partial_index,
    project_column,
)

schedules = Table(
    "schedules",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    Column("name", Text, nullable=False),
    # Either a cron expression, or the time of the only slot.
    Column("cron", Text),
    Column("time_zone", Text, nullable=False),
    Column("at", TIMESTAMP),
    Column("after_seconds", Integer),
    # The request of the run without the values of headers, and the complete one if it has any.
    Column("run", JSON, nullable=False),
    Column("sealed_run", LargeBinary),
    Column("overlap", Text, nullable=False),
    Column("misfires", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("created_by", Uuid, nullable=False),
    # The first slot that was not processed, and when a worker may claim it.
    Column("next_at", TIMESTAMP),
    Column("due_at", TIMESTAMP),
    # The last slot that was processed, and the last run.
    Column("last_at", TIMESTAMP),
    Column("last_run_id", Uuid),
    Column("last_skip_reason", Text),
    Column("last_error", JSON),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "id"),
    enum_check("overlap", ScheduleOverlap),
    enum_check("misfires", ScheduleMisfires),
    CheckConstraint("(cron IS NULL) = (at IS NOT NULL)", name="one_timing"),
    CheckConstraint("after_seconds IS NULL OR at IS NOT NULL", name="delay_has_time"),
    CheckConstraint("(next_at IS NULL) = (due_at IS NULL)", name="due_iff_next"),
    CheckConstraint("enabled OR next_at IS NULL", name="next_if_enabled"),
    partial_index("schedules_due", "due_at", where="due_at IS NOT NULL"),
    partial_index("schedules_project_due", "project_id", "due_at", where="due_at IS NOT NULL"),
)

schedule_slots = Table(
    "schedule_slots",
    metadata,
    project_column(),
    Column("schedule_id", Uuid, nullable=False),
    Column("slot_at", TIMESTAMP, nullable=False),
    Column("status", Text, nullable=False),
    Column("run_id", Uuid),
    Column("skip_reason", Text),
    Column("error", JSON),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    # No slot is processed twice.
    PrimaryKeyConstraint("project_id", "schedule_id", "slot_at"),
    ForeignKeyConstraint(
        ["project_id", "schedule_id"],
        ["schedules.project_id", "schedules.id"],
        ondelete="CASCADE",
    ),
    enum_check("status", SlotStatus),
    CheckConstraint("(status = 'started') = (run_id IS NOT NULL)", name="run_iff_started"),
    CheckConstraint("(status = 'skipped') = (skip_reason IS NOT NULL)", name="reason_iff_skipped"),
    CheckConstraint("(status = 'failed') = (error IS NOT NULL)", name="error_iff_failed"),
    Index("schedule_slots_age", "created_at"),
)

_OF_SCHEDULES: Final = "schedule_id IS NOT NULL"
INDEXES_OF_RUNS: Final = (
    partial_index("runs_schedule", "project_id", "schedule_id", "id", where=_OF_SCHEDULES),
    partial_index(
        "runs_schedule_open",
        "project_id",
        "schedule_id",
        "id",
        where=f"{_OF_SCHEDULES} AND status IN ({list_values(OPEN)})",
    ),
    partial_index(
        "runs_schedule_waiting",
        "project_id",
        "schedule_id",
        "created_at",
        where=f"{_OF_SCHEDULES} AND session_id IS NULL AND status = 'queued'"
        " AND available_at = 'infinity' AND started_at IS NULL",
    ),
)
"""Indexes of the table `runs`: all runs of a schedule, the open ones, and the waiting ones."""
