"""The execution of the scripts in `migrations/` with Alembic, and functions for these scripts.

Only `runward.store.migrations` imports this module, and only if there is a script to run.
"""

from collections.abc import Sequence
from typing import Any

from alembic import command, op
from alembic.config import Config
from sqlalchemy import JSON, Column, Connection, TextClause, text

from runward.store.data_keys.secret_keys import read_local_key
from runward.store.postgres.db import SET_LOCK_TIMEOUT
from runward.store.readiness import MIGRATIONS

_SEARCH_INDEXES = ("runs_text", "run_items_text", "runs_open")
"""Indexes that exist only in databases with the extension pg_trgm."""


def run_scripts(connection: Connection, secret_key: str | None, to: str) -> None:
    """Run the scripts that the database has not run yet, up to revision `to`."""
    connection.execute(text(SET_LOCK_TIMEOUT))
    connection.commit()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["secret_key"] = secret_key and read_local_key(secret_key)
    command.upgrade(config, to)


def add_index(name: str, table: str, columns: Sequence[str | TextClause], **options: Any) -> None:
    """Build an index without blocking writes, in a migration that does nothing else. An interrupted
    build leaves an invalid index, which is replaced."""
    with op.get_context().autocommit_block():
        # The statement waits for old transactions, and no other statement waits for it.
        op.execute("SET lock_timeout = 0")
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
        op.execute(SET_LOCK_TIMEOUT)


def default_differs(
    _context: object,
    _found_column: object,
    column: "Column[object]",
    found: str | None,
    _default: object,
    wanted: str | None,
) -> bool | None:
    """Return whether two defaults differ, for Alembic. The type json has no equality, so the texts
    are compared. Returns None to let PostgreSQL compare."""
    if not isinstance(column.type, JSON):
        return None
    return (found or "").partition("::")[0] != (wanted or "").partition("::")[0]


def is_compared(_item: object, name: str | None, type_: str, *_: object) -> bool:
    """Return whether Alembic compares this part of the schema with the tables."""
    return type_ != "index" or name not in _SEARCH_INDEXES
