"""Runs whose stored data cannot be read back end alone: no process and no other run with them."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest
from prometheus_client import REGISTRY

from runward.api.runs.cancel import cancel
from runward.domain import errors as e
from runward.domain.run.state import RunState
from runward.domain.run.status import Move
from runward.serve import build_slot_starter
from runward.settings import Settings
from runward.store.data_keys.key_ring import KeyRing
from runward.store.runs import approvals, failed_claims, queries, queue, sweep, views
from runward.store.runs.gate import Ending
from runward.store.runs.quarantine import Quarantine, end_unreadable
from runward.version import VERSION
from runward.wiring import open_services
from runward.worker.cleaner import Cleaner
from runward.worker.main import Worker
from runward.worker.process import run_worker
from runward.worker.reaper import Reaper
from runward.worker.reencryption import Reencryption
from tests.db.store import LEASE, PROJECT, Store, pay, step, with_option
from tests.db.test_outside import RETENTION

DEEP = "[" * 250 + "]" * 250
LONG = "1" * 5_000


async def spoil(store: Store, state: RunState, value: str = DEEP) -> None:
    """Write what no version of Runward should: the context of a run is read with each claim."""
    await store.sql(
        "UPDATE runs SET context = CAST(:value AS json) WHERE id = :id",
        id=state.id,
        value=f'{{"value": {value}}}',
    )


async def queued(store: Store) -> RunState:
    [run_id] = await store.accept()
    return await store.load(run_id)


async def status(store: Store, run_id: UUID) -> str:
    return (await store.head(run_id)).status


def reaper(store: Store, quarantine: Quarantine) -> Reaper:
    return Reaper(
        store.database,
        store.vault,
        quarantine,
        timedelta(0),
        Cleaner(store.database, RETENTION),
        Reencryption(store.database, KeyRing(store.database, [])),
        enqueue_notices=lambda _: None,
        wake_deliveries=lambda: None,
        wake_schedules=lambda: None,
    )


# Claims.


@pytest.mark.parametrize("value", [DEEP, LONG])
async def test_a_claim_gives_the_runs_that_can_be_read_and_names_the_other(
    store: Store, value: str
) -> None:
    before, bad, after = [await queued(store) for _ in range(3)]
    await spoil(store, bad, value)
    async with store.autocommit.connect() as tx:
        claimed = await queue.claim(tx, 10, LEASE)
    assert [state.id for state in claimed.states] == [before.id, after.id]
    assert [(held.run_id, held.fence) for held in claimed.unreadable] == [(bad.id, 1)]


async def test_a_claim_after_one_that_failed_gives_the_same_run_by_run(store: Store) -> None:
    before, bad, after = [await queued(store) for _ in range(3)]
    await spoil(store, bad)
    claimed = await failed_claims.claim_one_by_one(store.autocommit, 10, LEASE)
    assert [state.id for state in claimed.states] == [before.id, after.id]
    assert [(held.run_id, held.fence) for held in claimed.unreadable] == [(bad.id, 1)]


async def test_a_worker_ends_a_run_that_it_cannot_read_and_goes_on(store: Store) -> None:
    """PostgreSQL itself refuses to hand over the second one, like a run of more than a gigabyte."""
    unread, unloadable, good = [await queued(store) for _ in range(3)]
    await spoil(store, unread)
    await store.sql(
        """UPDATE runs SET tool_names = NULL, config = '{"model": "offline:rules", "tools": {}}'"""
        " WHERE id = :id",
        id=unloadable.id,
    )
    settings = Settings.model_validate({"secret_key": "k" * 32})
    stop = asyncio.Event()
    async with open_services(settings, store.url) as services:
        worker = Worker(services, concurrency=8, lease=LEASE)
        working = asyncio.create_task(
            run_worker(worker, stop, LEASE, VERSION, build_slot_starter(services).start)
        )
        for run, wanted in ((good, "completed"), (unread, "failed"), (unloadable, "failed")):
            await store.until("SELECT status FROM runs WHERE id = :id", wanted, id=run.id)
        assert services.queue.quarantine.count == 2
        stop.set()
        await working
    for run in (unread, unloadable):
        assert (await store.head(run.id)).error["code"] == "run_unreadable"
        assert (await store.log(run.id))[-1] == "run.failed"


# The end of such a run.


async def test_a_run_is_ended_with_all_that_is_open_though_nobody_can_read_it(
    store: Store,
) -> None:
    state = await store.waiting(pay("c1"), pay("c2"))
    await store.sql("UPDATE tool_calls SET attempt = 1 WHERE call_id = 'c2'")
    await spoil(store, state)
    async with store.pool.begin() as tx:
        assert await end_unreadable(tx, PROJECT, state.id, Move.FAIL)
        assert not await end_unreadable(tx, PROJECT, state.id, Move.FAIL)

    head = await store.head(state.id)
    assert (head.status, head.fence, head.lease_expires_at) == ("failed", state.fence + 1, None)
    assert (await store.log(state.id))[-3:] == [*["tool_call.cancelled"] * 2, "run.failed"]
    assert await store.pending(state.id) == []
    async with store.pool.connect() as tx:
        first, second = await views.list_calls(tx, PROJECT, state.id)
        shown = await approvals.search(tx, PROJECT, run_id=state.id, limit=10)
    assert first.call.result is not None and second.call.result is not None
    assert "may or may not" not in str(first.call.result.output)
    assert "may or may not" in str(second.call.result.output)
    assert [one.status for one in shown] == ["cancelled"] * 2


async def test_a_worker_that_still_holds_such_a_run_can_write_no_more(store: Store) -> None:
    state = await store.started(pay("c1"))
    async with store.pool.begin() as tx:
        assert await end_unreadable(tx, PROJECT, state.id, Move.FAIL)
    assert await store.write(step(state, "tool_call.completed")) == ["lost"]
    assert await store.write(step(state, ending=Ending(Move.COMPLETE), seen=0)) == ["lost"]


# Sweeps.


async def test_a_sweep_ends_what_it_cannot_read_and_settles_the_others(store: Store) -> None:
    asked = [await store.waiting(pay("c1")) for _ in range(3)]
    late, gone = await queued(store), await queued(store)
    await store.sql(
        "UPDATE runs SET deadline_at = clock_timestamp() WHERE id IN (:a, :b)", a=late.id, b=gone.id
    )
    await store.sql("UPDATE approvals SET expires_at = clock_timestamp()")
    for state in (asked[1], gone):
        await spoil(store, state)
    quarantine = Quarantine(store.pool)
    await reaper(store, quarantine).sweep()
    found = [await status(store, state.id) for state in (*asked, late, gone)]
    assert found == ["queued", "failed", "queued", "expired", "failed"]
    assert quarantine.count == 2


async def test_lost_leases_crash_loops_and_unreadable_runs_are_counted(store: Store) -> None:
    quarantined = "runward_quarantined_runs_total"

    def read() -> list[float]:
        found = [
            REGISTRY.get_sample_value("runward_lease_expiries_total"),
            *(
                REGISTRY.get_sample_value(quarantined, {"reason": reason})
                for reason in ("crash_loop", "unreadable")
            ),
        ]
        return [one or 0.0 for one in found]

    before = read()
    await store.leased()
    await store.sql("UPDATE runs SET lease_expires_at = now() - interval '1 min'")
    crashing, unreadable = await queued(store), await queued(store)
    await store.sql(
        "UPDATE runs SET claims = 3 WHERE id = ANY(:ids)", ids=[crashing.id, unreadable.id]
    )
    await spoil(store, unreadable)
    await reaper(store, Quarantine(store.pool)).sweep()
    assert [after - one for after, one in zip(read(), before, strict=True)] == [1, 1, 1]


async def test_a_crash_loop_that_cannot_be_read_ends_too(store: Store) -> None:
    state = await queued(store)
    await spoil(store, state)
    await store.sql("UPDATE runs SET claims = 3")
    await reaper(store, Quarantine(store.pool)).sweep()
    assert await status(store, state.id) == "failed"


async def test_a_row_that_cannot_be_settled_does_not_keep_the_others_from_it(
    store: Store,
) -> None:
    """The tool of one call is not there any more, which nobody expects. It is left alone."""
    bad, good = [await store.started(pay("c1")) for _ in range(2)]
    await store.sql("UPDATE tool_calls SET phase = 'awaiting_callback', deadline_at = now()")
    await store.sql("UPDATE tool_calls SET tool_version = 99 WHERE run_id = :id", id=bad.id)
    sweeper = reaper(store, Quarantine(store.pool))
    for _ in range(3):
        assert not await sweeper.sweep()
    assert await store.phases(good.id) == {"c1": "settled"}
    assert await store.phases(bad.id) == {"c1": "awaiting_callback"}
    assert await status(store, bad.id) == "in_progress"


async def test_an_unreadable_run_that_cannot_be_ended_does_not_keep_the_others_from_it(
    store: Store,
) -> None:
    """PostgreSQL refuses one event, which nobody expects."""
    bad, good = await queued(store), await queued(store)
    await spoil(store, bad)
    await store.sql("UPDATE runs SET claims = 3")
    await store.sql(f"ALTER TABLE run_events ADD CHECK (run_id <> '{bad.id}') NOT VALID")
    sweeper = reaper(store, Quarantine(store.pool))
    for _ in range(3):
        assert not await sweeper.sweep()
    assert await status(store, bad.id) == "queued"
    assert await status(store, good.id) == "failed"


async def test_rows_that_cannot_be_settled_never_fill_the_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "BATCH", 2)
    *bad, good = [await store.started(pay("c1")) for _ in range(4)]
    await store.sql(
        "UPDATE tool_calls SET phase = 'awaiting_callback', deadline_at = now(), tool_version = 99"
    )
    await store.sql(
        "UPDATE tool_calls SET deadline_at = clock_timestamp(), tool_version = 1"
        " WHERE run_id = :id",
        id=good.id,
    )
    sweeper = reaper(store, Quarantine(store.pool))
    for _ in range(3):
        await sweeper.sweep()
    assert await store.phases(good.id) == {"c1": "settled"}
    assert [await store.phases(one.id) for one in bad] == [{"c1": "awaiting_callback"}] * 3


async def test_a_row_that_times_out_keeps_no_other_row_waiting(store: Store) -> None:
    """One run is locked for as long as this test takes, before others of its kind and of others."""
    locked, asked = [await store.waiting(pay("c1")) for _ in range(2)]
    late = await queued(store)
    await store.sql(
        "UPDATE approvals SET expires_at = now() - CAST(run_id = :id AS int) * interval '1 s'",
        id=locked.id,
    )
    await store.sql("UPDATE runs SET deadline_at = now() WHERE id = :id", id=late.id)
    impatient = Store(with_option(store.url, "lock_timeout=50"))
    sweeper = reaper(impatient, Quarantine(impatient.pool))
    try:
        async with store.locked(locked.id):
            for _ in range(3):
                await sweeper.sweep()
            found = [await status(store, one.id) for one in (locked, asked, late)]
            assert found == ["requires_action", "queued", "expired"]
    finally:
        await impatient.close()


# The API.


async def test_a_run_that_cannot_be_read_can_be_cancelled(store: Store) -> None:
    state, other = await store.waiting(pay("c1")), await store.waiting(pay("c1"))
    await spoil(store, state)
    settings = Settings.model_validate({"secret_key": "k" * 32})
    async with open_services(settings, store.url) as services:
        for run in (state, other):
            await cancel(services.storage, services.queue, PROJECT, run.id)
            assert await status(store, run.id) == "cancelled"
    assert await store.pending(state.id) == []
    assert (await store.log(state.id))[-2:] == ["tool_call.cancelled", "run.cancelled"]


async def test_a_cancelled_run_has_no_open_calls(store: Store) -> None:
    run, other = await store.waiting(pay("c1")), await store.waiting(pay("c1"))
    ids = {state.id: [call.uuid for call in state.calls.values()] for state in (run, other)}
    settings = Settings.model_validate({"secret_key": "k" * 32})
    async with open_services(settings, store.url) as services:
        await cancel(services.storage, services.queue, PROJECT, other.id)
    asked = [(PROJECT, run_id, call_id) for run_id in ids for call_id in ids[run_id]]
    async with store.pool.connect() as tx:
        assert await views.find_open_calls(tx, asked) == set(ids[run.id])


async def test_a_result_that_cannot_be_read_leaves_the_other_calls_readable(store: Store) -> None:
    state = await store.waiting(pay("c1"), pay("c2"))
    await store.sql(
        "UPDATE tool_calls SET phase = 'settled', result = CAST(:result AS json)"
        " WHERE call_id = 'c1'",
        result=f'{{"outcome": "completed", "output": {DEEP}}}',
    )
    async with store.pool.connect() as tx:
        first, second = await views.list_calls(tx, PROJECT, state.id)
        with pytest.raises(e.RunUnreadableError):
            await queries.load(tx, PROJECT, state.id)
    assert first.call.result is not None
    assert first.call.result.output == {"unreadable": "This value cannot be read."}
    assert second.call.result is None
