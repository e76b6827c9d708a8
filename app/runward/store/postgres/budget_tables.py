"""The tables of budgets, their reservations, and the runs that wait for them. Only the package
`store` knows their columns."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
)

from runward.domain.run.budgets import BudgetAction, BudgetPeriod, BudgetUnit
from runward.store.postgres.columns import (
    NOW,
    TIMESTAMP,
    enum_check,
    metadata,
    project_column,
    run_foreign_key,
)

budgets = Table(
    "budgets",
    metadata,
    Column("project_id", Uuid, ForeignKey("projects.id"), nullable=False),
    Column("id", Uuid, nullable=False),
    # At most one of them is set. Without them, the budget applies to all runs of the project.
    Column("agent", Text),
    Column("key_id", Uuid),
    Column("period", Text, nullable=False),
    # The names of the amounts end in `_usd`, because previous versions read them. Their unit is
    # `unit`, also in the tables below.
    Column("unit", Text, nullable=False, server_default="usd"),
    Column("limit_usd", Double, nullable=False),
    Column("on_limit", Text, nullable=False, server_default="wait"),
    # The usage since `period_start`, which is in the past if there was none in this period.
    Column("spent_usd", Numeric, nullable=False, server_default="0"),
    # The sum of the budget's reservations.
    Column("reserved_usd", Numeric, nullable=False, server_default="0"),
    Column("period_start", TIMESTAMP, nullable=False, server_default=NOW),
    Column("created_at", TIMESTAMP, nullable=False, server_default=NOW),
    Column("updated_at", TIMESTAMP, nullable=False, server_default=NOW),
    PrimaryKeyConstraint("project_id", "id"),
    enum_check("period", BudgetPeriod),
    enum_check("unit", BudgetUnit),
    enum_check("on_limit", BudgetAction),
    CheckConstraint("agent IS NULL OR key_id IS NULL", name="one_subject"),
    CheckConstraint("limit_usd > 0", name="limit_positive"),
)

# A reservation belongs to one claim of a run. There is no foreign key to the run, because its check
# would lock the run's row.
budget_reservations = Table(
    "budget_reservations",
    metadata,
    project_column(),
    Column("budget_id", Uuid, nullable=False),
    Column("run_id", Uuid, nullable=False),
    Column("fence", BigInteger, nullable=False),
    Column("amount_usd", Numeric, nullable=False),
    PrimaryKeyConstraint("project_id", "run_id", "fence", "budget_id"),
    ForeignKeyConstraint(
        ["project_id", "budget_id"], ["budgets.project_id", "budgets.id"], ondelete="CASCADE"
    ),
)

# The budget may be deleted while runs wait for it.
budget_waits = Table(
    "budget_waits",
    metadata,
    project_column(),
    Column("run_id", Uuid, nullable=False),
    Column("budget_id", Uuid, nullable=False),
    Column("estimate_usd", Numeric, nullable=False),
    PrimaryKeyConstraint("project_id", "run_id"),
    run_foreign_key(),
)
