"""Indexes for lists of runs by status and agent, and of approvals by status and tool

This migration only adds indexes that replace one other, so that the previous version still runs on
the schema.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    of_clients = sa.text("parent_run_id IS NULL")
    add_index("runs_status", "runs", ["project_id", "status", "id"], postgresql_where=of_clients)
    add_index("runs_agent", "runs", ["project_id", "agent", "id"], postgresql_where=of_clients)
    parked = "status = 'queued' AND available_at = 'infinity' AND started_at IS NOT NULL"
    add_index("runs_parked", "runs", ["project_id", "id"], postgresql_where=sa.text(parked))
    add_index("approvals_status", "approvals", ["project_id", "status", "id"])
    add_index("approvals_tool", "approvals", ["project_id", "tool", "id"])
    with op.get_context().autocommit_block():
        op.drop_index("approvals_inbox", "approvals", if_exists=True, postgresql_concurrently=True)
