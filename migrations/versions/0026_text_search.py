"""Indexes for the text search of runs, if PostgreSQL offers the extension pg_trgm

Without the extension, a search reads a limited number of runs. This migration only expands the
schema, so that the previous version still runs on it.
"""

import sqlalchemy as sa
from alembic import op

from runward.store.migration_scripts import add_index

revision = "0026"
down_revision = "0024"
branch_labels = None
depends_on = None

RUN_TEXT = """(coalesce(agent, '') || chr(10) || coalesce(active_agent, '') || chr(10)
  || coalesce(config ->> 'model', '') || chr(10) || (metadata #>> '{}') || chr(10)
  || coalesce(output #>> '{}', '') || chr(10) || coalesce(error ->> 'message', ''))"""
ITEMS_TEXT = "(items #>> '{}')"


def trigrams(text: str, schema: str) -> sa.TextClause:
    """Index the beginning of a text, and a word that marks the longer ones."""
    return sa.text(
        f"(left({text}, 8192) || CASE WHEN length({text}) > 8192 THEN 'zqxjkvzqxjkv' ELSE '' END)"
        f" {schema}.gin_trgm_ops"
    )


def upgrade() -> None:
    op.execute(
        """
DO $$ BEGIN
  IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'pg_trgm') THEN
    CREATE EXTENSION IF NOT EXISTS pg_trgm;
  END IF;
EXCEPTION WHEN insufficient_privilege OR feature_not_supported OR undefined_file THEN
  NULL;  -- The role may not create extensions.
END $$"""
    )
    schema = op.get_bind().scalar(
        sa.text(
            "SELECT quote_ident(n.nspname) FROM pg_opclass o JOIN pg_namespace n"
            " ON n.oid = o.opcnamespace WHERE o.opcname = 'gin_trgm_ops'"
        )
    )
    if schema is None:
        return
    # The first index contains only runs that have ended, because each change of an open run's
    # status would write it again. The last one finds the open runs.
    add_index(
        "runs_text",
        "runs",
        [trigrams(RUN_TEXT, schema)],
        postgresql_using="gin",
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    add_index(
        "run_items_text",
        "run_items",
        [trigrams(ITEMS_TEXT, schema)],
        postgresql_using="gin",
        postgresql_where=sa.text("kind = 'input'"),
    )
    add_index(
        "runs_open",
        "runs",
        ["project_id", "id"],
        postgresql_where=sa.text("status IN ('queued', 'in_progress', 'requires_action')"),
    )
