"""Claiming runs: who gets which, under which number, and how often."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from runward.domain.ids import CallId, RunId
from runward.domain.run.decisions import ApproveDecision, RejectDecision
from runward.domain.run.state import CallPhase, Changes, RunState
from runward.domain.run.status import Move
from runward.store.postgres.db import open_database
from runward.store.runs import decisions, failed_claims, queue, sweep, transitions
from runward.store.runs.gate import Ending
from tests.db.proxy import Break, Proxy
from tests.db.store import APPROVER, LEASE, PROJECT, STOPPED_CLOCK, Store, pay, step

LAPSED = timedelta(0)


async def free(store: Store) -> set[RunId]:
    async with store.pool.begin() as tx:
        return {RunId(one) for one in await sweep.free_expired_leases(tx)}


async def crash(store: Store) -> RunState:
    """A worker claims the only run there is, and is never heard of again."""
    [state] = await store.claim(lease=LAPSED)
    assert await free(store) == {state.id}
    return state


# Who gets which.


async def test_concurrent_claims_never_share_a_run(store: Store) -> None:
    accepted = await store.accept(120)
    claimed = await asyncio.gather(*(store.claim(20) for _ in range(10)))
    while more := await store.claim(20):  # what a claim skipped because another one held it
        claimed.append(more)
    found = [state.id for batch in claimed for state in batch]
    assert sorted(found) == sorted(accepted)
    assert all(state.fence == 1 for batch in claimed for state in batch)


async def test_the_run_that_has_waited_longest_comes_first(store: Store) -> None:
    first, second, third = await store.accept(3)
    await store.sql(
        "UPDATE runs SET available_at = clock_timestamp() - interval '1 h' WHERE id = :id", id=third
    )
    assert [state.id for state in await store.claim(1)] == [third]
    assert {state.id for state in await store.claim(2)} == {first, second}


async def test_a_run_is_not_claimed_before_its_time(store: Store) -> None:
    state = await store.leased()
    released = Ending(Move.RELEASE, delay=timedelta(hours=1))
    await store.committed(step(state, ending=released))
    assert await store.claim() == []
    assert (await store.head(state.id)).status == "queued"
    await store.sql("UPDATE runs SET available_at = clock_timestamp()")
    assert [again.id for again in await store.claim()] == [state.id]


async def test_a_claim_passes_by_a_run_that_somebody_locks(store: Store) -> None:
    held, other = await store.accept(2)
    async with store.locked(held):
        assert [state.id for state in await store.claim()] == [other]
    assert [state.id for state in await store.claim()] == [held]


async def test_nothing_but_queued_runs_is_claimed(store: Store) -> None:
    parked = await store.waiting(pay("c1"))
    done = await store.leased()
    await store.committed(step(done, "run.completed", seen=0, ending=Ending(Move.COMPLETE)))
    working = await store.leased()
    assert await store.claim() == []
    states = [(await store.head(one.id)).status for one in (parked, done, working)]
    assert states == ["requires_action", "completed", "in_progress"]


# Under which number, and what it shows.


async def test_every_claim_has_the_next_fence_and_its_event(store: Store) -> None:
    [run_id] = await store.accept()
    fences: list[int] = []
    for _ in range(3):
        [state] = await store.claim()
        fences.append(state.fence)
        await store.committed(step(state, ending=Ending(Move.RELEASE, keep_claim=True)))
    assert fences == [1, 2, 3]
    assert await store.log(run_id) == ["run.created", "run.started", "run.resumed", "run.resumed"]


async def test_an_accepted_run_may_be_leased_at_once(store: Store) -> None:
    [run_id] = await store.accept(lease=True)
    assert await store.claim() == []
    state = await store.load(run_id)
    assert state.fence == 1
    assert await store.log(run_id) == ["run.created", "run.started"]
    await store.committed(step(state, "mine"))


async def test_a_run_starts_once_however_often_it_is_claimed(store: Store) -> None:
    state = await store.leased()
    started = (await store.head(state.id)).started_at
    await store.committed(step(state, ending=Ending(Move.RELEASE, keep_claim=True)))
    await store.claim()
    assert (await store.head(state.id)).started_at == started


async def test_a_claim_loads_all_that_was_written(store: Store) -> None:
    parked = await store.waiting(pay("c1"), pay("c2"))
    async with store.pool.begin() as tx:
        [first, _] = await store.pending(parked.id)
        await decisions.decide(
            tx, store.vault, APPROVER, first, ApproveDecision(decision="approve")
        )
    [state] = await store.claim()
    assert state.calls == (await store.load(parked.id)).calls
    assert state.segments == parked.segments
    assert state.calls[CallId("c1")].phase is CallPhase.READY
    assert state.turn == 1
    assert state.tool_versions == {"pay": 1}


@asynccontextmanager
async def claiming(store: Store) -> AsyncGenerator[asyncio.Task[list[RunState]]]:
    """A claim that has begun, and stops before it has locked anything until this is left."""

    async def claim() -> list[RunState]:
        async with store.pool.begin() as tx:
            await tx.execute(text(f"SET LOCAL search_path = {STOPPED_CLOCK}"))
            return (await queue.claim(tx, 10, LEASE)).states

    async with store.stopped_clock() as go_on:
        task = asyncio.create_task(claim())
        await store.until_blocked()
        yield task
        await go_on()


async def test_a_claim_shows_what_was_decided_after_it_had_begun(store: Store) -> None:
    """The row is locked as it is by then; the ledger must be of the same moment."""
    parked = await store.waiting(pay("c1"), pay("c2"))
    first, second = await store.pending(parked.id)
    approve = ApproveDecision(decision="approve")
    async with store.pool.begin() as tx:
        await decisions.decide(tx, store.vault, APPROVER, first, approve)
    async with claiming(store) as task, store.pool.begin() as tx:
        await decisions.decide(tx, store.vault, APPROVER, second, approve)
    [state] = await task
    assert state.version == 2
    assert {call.phase for call in state.calls.values()} == {CallPhase.READY}


async def test_a_run_that_was_taken_and_given_back_since_is_left_to_the_next_claim(
    store: Store,
) -> None:
    [run_id] = await store.accept()
    async with claiming(store) as task:
        [state] = await store.claim()
        await store.committed(step(state, ending=Ending(Move.RELEASE)))
    assert await task == []
    assert [(one.id, one.fence) for one in await store.claim()] == [(run_id, 2)]


# How often.


async def test_a_run_whose_workers_are_lost_is_claimed_three_times_and_then_fails(
    store: Store,
) -> None:
    [run_id] = await store.accept()
    for _ in range(queue.MAX_CLAIMS):
        await crash(store)
    assert await store.claim() == []
    async with store.pool.begin() as tx:
        assert await sweep.list_crash_loops(tx, LEASE) == []  # a worker may live, and say so yet
        assert await sweep.list_crash_loops(tx, LAPSED) == [(PROJECT, run_id)]
    async with store.pool.begin() as tx:
        assert await transitions.quarantine(tx, PROJECT, run_id)
    head = await store.head(run_id)
    assert (head.status, head.error["code"]) == ("failed", "crash_loop")
    assert (await store.log(run_id))[-1] == "run.failed"
    async with store.pool.begin() as tx:
        assert not await transitions.quarantine(tx, PROJECT, run_id)


async def lose(store: Store, run_id: RunId) -> None:
    """A worker claims the only run there is, is too slow to keep its lease, and says so."""
    state = await crash(store)
    assert state.id == run_id
    async with store.pool.begin() as tx:
        await sweep.revert_claims(tx, [queue.HeldLease(PROJECT, state.id, state.fence)])


async def test_leases_that_living_workers_lose_do_not_end_a_run(store: Store) -> None:
    [run_id] = await store.accept()
    for _ in range(2 * queue.MAX_CLAIMS):
        await lose(store, run_id)
    async with store.pool.begin() as tx:
        assert await sweep.list_crash_loops(tx, LAPSED) == []
    [state] = await store.claim()
    await store.committed(step(state, changes=Changes(progress=True)))
    head = await store.head(run_id)
    assert (head.claims, head.lost_leases) == (0, 0)


async def test_a_run_that_slows_down_every_worker_is_taken_away_from_them(store: Store) -> None:
    [run_id] = await store.accept()
    for _ in range(queue.MAX_LOST_LEASES):
        await lose(store, run_id)
    assert await store.claim() == []
    async with store.pool.begin() as tx:
        assert await sweep.list_crash_loops(tx, LEASE) == [(PROJECT, run_id)]


async def test_the_report_of_a_worker_that_lives_takes_its_last_claim_back(store: Store) -> None:
    """The sweep had found three claims already, and waits for a lease before it ends the run."""
    [run_id] = await store.accept()
    states = [await crash(store) for _ in range(queue.MAX_CLAIMS)]
    async with store.pool.begin() as tx:
        await sweep.revert_claims(tx, [queue.HeldLease(PROJECT, run_id, states[-1].fence)])
        assert await sweep.list_crash_loops(tx, LAPSED) == []
    assert [state.id for state in await store.claim()] == [run_id]


async def test_a_claim_that_is_taken_back_after_the_sweep_saves_the_run(store: Store) -> None:
    """The report arrives between the sweep's search and the end of what it found."""
    [run_id] = await store.accept()
    states = [await crash(store) for _ in range(queue.MAX_CLAIMS)]
    async with store.pool.begin() as tx:
        [found] = await sweep.list_crash_loops(tx, LAPSED)
    async with store.pool.begin() as tx:
        await sweep.revert_claims(tx, [queue.HeldLease(PROJECT, run_id, states[-1].fence)])
    async with store.pool.begin() as tx:
        assert await transitions.quarantine(tx, *found) is None
    assert [state.id for state in await store.claim()] == [run_id]


async def test_a_report_about_a_run_that_has_ended_or_waits_changes_nothing(store: Store) -> None:
    ended, parked = await store.leased(), await store.waiting(pay("c1"))
    await store.committed(step(ended, "run.completed", seen=0, ending=Ending(Move.COMPLETE)))
    before = [await store.head(state.id) for state in (ended, parked)]
    async with store.pool.begin() as tx:
        held = [queue.HeldLease(PROJECT, state.id, state.fence) for state in (ended, parked)]
        await sweep.revert_claims(tx, held)
    assert [await store.head(state.id) for state in (ended, parked)] == before


async def test_progress_forgives_the_claims_before_it(store: Store) -> None:
    [run_id] = await store.accept()
    await crash(store)
    await crash(store)
    [state] = await store.claim()
    await store.committed(step(state, changes=Changes(progress=True)))
    assert (await store.head(run_id)).claims == 0


async def test_hand_backs_do_not_count_as_claims(store: Store) -> None:
    [run_id] = await store.accept()
    await crash(store)
    for _ in range(2 * queue.MAX_CLAIMS):
        [state] = await store.claim()
        await store.committed(step(state, ending=Ending(Move.RELEASE, keep_claim=True)))
    assert (await store.head(run_id)).claims == 1


async def test_waking_up_and_waiting_on_is_no_crash(store: Store) -> None:
    """Five calls wait; each that is rejected wakes the run, which goes on waiting for the rest."""
    parked = await store.waiting(*(pay(f"c{n}") for n in range(5)))
    for approval in (await store.pending(parked.id))[:4]:
        async with store.pool.begin() as tx:
            reject = RejectDecision(decision="reject")
            await decisions.decide(tx, store.vault, APPROVER, approval, reject)
        [state] = await store.claim()
        await store.park(state)
    assert (await store.head(parked.id)).claims == 0


async def test_runs_that_are_claimed_one_by_one_when_the_connection_breaks_can_be_given_back(
    store: Store,
) -> None:
    proxy, mark, accepted = Proxy(store.url), queue.make_mark(), await store.accept(3)
    async with proxy.open() as url:
        through = open_database(url, pool_size=1)
        proxy.break_at("WHERE r.project_id = $", Break.BEFORE)
        with pytest.raises(DBAPIError):
            await failed_claims.claim_one_by_one(through.autocommit, 10, LEASE, mark)
        assert proxy.broken == 1
        async with through.autocommit.connect() as tx:
            assert set(await failed_claims.return_claims(tx, [mark])) == set(accepted)
        await through.close()


async def test_the_search_for_crash_loops_reads_no_run_that_nobody_may_claim_yet(
    store: Store,
) -> None:
    """Runs that wait for child runs or for their session are queued, too, often for days."""
    await store.accept(50)
    [crashing] = await store.accept()
    await store.sql(
        "UPDATE runs SET claims = 3, available_at = CASE WHEN id = :id THEN now() - interval '1 h'"
        " ELSE 'infinity' END",
        id=crashing,
    )
    sent: list[tuple[str, Any]] = []
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL enable_seqscan = off"))
        await tx.execute(text("SET LOCAL enable_bitmapscan = off"))
        event.listen(tx.sync_connection, "before_cursor_execute", lambda *a: sent.append(a[2:4]))
        assert await sweep.list_crash_loops(tx, LEASE) == [(PROJECT, crashing)]
        [(statement, values)] = sent
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}"
        [[[found]]] = (await tx.exec_driver_sql(explain, values)).all()
    assert found["Plan"]["Plans"][0].get("Rows Removed by Filter", 0) == 0


# Leases that run out.


async def test_expired_leases_are_freed_and_live_ones_are_not(store: Store) -> None:
    lost = [await store.leased(lease=LAPSED) for _ in range(3)]
    alive = await store.leased()
    assert await free(store) == {state.id for state in lost}
    assert await free(store) == set()
    assert (await store.head(alive.id)).status == "in_progress"
    again = await store.claim()
    assert {(state.id, state.fence) for state in again} == {(state.id, 2) for state in lost}


async def test_a_lease_that_somebody_renews_at_that_moment_is_not_freed(store: Store) -> None:
    state = await store.leased(lease=LAPSED)
    async with store.locked(state.id) as tx:
        assert await free(store) == set()
        await tx.execute(text("UPDATE runs SET lease_expires_at = clock_timestamp() + '30 s'"))
    assert await free(store) == set()
    await store.committed(step(state, "alive"))


async def test_sweeps_of_many_workers_free_each_lease_once(store: Store) -> None:
    lost = [await store.leased(lease=LAPSED) for _ in range(30)]
    freed = await asyncio.gather(*(free(store) for _ in range(6)))
    assert sorted(one for batch in freed for one in batch) == sorted(state.id for state in lost)


@pytest.mark.parametrize("count", [0, 1])
async def test_a_claim_takes_no_more_than_it_asks_for(store: Store, count: int) -> None:
    await store.accept(3)
    assert len(await store.claim(count)) == count
