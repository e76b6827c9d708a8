"""Indexes of the queue and of the running runs of each project

The previous version still runs on this schema. It finds running runs with the new index.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0034b"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_index(
        "runs_project_queue",
        "runs",
        ["project_id", "priority", "available_at"],
        postgresql_where=sa.text("status = 'queued' AND available_at < 'infinity'"),
    )
    add_index(
        "runs_running",
        "runs",
        ["project_id", "id"],
        postgresql_where=sa.text("status = 'in_progress'"),
    )
    with op.get_context().autocommit_block():
        op.drop_index("runs_in_progress", "runs", if_exists=True, postgresql_concurrently=True)
