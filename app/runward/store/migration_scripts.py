"""The scripts in `migrations/`: how Alembic runs them, and what they use.

Only `runward.store.migrations` imports this module, when there is a script to run.
"""

from collections.abc import Sequence
from typing import Any

from alembic import command, op
from alembic.config import Config
from sqlalchemy import JSON, Column, Connection, text

from runward.store.readiness import MIGRATIONS

_SET_LOCK_TIMEOUT = "SET lock_timeout = '1s'"
"""Statements of the service queue behind a migration that waits for a table, so it waits briefly
and tries again."""


def run_scripts(connection: Connection, secret_key: str | None, to: str) -> None:
    """Run the scripts that the database has not seen, up to revision `to`."""
    connection.execute(text(_SET_LOCK_TIMEOUT))
    connection.commit()
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    config.attributes["secret_key"] = secret_key
    command.upgrade(config, to)


def add_index(name: str, table: str, columns: Sequence[str], **options: Any) -> None:
    """Build an index without blocking writes, in a migration that does nothing else.

    A build that was interrupted leaves an invalid index, which is replaced.
    """
    with op.get_context().autocommit_block():
        op.execute("SET lock_timeout = 0")  # it waits for old transactions, and nobody for it
        op.drop_index(name, table, if_exists=True, postgresql_concurrently=True)
        op.create_index(name, table, columns, postgresql_concurrently=True, **options)
        op.execute(_SET_LOCK_TIMEOUT)


def default_differs(
    _context: object,
    _found_column: object,
    column: "Column[object]",
    found: str | None,
    _default: object,
    wanted: str | None,
) -> bool | None:
    """For Alembic's comparison: json has no equality, so its text decides. None: ask PostgreSQL."""
    if not isinstance(column.type, JSON):
        return None
    return (found or "").partition("::")[0] != (wanted or "").partition("::")[0]
