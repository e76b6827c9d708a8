"""The calls of one tool, in all runs

Expands only: the version before must still run on the schema that this leaves.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("tool_calls_tool", "tool_calls", ["project_id", "tool", "id"], unique=False)
