"""The deployment's secret key, as a sealed canary

Expands only: the version before must still run on the schema that this leaves.
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
