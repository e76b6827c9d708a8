"""How many connections a process keeps open."""

import asyncio

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from runward.store.postgres.db import open_database
from runward.store.postgres.pool import MAX_IDLE
from tests.db.store import Store
from tests.db.test_turns import working

OPEN = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND backend_type = 'client backend'"
)
LIMIT = 8


async def test_a_pool_closes_the_connections_that_it_no_longer_needs(store: Store) -> None:
    database = open_database(store.url, pool_size=16)
    before = await store.value(OPEN)
    try:
        await asyncio.gather(*(_take(database.pool) for _ in range(16)))
        await database.close_surplus()  # all of them were needed
        assert await store.value(OPEN) == before + 16
        await database.close_surplus()
        await store.until(OPEN, before + MAX_IDLE)
        await asyncio.gather(*(_take(database.pool) for _ in range(16)))
        assert await store.value(OPEN) == before + 16
    finally:
        await database.close()
    await store.until(OPEN, before)


async def _take(pool: AsyncEngine) -> None:
    async with pool.connect() as tx:
        await tx.execute(text("SELECT pg_sleep(0.2)"))


async def test_an_idle_worker_has_at_most_eight_connections(store: Store) -> None:
    [run_id] = await store.accept()
    before = await store.value(OPEN)
    async with working(store) as process:
        database = process.services.storage.database
        await asyncio.gather(*(_take(database.pool) for _ in range(12)))
        await store.until("SELECT status FROM runs WHERE id = :id", "completed", id=run_id)
        for _ in range(2):
            await database.close_surplus()
        leases = 1  # opened when the leases are renewed for the first time
        assert await store.value(OPEN) - before + leases <= LIMIT
