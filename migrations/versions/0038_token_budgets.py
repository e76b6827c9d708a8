"""Budgets of tokens, and budgets for each minute

The previous version still runs on this schema. It counts US dollars in budgets of tokens, so create
them after the upgrade.
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("budgets", sa.Column("unit", sa.Text, nullable=False, server_default="usd"))
    _check("unit", "'usd', 'tokens'")
    op.drop_constraint(op.f("budgets_period_known"), "budgets")
    _check("period", "'minute', 'day', 'month'")


def _check(column: str, values: str) -> None:
    """Add a constraint that all existing rows satisfy. Its validation does not block writes."""
    name = op.f(f"budgets_{column}_known")
    condition = f"{column} IN ({values})"
    op.create_check_constraint(name, "budgets", condition, postgresql_not_valid=True)
    op.execute(f"ALTER TABLE budgets VALIDATE CONSTRAINT {name}")
