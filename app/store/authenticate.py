"""Who a bearer token stands for, remembered for a moment."""

import time
from collections import OrderedDict
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine

from app.domain.scopes import Principal
from app.store import keys
from app.store.vault import Vault

REMEMBERED_SECONDS: Final = 2.0
"""A revoked key works for at most so long in a process that has just seen it."""
MAX_REMEMBERED: Final = 10_000


class Authenticator:
    """Tokens are kept as their HMAC only; unknown ones are not kept, so they cost a look-up."""

    def __init__(self, pool: AsyncEngine, vault: Vault) -> None:
        self._pool = pool
        self._vault = vault
        self._known: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, token: str) -> Principal | None:
        """None: nobody, or no longer."""
        digest = self._vault.key_digest(token)
        known = self._known.get(digest)
        now = time.monotonic()
        if known is not None and now - known[0] < REMEMBERED_SECONDS:
            return known[1]
        async with self._pool.connect() as tx:
            principal = await keys.authenticate(tx, digest)
        if principal is None:
            self._known.pop(digest, None)
            return None
        self._known[digest] = (now, principal)
        self._known.move_to_end(digest)
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)
        return principal
