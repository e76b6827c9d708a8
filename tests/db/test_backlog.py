"""The unfinished work of a deployment, as a scrape reads it; and its workers."""

import asyncio
from typing import Any

import pytest
from sqlalchemy import event

from runward.domain.limits import ProjectLimits
from runward.domain.run.status import Move
from runward.store import workers
from runward.store.access.limits import put_limits
from runward.store.postgres.db import mint, open_database
from runward.store.runs import backlog, queue
from runward.store.runs.backlog import Backlog, BacklogReader
from runward.store.runs.gate import Ending
from tests.db.store import LEASE, PROJECT, Store, step
from tests.db.test_deliveries import add_endpoint, enqueue, stored


async def read(store: Store) -> Backlog:
    found = await BacklogReader(store.autocommit).read()
    assert found is not None
    return found


async def test_an_idle_deployment_has_no_work(store: Store) -> None:
    assert await read(store) == Backlog(0, 0.0, 0, 0.0, 0, 0.0, 0, (), 0)


async def test_open_runs_are_counted_by_status_and_agent_and_ended_ones_are_not(
    store: Store,
) -> None:
    await store.waiting()
    ended = await store.leased()
    await store.committed(
        step(ended, "run.completed", seen=ended.version, ending=Ending(Move.COMPLETE))
    )
    await store.accept(3)
    await store.accept(2, lease=True)
    await store.sql(
        "UPDATE runs SET active_agent = 'clerk' WHERE id IN"
        " (SELECT id FROM runs WHERE status = 'queued' LIMIT 2)"
    )
    found = await read(store)
    assert set(found.runs) == {
        ("queued", "clerk", 2),
        ("queued", None, 1),
        ("in_progress", None, 2),
        ("requires_action", None, 1),
    }
    assert (found.queued, found.pending) == (3, 3)


async def test_ages_are_those_of_the_oldest_run_that_may_start_and_the_oldest_approval(
    store: Store,
) -> None:
    await store.waiting()
    first, second, _ = await store.accept(3)
    await store.sql(
        "UPDATE runs SET available_at = now() - interval '90 s' WHERE id = :id", id=first
    )
    await store.sql("UPDATE runs SET available_at = 'infinity' WHERE id = :id", id=second)
    await store.sql("UPDATE approvals SET requested_at = now() - interval '1 h'")
    found = await read(store)
    assert found.queued == 2
    assert 90 <= found.queued_seconds < 120
    assert 3600 <= found.pending_seconds < 3630


async def test_deliveries_of_enabled_endpoints_are_counted_until_they_end(store: Store) -> None:
    await add_endpoint(store, "run.created")
    for _ in range(3):
        await store.leased()
    assert await enqueue(store) == 3
    for id_, at in zip(
        [row.id for row in await stored(store)],
        ("clock_timestamp() - interval '90 s'", "clock_timestamp() + interval '1 h'", "'infinity'"),
        strict=True,
    ):
        sql = f"UPDATE webhook_deliveries SET next_attempt_at = {at} WHERE id = :id"
        await store.sql(sql, id=id_)
    found = await read(store)
    assert found.deliveries == 2
    assert 90 <= found.due_seconds < 120


async def test_runs_that_wait_because_of_a_limit_do_not_wait_for_a_worker(store: Store) -> None:
    await store.accept(5)
    await store.sql("UPDATE runs SET available_at = now() - interval '1 h', active_agent = 'clerk'")
    key = "run.metadata.customer"
    for limits, claimable in (
        (ProjectLimits(running_runs=2), 2),
        (ProjectLimits(agents={"clerk": 1}), 1),
        (ProjectLimits(running_runs=3, concurrency_keys={key: 4}), 3),
        (ProjectLimits(queued_runs=9), 5),
    ):
        async with store.autocommit.connect() as tx:
            await put_limits(tx, PROJECT, limits)
        found = await read(store)
        assert found.queued == claimable
        assert (found.queued_seconds > 3000) == (claimable == 5)
    async with store.autocommit.connect() as tx:
        await put_limits(tx, PROJECT, ProjectLimits(running_runs=1))
        await store.sql("UPDATE runs SET active_agent = NULL")
        assert len((await queue.claim(tx, 5, LEASE)).states) == 1
    found = await read(store)
    assert (found.queued, found.queued_seconds) == (0, 0)


async def test_a_run_that_was_claimable_at_two_scrapes_has_waited_between_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run waited for another run of its project before, which does not count."""
    monkeypatch.setattr(backlog, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(backlog, "MAX_SHARE", 1e9)
    async with store.autocommit.connect() as tx:
        await put_limits(tx, PROJECT, ProjectLimits(running_runs=1))
    await store.accept(1)
    await store.sql("UPDATE runs SET available_at = now() - interval '1 h'")
    reader = BacklogReader(store.autocommit)
    first, second = await reader.read(), await reader.read()
    assert first is not None
    assert second is not None
    assert first.queued_seconds == 0 < second.queued_seconds < 60


async def test_child_runs_that_wait_for_a_person_are_counted(store: Store) -> None:
    state = await store.waiting()
    await store.sql(
        "UPDATE runs SET parent_run_id = id, parent_call_id = 'c', ancestors = ARRAY[id]"
        " WHERE id = :id",
        id=state.id,
    )
    assert (await read(store)).runs == (("requires_action", None, 1),)


async def test_scrapes_within_seconds_share_a_query(store: Store) -> None:
    sent: list[str] = []

    def record(_conn: object, _cursor: object, statement: str, *_: Any) -> None:
        sent.append(statement)

    reader = BacklogReader(store.autocommit)
    event.listen(store.pool.sync_engine, "before_cursor_execute", record)
    first, *others = await asyncio.gather(*(reader.read() for _ in range(10)))
    assert first is not None
    assert {id(one) for one in [*others, await reader.read()]} == {id(first)}
    assert len(sent) == 1


async def test_an_unreachable_database_has_no_backlog() -> None:
    database = open_database("postgresql://nobody@127.0.0.1:9/none", pool_size=1)
    assert await BacklogReader(database.autocommit).read() is None
    await database.close()


async def beat(store: Store, **worker: Any) -> None:
    row = {"id": mint(), "version": "1", "host": "here", "concurrency": 8, **worker}
    async with store.autocommit.connect() as tx:
        await workers.store_heartbeat(tx, row, runs=2)


async def list_workers(store: Store) -> list[workers.WorkerRow]:
    async with store.autocommit.connect() as tx:
        return await workers.list_workers(tx, after=None, limit=10, descending=False)


async def test_a_worker_is_stored_once_and_its_heartbeat_moves(store: Store) -> None:
    own = mint()
    await beat(store, id=own)
    [first] = await list_workers(store)
    await beat(store, id=own)
    [second] = await list_workers(store)
    assert (second.id, second.host, second.runs) == (own, "here", 2)
    assert second.started_at == first.started_at
    assert second.heartbeat_at > first.heartbeat_at


async def test_a_worker_without_heartbeats_does_not_count_and_is_deleted_after_an_hour(
    store: Store,
) -> None:
    await beat(store, host="lost")
    await store.sql("UPDATE workers SET heartbeat_at = now() - interval '31 s'")
    await beat(store, host="alive")
    assert (await read(store)).workers == 1
    assert [one.host for one in await list_workers(store)] == ["lost", "alive"]
    await store.sql("UPDATE workers SET heartbeat_at = now() - interval '61 min'")
    await beat(store, host="new")
    assert [one.host for one in await list_workers(store)] == ["new"]
