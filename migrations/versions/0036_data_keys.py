"""Data keys, which encrypt stored values, and are encrypted with the secret key

This migration only adds a table, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.create_table(
        "data_keys",
        sa.Column("id", sa.LargeBinary, nullable=False),
        sa.Column("wrapped", postgresql.JSONB, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("drained_at", TIMESTAMP),
        sa.PrimaryKeyConstraint("id", name=op.f("data_keys_pk")),
    )
