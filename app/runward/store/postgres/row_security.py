"""Row-level security: PostgreSQL itself separates the projects, in addition to the conditions in
the queries (PostgreSQL's documentation, 5.9).

Each table with rows of projects has one policy, which compares the row's project with the setting
of the session (`project_scope`). The policies are forced, so they also apply to the owner of the
tables. They do not apply to superusers and to roles with BYPASSRLS."""

from typing import Final

import structlog
from sqlalchemy import text

from runward.domain.errors import OperatorError
from runward.store.postgres.db import Database, Tx
from runward.store.postgres.project_scope import ALL_PROJECTS, SETTING, restrict_connections
from runward.store.postgres.tables import metadata

log = structlog.get_logger()

BYPASS_HINT: Final = "Connect with a role that is no superuser and has no BYPASSRLS."
POLICY: Final = "runward_project"
SHARED_TABLES: Final = frozenset({"data_keys", "deployment", "workers"})
"""Tables whose rows belong to no project."""
_COLUMNS: Final = {"projects": "id"}
"""The column with the project, if its name is not `project_id`."""
_STATE: Final = text(
    "SELECT name, relrowsecurity AND relforcerowsecurity AS forced"
    " FROM unnest(CAST(:names AS text[])) AS name JOIN pg_class ON pg_class.oid = to_regclass(name)"
)
_BYPASSED: Final = text(
    "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
)


def list_tables() -> list[str]:
    """Return the names of the tables with rows of projects."""
    return sorted(metadata.tables.keys() - SHARED_TABLES)


async def find_unprotected(tx: Tx) -> list[str]:
    """Return the tables with rows of projects to which no policy applies."""
    rows = await tx.execute(_STATE, {"names": list_tables()})
    return sorted(row.name for row in rows if not row.forced)


async def is_enabled(tx: Tx) -> bool:
    """Return whether row-level security is enabled, also if a new table has no policy yet. False if
    the database is not migrated."""
    rows = await tx.execute(_STATE, {"names": list_tables()})
    return any(row.forced for row in rows)


async def is_bypassed(tx: Tx) -> bool:
    """Return whether PostgreSQL ignores all policies for the role of this connection."""
    return bool(await tx.scalar(_BYPASSED))


def list_statements(table: str, *, enabled: bool) -> list[str]:
    """Return the statements that add and force the policy of a table, or remove it. They must run
    as the owner of the table."""
    column = _COLUMNS.get(table, "project_id")
    drop = f"DROP POLICY IF EXISTS {POLICY} ON {table}"
    if not enabled:
        return [
            f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY",
            f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY",
            drop,
        ]
    # PostgreSQL evaluates the subquery once for each statement instead of once for each row.
    return [
        drop,
        f"CREATE POLICY {POLICY} ON {table} USING ((SELECT current_setting('{SETTING}', true))"
        f" IN ('{ALL_PROJECTS}', CAST({column} AS text)))",
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
    ]


async def enforce(database: Database) -> None:
    """Restrict the connections of the pool to the projects of their tasks if row-level security is
    enabled. Raises OperatorError if the connections cannot be restricted."""
    async with database.pool.connect() as tx:
        if not await is_enabled(tx):
            return
        if await is_bypassed(tx):
            log.warning("row_level_security_bypassed", hint=BYPASS_HINT)
    if database.through_pgbouncer:
        raise OperatorError(
            "Row-level security needs a session of PostgreSQL for each connection, which PgBouncer"
            " does not provide with RUNWARD_PGBOUNCER=true. Connect directly to PostgreSQL, or run"
            " `python -m runward row-level-security disable`."
        )
    restrict_connections(database.pool)
