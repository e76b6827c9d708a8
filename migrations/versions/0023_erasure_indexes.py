"""Indexes that find the runs to erase, and copies of their content

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa

from runward.store.migration_scripts import add_index

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    due = sa.text("erase_at_end AND erased_at IS NULL")
    add_index("runs_erasure", "runs", ["ended_at"], postgresql_where=due)
    add_index("session_items_run", "session_items", ["project_id", "run_id"])
    add_index(
        "idempotency_keys_answers",
        "idempotency_keys",
        ["project_id", "route"],
        postgresql_ops={"route": "text_pattern_ops"},
        postgresql_where=sa.text("answer IS NOT NULL"),
    )
