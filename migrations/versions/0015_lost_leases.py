"""How often live workers have lost the lease of a run

This migration only expands the schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column("lost_leases", sa.SmallInteger(), server_default=sa.text("0"), nullable=False),
    )
