"""The calls of one tool, in all runs

This migration only expands the schema, so that the previous version still runs on it.
"""

from runward.store.migration_scripts import add_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_index("tool_calls_tool", "tool_calls", ["project_id", "tool", "id"])
