"""Retention and erasures in the database: they let runs pass, and other processes do not disturb
them."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runward.domain.errors import LegalHoldError, TooManyRequestsError
from runward.domain.ids import KeyId, RunId
from runward.domain.retention import DataClass, HoldKind, RetentionLimits
from runward.domain.run.status import Move
from runward.store.access import holds
from runward.store.postgres.db import mint
from runward.store.retention import choices, cleaner, erasures
from runward.store.retention.cleaner import Removed
from runward.store.runs import erasure
from runward.store.runs.gate import Ending
from tests.db.store import PROJECT, Store, pay, step, with_option
from tests.db.test_outside import alone, cancel, clean
from tests.db.test_sessions import Talk, say, talk_of

A_DAY = RetentionLimits(dict.fromkeys(DataClass, 1), {})
OF_RUNS = (DataClass.RUNS, DataClass.EVENTS, DataClass.TOOL_CALL_CONTENT)


async def ended(store: Store, count: int = 1) -> list[RunId]:
    """Runs that ended three days ago, the first one first."""
    found: list[RunId] = []
    for _ in range(count):
        state = await store.leased()
        await cancel(store, state)
        found.append(state.id)
    await age(store)
    return found


async def age(store: Store) -> None:
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(text("UPDATE runs SET ended_at = ended_at - interval '3 days'"))


async def remove(
    store: Store, data_class: DataClass = DataClass.RUNS, limits: RetentionLimits = A_DAY
) -> Removed:
    await alone(store, lambda tx: cleaner.list_work(tx, limits))
    return await alone(store, lambda tx: cleaner.remove_batch(tx, limits, PROJECT, data_class))


async def erased(store: Store) -> list[RunId]:
    return [
        RunId(one.id)
        for one in await store.sql(
            "SELECT id FROM runs WHERE erased_at IS NOT NULL ORDER BY ended_at"
        )
    ]


async def hold(store: Store, run_id: RunId) -> None:
    key = KeyId(mint())
    await store.sql(
        "INSERT INTO api_keys (project_id, id, name, secret_hmac, scopes)"
        " VALUES (:project, :key, 'legal', sha256(CAST(:name AS text)::bytea), '{}')",
        project=PROJECT,
        key=key,
        name=str(key),
    )
    async with store.pool.begin() as tx:
        await holds.lock_for_change(tx, PROJECT)
        await holds.put_hold(tx, PROJECT, run_id, HoldKind.RUN, "", key)


@pytest.mark.parametrize("data_class", OF_RUNS)
async def test_a_step_never_waits_for_a_batch(store: Store, data_class: DataClass) -> None:
    """The batch is not committed. A run of the same session ends, and others are accepted, claimed
    and written, on connections that wait for no lock."""
    talk = await talk_of(store)
    old = await talk.start()
    await talk.begin(old)
    await talk.end(old)
    runs = await ended(store)
    hurried = Store(with_option(store.url, "lock_timeout=1"))
    other = Talk(hurried, await talk.get())
    state = await hurried.leased()
    current = await other.start()
    await alone(store, lambda tx: cleaner.list_work(tx, A_DAY))
    async with store.pool.begin() as tx:
        await cleaner.remove_batch(tx, A_DAY, PROJECT, data_class)
        assert await count_locked(tx, runs) == 1
        assert await other.begin(current)
        await other.end(current, say("later"))
        await other.start()
        await hurried.committed(step(state, "message.completed"))
        await hurried.committed(step(state, "run.completed", ending=Ending(Move.COMPLETE)))
        assert await hurried.accept(3)
    await hurried.close()
    assert [texts for texts in await talk.history() if texts][-1:] == [["later"]]


async def count_locked(tx: Any, run_ids: Sequence[RunId]) -> int:
    """Return how many of these rows this transaction has locked or changed."""
    own = "CAST(CAST(pg_current_xact_id() AS xid) AS text)"
    rows = await tx.execute(
        text(f"SELECT 1 FROM runs WHERE id = ANY(:ids) AND {own} IN (xmin::text, xmax::text)"),
        {"ids": list(run_ids)},
    )
    return len(rows.all())


async def test_a_large_backlog_is_removed_in_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "BATCH", 3)
    runs = await ended(store, 7)
    batches = [await remove(store) for _ in range(4)]
    assert batches == [Removed(3, more=True), Removed(3, more=True), Removed(1), Removed()]
    assert await erased(store) == runs


async def test_a_batch_has_few_events_but_at_least_one_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "EVENTS", 1)
    await ended(store, 2)
    counts = [await store.value("SELECT count(*) FROM run_events")]
    while (await remove(store, DataClass.EVENTS)).more:
        counts.append(await store.value("SELECT count(*) FROM run_events"))
    assert counts == [6, 3]
    assert await store.value("SELECT count(*) FROM run_events") == 0


async def test_two_workers_never_remove_the_same_batch(store: Store) -> None:
    runs = await ended(store, 2)
    await alone(store, lambda tx: cleaner.list_work(tx, A_DAY))
    async with store.pool.begin() as tx:
        assert (await cleaner.remove_batch(tx, A_DAY, PROJECT, DataClass.RUNS)).rows == 2
        assert await remove(store) == Removed()
    assert await erased(store) == runs


async def test_a_batch_ends_before_a_run_that_another_transaction_has_locked(
    store: Store,
) -> None:
    first, busy, last = await ended(store, 3)
    async with store.locked(busy):
        assert await remove(store) == Removed(1, more=True)
        assert await remove(store) == Removed()
        assert await erased(store) == [first]
    assert await remove(store) == Removed(2)
    assert await erased(store) == [first, busy, last]


async def test_runs_that_end_later_are_removed_later(store: Store) -> None:
    old = await ended(store)
    state = await store.leased()
    await cancel(store, state)
    await clean(store, A_DAY)
    assert await erased(store) == old
    await age(store)
    await clean(store, A_DAY)
    assert await erased(store) == [*old, state.id]


async def test_a_held_run_is_passed_and_found_again(store: Store) -> None:
    first, held, last = await ended(store, 3)
    await hold(store, held)
    await clean(store, A_DAY)
    assert await erased(store) == [first, last]
    async with store.pool.begin() as tx:
        await holds.lock_for_change(tx, PROJECT)
        await holds.delete_hold(tx, PROJECT, held)
        await cleaner.return_cursors(tx, PROJECT, held)
    await clean(store, A_DAY)
    assert await erased(store) == [first, held, last]
    assert await store.value("SELECT count(*) FROM run_events") == 0


async def test_a_hold_waits_for_an_erasure_and_no_erasure_begins_meanwhile(store: Store) -> None:
    """When a hold is created, no transaction is about to erase its data."""
    run, other = await ended(store, 2)
    async with store.pool.begin() as tx:
        assert await erasure.erase(tx, PROJECT, run)
        holding = asyncio.create_task(hold(store, other))
        await store.until_blocked()
        assert await remove(store) == Removed()
    await holding
    with pytest.raises(LegalHoldError):
        await alone(store, lambda tx: erasure.erase(tx, PROJECT, other))
    assert await erased(store) == [run]


async def test_a_longer_retention_waits_for_the_batch_and_stops_the_next(store: Store) -> None:
    await ended(store)
    await alone(store, lambda tx: choices.put_choice(tx, PROJECT, {DataClass.RUNS: None}))
    assert await remove(store) == Removed()
    capped = RetentionLimits({}, {DataClass.RUNS: 2})
    assert await remove(store, limits=capped) == Removed(1)


async def test_only_an_erasure_changes_a_run_that_has_ended(store: Store) -> None:
    [run] = await ended(store)
    await remove(store)
    for statement in ("UPDATE runs SET output = '1'", "DELETE FROM runs"):
        with pytest.raises(DBAPIError, match="does not change"):
            await store.sql(f"{statement} WHERE id = :id", id=run)


async def test_no_delivery_is_left_without_its_event(store: Store) -> None:
    runs = await ended(store, 2)
    await store.sql(
        "INSERT INTO webhook_deliveries (project_id, id, url, target, message_id, type, run_id,"
        " seq, next_attempt_at) SELECT project_id, gen_random_uuid(), 'https://a.example', id,"
        " 'evt', 'run.created', id, 1, now() FROM runs"
    )
    await store.leased()
    await remove(store, DataClass.EVENTS)
    orphans = (
        "SELECT count(*) FROM webhook_deliveries d WHERE NOT EXISTS (SELECT FROM run_events e"
        " WHERE e.project_id = d.project_id AND e.run_id = d.run_id AND e.seq = d.seq)"
    )
    assert await store.value(orphans) == 0
    assert await store.value("SELECT count(*) FROM runs") == len(runs) + 1


@pytest.mark.parametrize(
    ("data_class", "change"),
    [
        (DataClass.RUNS, "run_events SET data = '[1]'"),
        (DataClass.RUNS, "runs SET error = '5'"),
        (DataClass.TOOL_CALL_CONTENT, """run_items SET items = '["x"]'"""),
        (DataClass.TOOL_CALL_CONTENT, "tool_calls SET result = '5'"),
    ],
)
async def test_content_in_another_form_is_erased_too(
    store: Store, data_class: DataClass, change: str
) -> None:
    """A later version may have written it."""
    await cancel(store, await store.started(pay("c1")))
    await age(store)
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(text(f"UPDATE {change}"))
    assert (await remove(store, data_class)).rows > 0


async def test_a_class_that_cannot_be_removed_does_not_stop_the_others(store: Store) -> None:
    runs = await ended(store)
    await store.sql("""UPDATE projects SET retention = '{"events": "x"}'""")
    await clean(store, A_DAY)
    assert await erased(store) == runs


# Erasures of everything with the same metadata.


async def test_an_erasure_goes_on_where_another_worker_stopped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "SCAN", 4)
    monkeypatch.setattr(erasures, "BATCH", 1)
    runs = await ended(store, 9)
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(
            text('UPDATE runs SET metadata = \'{"user": "u1"}\' WHERE id = ANY(:ids)'),
            {"ids": runs[::2]},
        )
    made = await alone(store, lambda tx: erasures.add_erasure(tx, PROJECT, {"user": "u1"}))
    steps = 0
    while await alone(store, lambda tx: erasures.advance(tx, PROJECT, made.id)) is not None:
        steps += 1
        with pytest.raises(ConnectionError):  # another worker is lost inside its step
            async with store.pool.begin() as tx:
                await erasures.advance(tx, PROJECT, made.id)
                raise ConnectionError
    assert await erased(store) == runs[::2]
    async with store.pool.connect() as tx:
        done = await erasures.get_erasure(tx, PROJECT, made.id)
    assert done is not None
    assert (done.runs_erased, done.held, done.ended_at is None) == (5, 0, False)
    assert await store.value("SELECT metadata FROM erasures") is None
    assert steps >= 5


async def test_an_erasure_waits_for_a_run_that_is_still_open(store: Store) -> None:
    state = await store.waiting(pay("c1"))
    await store.sql('UPDATE runs SET metadata = \'{"user": "u1"}\'')
    made = await alone(store, lambda tx: erasures.add_erasure(tx, PROJECT, {"user": "u1"}))
    assert await alone(store, lambda tx: erasures.advance(tx, PROJECT, made.id)) is None
    async with store.pool.begin() as tx:
        assert await erasures.list_runs_to_cancel(tx, 10) == [(PROJECT, state.id)]
    await cancel(store, state)
    while await alone(store, lambda tx: erasures.advance(tx, PROJECT, made.id)) is not None:
        pass
    assert await erased(store) == [state.id]


async def test_a_project_has_few_unfinished_erasures(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "MAX_OPEN", 1)
    await alone(store, lambda tx: erasures.add_erasure(tx, PROJECT, {"user": "u1"}))
    with pytest.raises(TooManyRequestsError):
        await alone(store, lambda tx: erasures.add_erasure(tx, PROJECT, {"user": "u2"}))


async def test_vacuums_of_large_tables_begin_early(store: Store) -> None:
    found = await store.sql(
        "SELECT count(*) AS tables FROM pg_class WHERE 'autovacuum_vacuum_scale_factor=0.02'"
        " = ANY(reloptions)"
    )
    assert found[0].tables == 6
