"""Runs whose content is erased when they end, and when it was erased

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column("erase_at_end", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )
    op.add_column("runs", sa.Column("erased_at", sa.DateTime(timezone=True), nullable=True))
