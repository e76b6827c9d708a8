"""Webhook endpoints and their deliveries, and the place of each event in the log of its project

Events from before this migration have no place in the log. This migration only expands the schema,
so that the previous version still runs on it. The default of `transaction_id` also applies to the
events that the previous version inserts. It is set separately, so that the table is not rewritten.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")
PENDING = sa.text("status = 'pending'")


def upgrade() -> None:
    op.add_column("run_events", sa.Column("transaction_id", sa.BigInteger))
    op.alter_column(
        "run_events",
        "transaction_id",
        server_default=sa.text("CAST(CAST(pg_current_xact_id() AS text) AS bigint)"),
    )
    op.add_column(
        "deployment",
        sa.Column("transaction_offset", sa.BigInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "webhook_endpoints",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("events", postgresql.ARRAY(sa.Text), nullable=False),
        sa.Column("include", postgresql.ARRAY(sa.Text), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("disabled_reason", sa.Text),
        sa.Column("enabled_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("failing_since", TIMESTAMP),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("former_secret", sa.LargeBinary),
        sa.Column("former_secret_until", TIMESTAMP),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("webhook_endpoints_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("webhook_endpoints_projects_fk")
        ),
        sa.CheckConstraint(
            "NOT enabled OR disabled_reason IS NULL",
            name=op.f("webhook_endpoints_reason_iff_disabled"),
        ),
    )
    op.create_table(
        "webhook_cursors",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("transaction_id", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("webhook_cursors_pk")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("webhook_cursors_projects_fk")
        ),
    )
    _create_deliveries()


def _create_deliveries() -> None:
    table = "webhook_deliveries"
    op.create_table(
        table,
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("endpoint_id", sa.Uuid),
        sa.Column("url", sa.Text),
        sa.Column("include", postgresql.ARRAY(sa.Text), nullable=False, server_default="{}"),
        sa.Column("target", sa.Uuid, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("run_id", sa.Uuid),
        sa.Column("seq", sa.Integer),
        sa.Column("data", sa.JSON),
        sa.Column("status", sa.Text, nullable=False, server_default="pending"),
        sa.Column("attempt", sa.SmallInteger, nullable=False, server_default="0"),
        sa.Column("claims", sa.Integer, nullable=False, server_default="0"),
        sa.Column("attempts", sa.JSON, nullable=False, server_default="[]"),
        sa.Column("next_attempt_at", TIMESTAMP),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("ended_at", TIMESTAMP),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("webhook_deliveries_pk")),
        sa.ForeignKeyConstraint(
            ["project_id", "endpoint_id"],
            ["webhook_endpoints.project_id", "webhook_endpoints.id"],
            name=op.f("webhook_deliveries_webhook_endpoints_fk"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint(
            "status IN ('delivered', 'failed', 'pending')",
            name=op.f("webhook_deliveries_status_known"),
        ),
        sa.CheckConstraint(
            "(status = 'pending') = (ended_at IS NULL)",
            name=op.f("webhook_deliveries_ended_iff_not_pending"),
        ),
        sa.CheckConstraint(
            "(status = 'pending') = (next_attempt_at IS NOT NULL)",
            name=op.f("webhook_deliveries_due_iff_pending"),
        ),
        sa.CheckConstraint(
            "(endpoint_id IS NULL) = (url IS NOT NULL)",
            name=op.f("webhook_deliveries_one_address"),
        ),
    )
    op.create_index(
        "webhook_deliveries_event", table, ["project_id", "run_id", "seq", "target"], unique=True
    )
    op.create_index("webhook_deliveries_endpoint", table, ["project_id", "endpoint_id", "id"])
    op.create_index(
        "webhook_deliveries_due", table, ["target", "next_attempt_at"], postgresql_where=PENDING
    )
    op.create_index("webhook_deliveries_next", table, ["next_attempt_at"], postgresql_where=PENDING)
    op.create_index("webhook_deliveries_age", table, ["created_at"])
