"""Indexes that find the ended runs and the deliveries of a project in the order of their age

The previous version still runs on this schema. It deletes old deliveries without an index.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0032b"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    ended = sa.text("parent_run_id IS NULL AND ended_at IS NOT NULL")
    add_index("runs_ended", "runs", ["project_id", "ended_at", "id"], postgresql_where=ended)
    add_index("webhook_deliveries_created", "webhook_deliveries", ["project_id", "created_at"])
    with op.get_context().autocommit_block():
        op.drop_index(
            "webhook_deliveries_age",
            "webhook_deliveries",
            if_exists=True,
            postgresql_concurrently=True,
        )
