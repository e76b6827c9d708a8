"""Limits of API keys, event streams and tools, and concurrency keys

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.add_column("runs", sa.Column("concurrency_groups", postgresql.ARRAY(sa.Text)))
    op.add_column("project_limits", sa.Column("event_streams", sa.Integer))
    op.add_column("project_limits", sa.Column("tools", postgresql.JSONB))
    op.add_column("project_limits", sa.Column("concurrency_keys", postgresql.JSONB))
    op.create_table(
        "key_limits",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("key_id", sa.Uuid, nullable=False),
        sa.Column("running_runs", sa.Integer),
        sa.Column("queued_runs", sa.Integer),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("event_streams", sa.Integer),
        sa.Column("minute_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("requests", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("project_id", "key_id", name=op.f("key_limits_pk")),
        sa.ForeignKeyConstraint(
            ["project_id", "key_id"],
            ["api_keys.project_id", "api_keys.id"],
            name=op.f("key_limits_api_keys_fk"),
            ondelete="CASCADE",
        ),
    )
