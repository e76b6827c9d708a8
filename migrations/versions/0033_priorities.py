"""The priority and the start time of runs

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032b"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column(
        "runs", sa.Column("priority", sa.SmallInteger, nullable=False, server_default=sa.text("0"))
    )
    op.add_column("runs", sa.Column("start_at", TIMESTAMP))
