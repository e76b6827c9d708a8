"""Budgets, their reservations, and the runs that wait for them

This migration only adds tables, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032b"
branch_labels = None
depends_on = None

TIMESTAMP = sa.DateTime(timezone=True)
NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    _create_budgets()
    op.create_table(
        "budget_reservations",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("budget_id", sa.Uuid, nullable=False),
        sa.Column("run_id", sa.Uuid, nullable=False),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("amount_usd", sa.Numeric, nullable=False),
        sa.PrimaryKeyConstraint(
            "project_id", "run_id", "fence", "budget_id", name=op.f("budget_reservations_pk")
        ),
        sa.ForeignKeyConstraint(
            ["project_id", "budget_id"],
            ["budgets.project_id", "budgets.id"],
            name=op.f("budget_reservations_budgets_fk"),
            ondelete="CASCADE",
        ),
    )
    op.create_table(
        "budget_waits",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("run_id", sa.Uuid, nullable=False),
        sa.Column("budget_id", sa.Uuid, nullable=False),
        sa.Column("estimate_usd", sa.Numeric, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "run_id", name=op.f("budget_waits_pk")),
        sa.ForeignKeyConstraint(
            ["project_id", "run_id"],
            ["runs.project_id", "runs.id"],
            name=op.f("budget_waits_runs_fk"),
            ondelete="CASCADE",
        ),
    )


def _create_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("project_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("agent", sa.Text),
        sa.Column("key_id", sa.Uuid),
        sa.Column("period", sa.Text, nullable=False),
        sa.Column("limit_usd", sa.Double, nullable=False),
        sa.Column("on_limit", sa.Text, nullable=False, server_default="wait"),
        sa.Column("spent_usd", sa.Numeric, nullable=False, server_default="0"),
        sa.Column("reserved_usd", sa.Numeric, nullable=False, server_default="0"),
        sa.Column("period_start", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("budgets_pk")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("budgets_projects_fk")),
        sa.CheckConstraint("period IN ('day', 'month')", name=op.f("budgets_period_known")),
        sa.CheckConstraint("on_limit IN ('wait', 'ask')", name=op.f("budgets_on_limit_known")),
        sa.CheckConstraint("agent IS NULL OR key_id IS NULL", name=op.f("budgets_one_subject")),
        sa.CheckConstraint("limit_usd > 0", name=op.f("budgets_limit_positive")),
    )
