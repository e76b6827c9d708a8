"""The state of the database for reports of bugs: numbers, names and sizes, but no content."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import text

from runward.store import readiness
from runward.store.postgres.db import Tx
from runward.store.workers import list_workers

MAX_WORKERS: Final = 1000
QUERY_LIMIT: Final = timedelta(seconds=20)
"""Maximum duration of one statement. The number of runs by status needs a scan of their table."""

# Other parameters can contain credentials, such as `primary_conninfo` and `archive_command`.
_PARAMETERS: Final = (
    *("server_version", "max_connections", "superuser_reserved_connections", "fsync"),
    *("synchronous_commit", "full_page_writes", "wal_level", "wal_compression", "max_wal_size"),
    *("min_wal_size", "checkpoint_timeout", "checkpoint_completion_target", "commit_delay"),
    *("shared_buffers", "work_mem", "maintenance_work_mem", "effective_cache_size"),
    *("effective_io_concurrency", "random_page_cost", "huge_pages", "jit"),
    *("max_worker_processes", "max_parallel_workers", "max_parallel_workers_per_gather"),
    *("autovacuum", "autovacuum_max_workers", "autovacuum_naptime"),
    *("autovacuum_vacuum_cost_limit", "autovacuum_vacuum_cost_delay"),
    *("autovacuum_vacuum_scale_factor", "autovacuum_freeze_max_age", "statement_timeout"),
    *("lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout"),
    *("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"),
    *("tcp_user_timeout", "default_transaction_isolation", "max_locks_per_transaction"),
    *("track_io_timing", "server_encoding", "lc_collate", "TimeZone"),
)
_SERVER: Final = {
    "parameters": "SELECT name, setting, unit, source FROM pg_settings"
    " WHERE name = ANY(CAST(:parameters AS text[])) ORDER BY name",
    "extensions": "SELECT extname AS name, extversion AS version FROM pg_extension ORDER BY 1",
    "connections": "SELECT state, wait_event_type, count(*) AS count FROM pg_stat_activity"
    " WHERE datname = current_database() GROUP BY 1, 2 ORDER BY 3 DESC",
    "tables": "SELECT relname AS name, pg_total_relation_size(relid) AS total_bytes,"
    " pg_table_size(relid) AS table_bytes, pg_indexes_size(relid) AS index_bytes,"
    " n_live_tup AS estimated_rows, n_dead_tup AS dead_rows, last_autovacuum, last_autoanalyze"
    " FROM pg_stat_user_tables WHERE schemaname = current_schema() ORDER BY 2 DESC",
    "invalid_indexes": "SELECT CAST(indexrelid AS regclass)::text AS name FROM pg_index"
    " WHERE NOT indisvalid ORDER BY 1",
}
_DEPLOYMENT: Final = {
    "revision": "SELECT version_num AS revision FROM alembic_version",
    "runs": "SELECT status, count(*) AS count FROM runs GROUP BY status ORDER BY status",
}


async def read_server(tx: Tx) -> dict[str, Any]:
    """Return parameters of PostgreSQL, and the sizes of the tables. The schema can be missing."""
    await _limit_statements(tx)
    return {
        name: await _read(tx, query, parameters=[*_PARAMETERS])
        if name == "parameters"
        else await _read(tx, query)
        for name, query in _SERVER.items()
    }


async def read_deployment(tx: Tx) -> dict[str, Any]:
    """Return the schema's revision, the number of runs by status, and the workers. Raises
    UnmigratedDatabaseError."""
    await _limit_statements(tx)
    await readiness.check_schema(tx)
    found: dict[str, Any] = {name: await _read(tx, query) for name, query in _DEPLOYMENT.items()}
    workers = await list_workers(tx, after=None, limit=MAX_WORKERS, descending=True)
    return found | {"workers": [asdict(one) for one in workers]}


async def _limit_statements(tx: Tx) -> None:
    limit = f"{QUERY_LIMIT.total_seconds():.0f}s"
    await tx.execute(text("SELECT set_config('statement_timeout', :limit, true)"), {"limit": limit})


async def _read(tx: Tx, query: str, **values: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in (await tx.execute(text(query), values)).mappings()]
