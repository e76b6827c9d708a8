"""Remove the foreign keys of events, items and calls, and delete these rows with their run

PostgreSQL checked the foreign keys for each row of each step. Every statement that inserts such a
row holds the lock on the run's row, so the run exists. A trigger now deletes the rows of a run.
This migration is compatible with the previous version, which still runs on the schema.
"""

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

RECORDS = ("run_events", "run_items", "tool_calls")


def upgrade() -> None:
    # In the order in which the service locks the tables.
    op.execute(f"LOCK TABLE runs, {', '.join(RECORDS)} IN ACCESS EXCLUSIVE MODE")
    deletions = "".join(
        f"DELETE FROM {table} WHERE project_id = OLD.project_id AND run_id = OLD.id; "
        for table in RECORDS
    )
    op.execute(
        "CREATE FUNCTION delete_records_of_run() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$BEGIN {deletions}RETURN NULL; END$$"
    )
    op.execute(
        "CREATE TRIGGER runs_records AFTER DELETE ON runs FOR EACH ROW"
        " EXECUTE FUNCTION delete_records_of_run()"
    )
    for table in RECORDS:
        op.drop_constraint(op.f(f"{table}_runs_fk"), table)
