"""An index of the queue of each project, in the order of priority and age

This migration only adds an index, so that the previous version still runs on the schema.
"""

import sqlalchemy as sa

from runward.store.migration_scripts import add_index

revision = "0033b"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_index(
        "runs_project_queue",
        "runs",
        ["project_id", "priority", "available_at"],
        postgresql_where=sa.text("status = 'queued' AND available_at < 'infinity'"),
    )
