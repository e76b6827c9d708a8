"""The calls that wait for a person or a client, in all runs of a project

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa

from runward.store.migration_scripts import add_index

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    waits = "phase IN ('awaiting_input', 'awaiting_resolution', 'awaiting_result')"
    where = sa.text(waits)
    add_index("tool_calls_inbox", "tool_calls", ["project_id", "id"], postgresql_where=where)
