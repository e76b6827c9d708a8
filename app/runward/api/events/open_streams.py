"""The open streams of a key: how many there may be, and whether the key is still valid."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing, contextmanager
from typing import Final, TypeVar, cast

from runward.domain import errors as e
from runward.domain.registry.scopes import Principal
from runward.services import Live, Storage
from runward.store.access import console_sessions, keys
from runward.store.postgres.db import Tx

T = TypeVar("T")

KEY_CHECK_SECONDS: Final = 2.0
"""Seconds after which an open stream checks its key again."""


@contextmanager
def count_stream(live: Live, principal: Principal) -> Generator[None]:
    """Count one more open stream of the key until the block ends. Nobody else runs between the
    check and the count. Raises TooManyRequestsError."""
    streams = live.open_streams
    if streams[principal.key_id] >= live.streams_per_key:
        raise e.TooManyRequestsError(
            f"This key has {live.streams_per_key} streams open; close one.", retry_after=5
        )
    streams[principal.key_id] += 1
    try:
        yield
    finally:
        streams[principal.key_id] -= 1
        if not streams[principal.key_id]:
            del streams[principal.key_id]


async def check_key(
    storage: Storage,
    principal: Principal,
    items: AsyncIterator[T],
    needs_check: Callable[[T], bool],
) -> AsyncGenerator[T]:
    """Yield the items of the stream. Before news, check the key or the console session if the last
    check is KEY_CHECK_SECONDS old. End the stream if it is no longer valid."""
    loop = asyncio.get_running_loop()
    looked = loop.time()
    async with aclosing(cast("AsyncGenerator[T]", items)) as open_stream:
        async for one in open_stream:
            if needs_check(one) and loop.time() - looked >= KEY_CHECK_SECONDS:
                async with storage.read() as tx:
                    if not await _is_valid(tx, principal):
                        return
                looked = loop.time()
            yield one


async def _is_valid(tx: Tx, principal: Principal) -> bool:
    if principal.session is not None:
        return await console_sessions.get_session(tx, principal.session) is not None
    return await keys.is_valid(tx, principal.project_id, principal.key_id)
