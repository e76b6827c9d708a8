"""Retention of projects, legal holds, and erasures of everything with the same metadata

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0032"
down_revision = "0031b"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")
LARGE_TABLES = ("runs", "run_items", "run_events", "tool_calls", "approvals", "webhook_deliveries")


def upgrade() -> None:
    op.add_column(
        "projects",
        sa.Column("retention", postgresql.JSONB, nullable=False, server_default="{}"),
    )
    op.create_table(
        "retention_cursors",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("data_class", sa.Text, nullable=False),
        sa.Column("ended_at", TIMESTAMP, nullable=False),
        sa.Column("run_id", sa.Uuid, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "data_class", name=op.f("retention_cursors_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("retention_cursors_projects_fk")
        ),
    )
    op.create_table(
        "legal_holds",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("subject_id", sa.Uuid, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_by", sa.Uuid, nullable=False),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint("project_id", "subject_id", name=op.f("legal_holds_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("legal_holds_projects_fk")
        ),
        sa.CheckConstraint(
            "kind IN ('project', 'run', 'session')", name=op.f("legal_holds_kind_known")
        ),
    )
    op.create_table(
        "erasures",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("metadata", postgresql.JSONB),
        sa.Column("in_sessions", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("position", sa.Uuid, nullable=False),
        sa.Column("runs_erased", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("sessions_deleted", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("held", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("ended_at", TIMESTAMP),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("erasures_pk")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("erasures_projects_fk")),
        sa.CheckConstraint(
            "(metadata IS NULL) = (ended_at IS NOT NULL)", name=op.f("erasures_metadata_iff_open")
        ),
    )
    op.create_index(
        "erasures_open",
        "erasures",
        ["project_id", "id"],
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    for (
        table
    ) in LARGE_TABLES:  # the default, 20 percent, would keep the rows that retention removed
        op.execute(f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02)")
