"""The calls of one tool, in all runs

Expands only: the version before must still run on the schema that this leaves.
"""

from runward.store.migration_scripts import add_index

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_index("tool_calls_tool", "tool_calls", ["project_id", "tool", "id"])
