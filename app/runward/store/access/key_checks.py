"""Checks whether the API keys and console sessions of open streams are still valid. All streams of
a key share one check."""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from runward.domain.ids import KeyId
from runward.domain.registry.scopes import Principal
from runward.store.access import console_sessions, keys
from runward.store.postgres.db import DATABASE_ERRORS, Tx, is_outage
from runward.store.postgres.shared_queries import SharedQueries

KEY_CHECK_SECONDS: Final = 2.0
"""Number of seconds for which the result of a check is used."""

Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[Tx]]


class KeyCheck:
    """The check of one key or session."""

    def __init__(self, connect: Connect, principal: Principal) -> None:
        self._connect = connect
        self._principal = principal
        self._is_valid = True
        self._checked_at = time.monotonic()
        self._queries = SharedQueries()

    @property
    def is_due(self) -> bool:
        """Return whether the last result must not be used any more."""
        return time.monotonic() - self._checked_at >= KEY_CHECK_SECONDS

    async def is_valid(self) -> bool:
        """Return whether the key or session is valid. If a check is due, read the database. While
        the database is unavailable, the last result applies."""
        if self.is_due:
            try:
                await self._queries.run(self._principal.key_id, self._check)
            except DATABASE_ERRORS as error:
                if not is_outage(error):
                    raise
        return self._is_valid

    async def _check(self) -> None:
        principal = self._principal
        async with self._connect() as tx:
            if principal.session is not None:
                found = await console_sessions.get_session(tx, [principal.session])
                self._is_valid = found is not None
            else:
                self._is_valid = await keys.is_valid(tx, principal.project_id, principal.key_id)
        self._checked_at = time.monotonic()


class KeyChecks:
    """The checks of the keys and sessions that have open streams in this process."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._checks: WeakValueDictionary[tuple[KeyId, bytes | None], KeyCheck] = (
            WeakValueDictionary()
        )

    def of(self, principal: Principal) -> KeyCheck:
        """Return the check of the principal's key or session, which was just authenticated. Keep it
        as long as the stream is open."""
        name = (principal.key_id, principal.session)
        check = self._checks.get(name)
        if check is None:
            check = self._checks[name] = KeyCheck(self._connect, principal)
        return check
