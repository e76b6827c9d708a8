"""Indexes of the deliveries that were not successful, and of the ones that are due

The previous version still runs on this schema. It looks for due deliveries with another index.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

TABLE = "webhook_deliveries"


def upgrade() -> None:
    add_index(
        "webhook_deliveries_unsuccessful",
        TABLE,
        ["project_id", "id"],
        postgresql_where=sa.text("ended_at IS NULL OR status = 'failed'"),
    )
    add_index(
        "webhook_deliveries_next_attempt",
        TABLE,
        ["next_attempt_at"],
        postgresql_where=sa.text("status = 'pending' AND next_attempt_at < 'infinity'"),
    )
    with op.get_context().autocommit_block():
        op.drop_index(
            "webhook_deliveries_next", TABLE, if_exists=True, postgresql_concurrently=True
        )
