"""The deployment's secret key, as a sealed canary

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "deployment",
        sa.Column("id", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("canary", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("id", name=op.f("deployment_one_row")),
        sa.PrimaryKeyConstraint("id", name=op.f("deployment_pk")),
    )
