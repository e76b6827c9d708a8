"""Whether an exception says that PostgreSQL is away, full or too busy: then a retry helps."""

from typing import Final

from asyncpg.exceptions import InterfaceError  # pyright: ignore[reportMissingTypeStubs]
from sqlalchemy import exc

_STATE_CLASSES: Final = ("08", "53", "57")
"""Connection lost, out of resources, an operator intervened (shutdown, statement timeout)."""
_STATES: Final = frozenset(
    {
        "25006",  # read only: the old primary after a failover
        "40001",  # serialization failure
        "40P01",  # deadlock
        "55P03",  # lock timeout
    }
)


def database_is_away(error: BaseException) -> bool:
    match error:
        case BaseExceptionGroup():
            return all(database_is_away(inner) for inner in error.exceptions)
        case exc.DBAPIError():
            original = error.orig
            return (
                error.connection_invalidated
                or isinstance(error, exc.InterfaceError)
                or (original is not None and _is_away(original))
            )
        case exc.TimeoutError():  # no connection of the pool came free
            return True
        case _:
            return _is_away(error)


def _is_away(error: BaseException) -> bool:
    state: object = getattr(error, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith(_STATE_CLASSES) or state in _STATES
    return isinstance(error, InterfaceError | OSError | TimeoutError)
