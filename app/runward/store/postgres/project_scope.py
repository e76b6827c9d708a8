"""The project whose rows the statements of a task can read and change, if row-level security is
enabled in the database.

A task that serves a request or executes a run is restricted to one project. The connections that it
takes from the pool get the project as a setting of the session, and PostgreSQL applies the policies
of `row_security`. Tasks of the deployment, such as claims and sweeps, can use all projects."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import methodcaller
from typing import Any, Final
from uuid import UUID

from asyncpg import PostgresError  # pyright: ignore[reportMissingTypeStubs]
from asyncpg.exceptions import InterfaceError  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from runward.store.postgres.engine import AsyncEngine

SETTING: Final = "runward.project_id"
"""Setting of a session: the ID of its project, or ALL_PROJECTS."""
ALL_PROJECTS: Final = "*"
_NO_PROJECT: Final = ""
_SET: Final = f"SELECT set_config('{SETTING}', $1, false)"

_scope: ContextVar[str] = ContextVar("project_scope", default=ALL_PROJECTS)


def restrict_to(project_id: UUID) -> None:
    """Restrict this task, and the tasks that it starts, to a project."""
    _scope.set(str(project_id))


def allow_no_project() -> None:
    """Restrict this task to no project, until it knows its project."""
    _scope.set(_NO_PROJECT)


def allow_all_projects() -> None:
    """End the restriction of this task."""
    _scope.set(ALL_PROJECTS)


@contextmanager
def all_projects() -> Generator[None]:
    """End the restriction of this task inside the block, for example to find the project of an API
    key."""
    token = _scope.set(ALL_PROJECTS)
    try:
        yield
    finally:
        _scope.reset(token)


def restrict_connections(engine: AsyncEngine) -> None:
    """Set the scope of the task on each connection that the task takes from the pool."""
    event.listen(engine.sync_engine, "checkout", _set_scope)


def restricts_connections(engine: AsyncEngine) -> bool:
    return event.contains(engine.sync_engine, "checkout", _set_scope)


def _set_scope(connection: Any, record: Any, _: object) -> None:
    """Set the scope unless the connection has it. `record.info` contains the scope of the
    connection. A new connection has ALL_PROJECTS (`db.open_database`)."""
    wanted = _scope.get()
    if record.info.get(SETTING, ALL_PROJECTS) == wanted:
        return
    record.info[SETTING] = None  # unknown if the statement fails
    try:
        connection.run_async(methodcaller("fetchval", _SET, wanted))
    except (PostgresError, InterfaceError) as error:
        raise DBAPIError(_SET, None, error, hide_parameters=True) from error
    record.info[SETTING] = wanted
