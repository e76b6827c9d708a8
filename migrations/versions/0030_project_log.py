"""An index for the log of a project, which contains the events of all its runs

This migration only adds an index, so that the previous version still runs on the schema.
"""

from runward.store.migration_scripts import add_index

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    add_index("run_events_log", "run_events", ["project_id", "transaction_id"])
