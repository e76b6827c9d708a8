"""Workers and their heartbeats, and an index of the runs that require an action, for metrics

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0031"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # The index is built outside a transaction. An interrupted migration begins again with it.
    where = sa.text("status = 'requires_action'")
    add_index("runs_requires_action", "runs", ["id"], postgresql_where=where)
    now = sa.text("clock_timestamp()")
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("workers_pk")),
    )
