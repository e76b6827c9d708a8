"""The priority and the start time of runs, and the limits of projects

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.add_column(
        "runs", sa.Column("priority", sa.SmallInteger, nullable=False, server_default=sa.text("0"))
    )
    op.add_column("runs", sa.Column("start_at", TIMESTAMP))
    op.create_table(
        "project_limits",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("running_runs", sa.Integer),
        sa.Column("queued_runs", sa.Integer),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("agents", postgresql.JSONB),
        sa.Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("claims", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("minute_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("requests", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("project_limits_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("project_limits_projects_fk")
        ),
    )
