"""The audit log: a chain of entries for each project

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034b"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_chains",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text),
        sa.Column("removed_number", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        sa.Column("removed_hash", sa.Text),
        sa.PrimaryKeyConstraint("project_id", name=op.f("audit_chains_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("audit_chains_projects_fk")
        ),
    )
    _create_entries()


def _create_entries() -> None:
    table = "audit_entries"
    op.create_table(
        table,
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("actor_type", sa.Text, nullable=False),
        sa.Column("actor_id", sa.Uuid),
        sa.Column("actor_name", sa.Text),
        sa.Column("ip_address", sa.Text),
        sa.Column("request_id", sa.Text),
        sa.Column("resource_type", sa.Text, nullable=False),
        sa.Column("resource_id", sa.Text, nullable=False),
        sa.Column("resource_version", sa.Integer),
        sa.Column("run_id", sa.Uuid),
        sa.Column("before", sa.JSON),
        sa.Column("after", sa.JSON),
        sa.Column("salt", sa.Text),
        sa.Column("before_digest", sa.Text),
        sa.Column("after_digest", sa.Text),
        sa.Column("previous_hash", sa.Text),
        sa.Column("hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "number", name=op.f("audit_entries_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("audit_entries_projects_fk")
        ),
        sa.CheckConstraint(
            "actor_type IN ('console_session', 'key', 'operator')",
            name=op.f("audit_entries_actor_type_known"),
        ),
        sa.CheckConstraint(
            "(previous_hash IS NULL) = (number = 1)", name=op.f("audit_entries_chained")
        ),
        sa.CheckConstraint(
            "salt IS NOT NULL OR (before IS NULL AND after IS NULL)",
            name=op.f("audit_entries_content_has_salt"),
        ),
    )
    op.create_index("audit_entries_created", table, ["project_id", "created_at", "number"])
    op.create_index("audit_entries_action", table, ["project_id", "action", "number"])
    op.create_index("audit_entries_actor", table, ["project_id", "actor_id", "number"])
    resource = ["project_id", "resource_type", "resource_id", "number"]
    op.create_index("audit_entries_resource", table, resource)
    of_run = sa.text("run_id IS NOT NULL")
    op.create_index("audit_entries_run", table, ["project_id", "run_id"], postgresql_where=of_run)
