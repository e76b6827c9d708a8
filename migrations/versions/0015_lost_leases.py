"""How often workers that live have lost the lease of a run

Expands only: the version before must still run on the schema that this leaves.
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
