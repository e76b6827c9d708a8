"""The log of a project: a reader that follows its cursor misses no event."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from runward.store.live import project_log
from runward.store.live.project_log import LogPosition, find_end, read_log
from runward.store.postgres.db import Tx
from tests.db.store import PROJECT, Store, step


async def pass_horizon(store: Store) -> None:
    """Wait until all transactions that are open now have ended, also those of other tests that use
    the same server."""
    number = await store.value("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
    passed = "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint) > :number"
    await store.until(f"SELECT {passed}", number=number)


async def follow(
    store: Store, cursor: LogPosition, count: int = 2
) -> tuple[LogPosition, list[str]]:
    """Read pages until one is empty. Return the last cursor, and the IDs of the events."""
    seen: list[str] = []
    while True:
        async with store.autocommit.connect() as tx:
            page = await read_log(tx, PROJECT, cursor, count)
        if not page:
            return cursor, seen
        cursor = page[-1][0]
        seen += [event.id for _, event in page]


@asynccontextmanager
async def open_transaction(store: Store) -> AsyncGenerator[Tx]:
    """A transaction with a number, which is rolled back at the end."""
    async with store.pool.connect() as tx:
        await tx.execute(text("SELECT pg_current_xact_id()"))
        yield tx
        await tx.rollback()


async def all_events(store: Store) -> list[str]:
    rows = await store.sql("SELECT run_id, seq FROM run_events")
    return sorted(f"evt_{row.run_id.hex}_{row.seq}" for row in rows)


async def test_an_event_that_commits_late_is_read_after_the_ones_before_it(store: Store) -> None:
    state, other = await store.leased(), await store.leased()
    await pass_horizon(store)
    cursor, seen = await follow(store, LogPosition())
    async with store.locked(state.id) as late:
        await store.bump(late, state.id, "late")
        await store.committed(step(other, "early"))
        cursor, meanwhile = await follow(store, cursor)
        assert meanwhile == []  # "early" has a higher number than the open transaction
    await pass_horizon(store)
    cursor, rest = await follow(store, cursor)
    assert len(rest) == 2
    assert sorted(seen + rest) == await all_events(store)


async def test_many_writers_at_once_leave_no_gap_for_a_reader(store: Store) -> None:
    states = [await store.leased() for _ in range(12)]
    writing = True

    async def write(number: int) -> None:
        writer = store.new_writer()
        for _ in range(10):
            await store.write(step(states[number], "a", "b"), writer=writer)

    async def read() -> list[str]:
        cursor, seen = LogPosition(), list[str]()
        while True:
            last = not writing
            cursor, more = await follow(store, cursor, 7)
            seen += more
            if last:
                return seen

    reading = asyncio.create_task(read())
    await asyncio.gather(*(write(number) for number in range(12)))
    await pass_horizon(store)
    writing = False
    seen = await reading
    assert sorted(seen) == await all_events(store)
    assert len(seen) == len(set(seen))


async def test_the_end_of_the_log_precedes_every_later_event(store: Store) -> None:
    state = await store.leased()
    await pass_horizon(store)
    async with open_transaction(store), store.autocommit.connect() as tx:
        end = await find_end(tx)
    await store.committed(step(state, "later"))
    await pass_horizon(store)
    _, seen = await follow(store, end)
    assert seen == [f"evt_{state.id.hex}_3"]


async def test_the_events_of_one_transaction_are_read_over_several_pages(store: Store) -> None:
    state = await store.leased()
    await store.committed(step(state, *("many" for _ in range(9))))
    await pass_horizon(store)
    _, seen = await follow(store, LogPosition(), 2)
    assert seen[-9:] == [f"evt_{state.id.hex}_{n}" for n in range(3, 12)]


async def test_a_restored_database_continues_its_log(store: Store) -> None:
    """A new server counts transactions from the beginning, so its numbers are lower."""
    state = await store.leased()
    await store.sql("INSERT INTO deployment (canary) VALUES ('x')")
    async with store.pool.begin() as tx:
        assert await project_log.continue_numbers(tx) == 0
    await store.sql("UPDATE run_events SET transaction_id = transaction_id + 1000000")
    async with store.pool.begin() as tx:
        assert await project_log.continue_numbers(tx) > 900_000
    await pass_horizon(store)
    cursor, seen = await follow(store, LogPosition())
    await store.committed(step(state, "after the restore"))
    await pass_horizon(store)
    _, rest = await follow(store, cursor)
    assert (len(seen), rest) == (2, [f"evt_{state.id.hex}_3"])
    async with store.pool.begin() as tx:
        assert await project_log.continue_numbers(tx) == 0


@pytest.mark.parametrize("position", [LogPosition(), LogPosition(7, PROJECT, 3)])
def test_a_cursor_can_be_read_again(position: LogPosition) -> None:
    assert LogPosition.parse(str(position)) == position
