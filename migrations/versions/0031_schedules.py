"""Schedules and their slots, and the schedule of each run

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.add_column("runs", sa.Column("schedule_id", sa.Uuid))
    _create_schedules()
    _create_slots()


def _create_schedules() -> None:
    table = "schedules"
    op.create_table(
        table,
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("cron", sa.Text),
        sa.Column("time_zone", sa.Text, nullable=False),
        sa.Column("at", TIMESTAMP),
        sa.Column("after_seconds", sa.Integer),
        sa.Column("run", sa.JSON, nullable=False),
        sa.Column("sealed_run", sa.LargeBinary),
        sa.Column("overlap", sa.Text, nullable=False),
        sa.Column("misfires", sa.Text, nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("created_by", sa.Uuid, nullable=False),
        sa.Column("next_at", TIMESTAMP),
        sa.Column("due_at", TIMESTAMP),
        sa.Column("last_at", TIMESTAMP),
        sa.Column("last_run_id", sa.Uuid),
        sa.Column("last_skip_reason", sa.Text),
        sa.Column("last_error", sa.JSON),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("schedules_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("schedules_projects_fk")
        ),
        sa.CheckConstraint(
            "overlap IN ('queue', 'replace', 'skip')", name=op.f("schedules_overlap_known")
        ),
        sa.CheckConstraint(
            "misfires IN ('all', 'once', 'skip')", name=op.f("schedules_misfires_known")
        ),
        sa.CheckConstraint("(cron IS NULL) = (at IS NOT NULL)", name=op.f("schedules_one_timing")),
        sa.CheckConstraint(
            "after_seconds IS NULL OR at IS NOT NULL", name=op.f("schedules_delay_has_time")
        ),
        sa.CheckConstraint(
            "(next_at IS NULL) = (due_at IS NULL)", name=op.f("schedules_due_iff_next")
        ),
        sa.CheckConstraint("enabled OR next_at IS NULL", name=op.f("schedules_next_if_enabled")),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("schedules_due", table, ["due_at"], postgresql_where=due)
    op.create_index("schedules_project_due", table, ["project_id", "due_at"], postgresql_where=due)


def _create_slots() -> None:
    table = "schedule_slots"
    op.create_table(
        table,
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("schedule_id", sa.Uuid, nullable=False),
        sa.Column("slot_at", TIMESTAMP, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("run_id", sa.Uuid),
        sa.Column("skip_reason", sa.Text),
        sa.Column("error", sa.JSON),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint(
            "project_id", "schedule_id", "slot_at", name=op.f("schedule_slots_pk")
        ),
        sa.ForeignKeyConstraint(
            ["project_id", "schedule_id"],
            ["schedules.project_id", "schedules.id"],
            name=op.f("schedule_slots_schedules_fk"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "status IN ('failed', 'skipped', 'started')", name=op.f("schedule_slots_status_known")
        ),
        sa.CheckConstraint(
            "(status = 'started') = (run_id IS NOT NULL)",
            name=op.f("schedule_slots_run_iff_started"),
        ),
        sa.CheckConstraint(
            "(status = 'skipped') = (skip_reason IS NOT NULL)",
            name=op.f("schedule_slots_reason_iff_skipped"),
        ),
        sa.CheckConstraint(
            "(status = 'failed') = (error IS NOT NULL)",
            name=op.f("schedule_slots_error_iff_failed"),
        ),
    )
    op.create_index("schedule_slots_age", table, ["created_at"])
