"""Tools that the client runs, and tools that ask the caller

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tool_calls", sa.Column("exchange", sa.JSON(), nullable=True))
    op.create_index(
        "tool_calls_result_deadline",
        "tool_calls",
        ["deadline_at"],
        unique=False,
        postgresql_where=sa.text("phase = 'awaiting_result'"),
    )
    op.drop_constraint(op.f("tool_calls_phase_known"), "tool_calls", type_="check")
    op.create_check_constraint(
        op.f("tool_calls_phase_known"),
        "tool_calls",
        "phase IN ('awaiting_approval', 'awaiting_callback', 'awaiting_child', 'awaiting_input',"
        " 'awaiting_resolution', 'awaiting_result', 'ready', 'settled', 'started')",
    )
