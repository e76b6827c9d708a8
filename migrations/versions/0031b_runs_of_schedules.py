"""Indexes for the runs of schedules

This migration only adds indexes, so that the previous version still runs on the schema. They
contain only runs of schedules.
"""

import sqlalchemy as sa

from runward.store.migration_scripts import add_index

revision = "0031b"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    of_schedules = "schedule_id IS NOT NULL"
    columns = ["project_id", "schedule_id", "id"]
    add_index("runs_schedule", "runs", columns, postgresql_where=sa.text(of_schedules))
    add_index(
        "runs_schedule_open",
        "runs",
        columns,
        postgresql_where=sa.text(
            f"{of_schedules} AND status IN ('in_progress', 'queued', 'requires_action')"
        ),
    )
    add_index(
        "runs_schedule_waiting",
        "runs",
        ["project_id", "schedule_id", "created_at"],
        postgresql_where=sa.text(
            f"{of_schedules} AND session_id IS NULL AND status = 'queued'"
            " AND available_at = 'infinity' AND started_at IS NULL"
        ),
    )
