"""Who a token stands for, an API key or a console session's, remembered for a moment."""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain.registry.scopes import Principal
from runward.store.postgres.db import Tx

CACHE_SECONDS: Final = 2.0
"""What was revoked works for at most so long in a process that has just seen it."""
MAX_CACHED: Final = 10_000


class Authenticator:
    """Tokens are kept as their HMAC only; unknown ones are not kept, so they cost a look-up."""

    def __init__(
        self,
        pool: AsyncEngine,
        digest: Callable[[str], bytes],
        find: Callable[[Tx, bytes], Awaitable[Principal | None]],
    ) -> None:
        self._pool = pool
        self._digest = digest
        self._find = find
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, token: str) -> Principal | None:
        """None: nobody, or no longer."""
        digest = self._digest(token)
        known = self._known.get(digest)
        now = time.monotonic()
        if known is not None and now - known[0] < CACHE_SECONDS:
            return known[1]
        async with self._pool.begin() as tx:
            principal = await self._find(tx, digest)
        if principal is None:
            self._known.pop(digest, None)
            return None
        self._known[digest] = (now, principal)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        return principal

    def forget(self, token: str) -> None:
        """Ask the database again when it comes next."""
        self._known.pop(self._digest(token), None)
