"""Secrets of projects, and OAuth of MCP servers

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("project_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("secrets_projects_fk")),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("secrets_pk")),
    )
    op.add_column("mcp_servers", sa.Column("oauth", sa.LargeBinary(), nullable=True))
    op.add_column("mcp_servers", sa.Column("refresh_token", sa.LargeBinary(), nullable=True))
    op.add_column(
        "mcp_servers",
        sa.Column("refreshes", sa.Integer(), server_default=sa.text("0"), nullable=False),
    )
    op.add_column(
        "mcp_servers",
        sa.Column("refresh_claimed_until", sa.DateTime(timezone=True), nullable=True),
    )
