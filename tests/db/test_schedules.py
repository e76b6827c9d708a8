"""The slots of schedules in the database: each starts one run, whatever the workers do."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import pytest
from sqlalchemy import Row
from sqlalchemy.exc import DBAPIError

from runward.domain.ids import RunId
from runward.domain.run.config import AgentConfig
from runward.domain.schedules import MAX_MISSED, MAX_WAITING_RUNS, ScheduleMisfires
from runward.serve import build_slot_starter
from runward.services import Services
from runward.settings import Settings
from runward.store.registry import agents
from runward.store.runs import sessions, transitions
from runward.store.schedules import schedules, slots
from runward.store.schedules.slots import DueSlot, SlotResult
from runward.wiring import open_services
from runward.worker.schedules import ScheduleWorker
from tests.db.store import PROJECT, Store, backend, until
from tests.db.test_outside import clean, reaper

EVERY_MINUTE: Final = "* * * * *"
NO_LEASE: Final = timedelta(0)
RUN: Final = {"model": "offline:rules", "input": "go"}
SETTINGS: Final = Settings.model_validate({"secret_key": "k" * 32})


@pytest.fixture
async def services(store: Store) -> AsyncIterator[Services]:
    async with open_services(SETTINGS, store.url) as services:
        yield services


async def add(store: Store, minutes_ago: int = 0, **fields: Any) -> UUID:
    """A schedule whose next slot was at the beginning of a minute. 0: of the current one."""
    now = await store.value("SELECT date_trunc('minute', clock_timestamp())")
    given: dict[str, Any] = {
        "name": "test",
        "cron": EVERY_MINUTE,
        "time_zone": "UTC",
        "run": RUN,
        "overlap": "skip",
        "misfires": "all",
        "enabled": True,
        "created_by": UUID(int=1),
        "next_at": now - timedelta(minutes=minutes_ago),
    }
    async with store.pool.begin() as tx:
        made = await schedules.add_schedule(tx, store.vault, PROJECT, given | fields, None)
    return made.id


async def claim(
    store: Store, count: int = 100, per_project: int = 100, **options: Any
) -> list[DueSlot]:
    async with store.autocommit.connect() as tx:
        return await slots.claim_slots(tx, count, per_project, options.pop("free", {}), **options)


async def start_next(services: Services, store: Store) -> SlotResult | None:
    [due] = await claim(store)
    return await build_slot_starter(services).start(due)


def make_worker(services: Services) -> ScheduleWorker:
    return ScheduleWorker(services.storage, build_slot_starter(services).start)


async def next_slot(store: Store, schedule_id: UUID) -> None:
    """The next slot of the schedule is due now, later than all others."""
    await store.sql(
        "UPDATE schedules SET next_at = clock_timestamp(), due_at = clock_timestamp()"
        " WHERE id = :id",
        id=schedule_id,
    )


async def stored(store: Store, schedule_id: UUID) -> Sequence[Row[Any]]:
    return await store.sql(
        "SELECT * FROM schedule_slots WHERE schedule_id = :id ORDER BY slot_at", id=schedule_id
    )


async def schedule(store: Store, schedule_id: UUID) -> Row[Any]:
    [row] = await store.sql("SELECT * FROM schedules WHERE id = :id", id=schedule_id)
    return row


async def end(store: Store, run_id: UUID) -> None:
    async with store.pool.begin() as tx:
        await transitions.cancel(tx, PROJECT, RunId(run_id), after_turn=False)


async def test_two_workers_start_each_of_many_slots_once(store: Store) -> None:
    ids = [await add(store, 15, overlap="queue") for _ in range(12)]
    async with open_services(SETTINGS, store.url) as one, open_services(SETTINGS, store.url) as two:
        workers = [
            ScheduleWorker(each.storage, build_slot_starter(each).start) for each in (one, two)
        ]
        tasks = [asyncio.create_task(worker.run()) for worker in workers]
        for worker in workers:
            worker.wake()
        await store.until("SELECT count(*) FROM schedules WHERE next_at <= clock_timestamp()", 0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(
            *tasks, *(worker.finish() for worker in workers), return_exceptions=True
        )
    for schedule_id in ids:
        found = await stored(store, schedule_id)
        times = [row.slot_at for row in found]
        minutes = [times[0] + timedelta(minutes=n) for n in range(len(times))]
        assert len(times) >= 15
        assert times == minutes
        assert {row.status for row in found} == {"started"}
        runs = await store.sql(
            "SELECT id FROM runs WHERE schedule_id = :id ORDER BY created_at", id=schedule_id
        )
        assert [row.id for row in runs] == [row.run_id for row in found]


async def test_a_slot_that_two_workers_process_at_once_starts_one_run(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store)
    [first], [second] = await claim(store, lease=NO_LEASE), await claim(store, lease=NO_LEASE)
    assert first.slot_at == second.slot_at
    starter = build_slot_starter(services)
    results = await asyncio.gather(starter.start(first), starter.start(second))
    [started] = [one for one in results if one is not None]
    [slot] = await stored(store, schedule_id)
    assert slot.run_id == started.run_id
    assert await store.value("SELECT count(*) FROM runs") == 1


async def test_a_slot_whose_transaction_is_killed_is_due_again(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store)
    [due] = await claim(store, lease=NO_LEASE)
    async with store.pool.begin() as other:
        await schedules.get_schedule(other, PROJECT, schedule_id, lock=True)
        starting = asyncio.create_task(build_slot_starter(services).start(due))
        await store.until(
            "SELECT count(*) FROM pg_stat_activity WHERE :pid = ANY(pg_blocking_pids(pid))",
            1,
            pid=await backend(other),
        )
        await store.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE :pid = ANY(pg_blocking_pids(pid))",
            pid=await backend(other),
        )
        with pytest.raises(DBAPIError):
            await starting
    assert await stored(store, schedule_id) == []
    assert await store.value("SELECT count(*) FROM runs") == 0
    assert await start_next(services, store) is not None
    assert len(await stored(store, schedule_id)) == 1
    assert await store.value("SELECT count(*) FROM runs") == 1


async def test_a_claimed_slot_is_not_claimed_again_before_its_lease_ends(store: Store) -> None:
    await add(store)
    assert len(await claim(store)) == 1
    assert await claim(store) == []


@pytest.mark.parametrize("change", ["update", "delete"])
async def test_a_schedule_that_changes_meanwhile_starts_no_run_of_its_former_request(
    store: Store, services: Services, change: str
) -> None:
    schedule_id = await add(store)
    [due] = await claim(store)
    async with store.pool.begin() as tx:
        if change == "update":
            fields = {"run": RUN | {"input": "other"}, "next_at": due.slot_at}
            await schedules.update_schedule(tx, PROJECT, schedule_id, fields)
        else:
            assert await schedules.delete_schedule(tx, PROJECT, schedule_id)
    assert await build_slot_starter(services).start(due) is None
    assert await store.value("SELECT count(*) FROM runs") == 0
    claimed_again = await claim(store)
    assert [one.schedule.run["input"] for one in claimed_again] == (
        ["other"] if change == "update" else []
    )


async def test_a_project_with_many_due_slots_leaves_room_for_others(store: Store) -> None:
    for _ in range(6):
        await add(store, 5)
    await store.sql("INSERT INTO projects (id, name) VALUES (:id, 'other')", id=UUID(int=7))
    later = await add(store)
    await store.sql(
        "UPDATE schedules SET project_id = :project WHERE id = :id", project=UUID(int=7), id=later
    )
    claimed = await claim(store, 5, per_project=4)
    assert later in {due.schedule.id for due in claimed}
    assert len(claimed) == 5
    assert await claim(store, 5, per_project=4, free={PROJECT: 0}) == []
    assert len(await claim(store, 5, per_project=4, free={PROJECT: 1})) == 1


# Missed slots.


@pytest.mark.parametrize(("misfires", "runs"), [("skip", 0), ("once", 1), ("all", 10)])
async def test_missed_slots(store: Store, services: Services, misfires: str, runs: int) -> None:
    schedule_id = await add(store, 11, misfires=misfires, overlap="queue")
    missed_until = await store.value("SELECT clock_timestamp() - interval '1 minute'")
    for _ in range(13):
        for due in await claim(store):
            assert await build_slot_starter(services).start(due) is not None
    found = await stored(store, schedule_id)
    started = [row for row in found if row.status == "started" and row.slot_at <= missed_until]
    assert len(started) in (runs, runs + (runs > 1))  # The minute may end during the test.
    if started:
        assert missed_until - started[-1].slot_at < timedelta(minutes=1)
    skipped = [row.skip_reason for row in found if row.status == "skipped"]
    assert skipped == ([] if misfires == "all" else ["missed"])
    assert (await schedule(store, schedule_id)).next_at > missed_until + timedelta(minutes=1)


async def test_only_the_newest_missed_slots_start_runs(store: Store, services: Services) -> None:
    schedule_id = await add(store, 300, overlap="queue")
    result = await start_next(services, store)
    assert result is not None and result.skip_reason == "missed"
    left = (await schedule(store, schedule_id)).next_at
    missed = await store.value("SELECT clock_timestamp() - interval '1 minute' - :left", left=left)
    assert missed // timedelta(minutes=1) + 1 in (
        MAX_MISSED[ScheduleMisfires.ALL],
        MAX_MISSED[ScheduleMisfires.ALL] + 1,
    )


async def test_a_schedule_with_one_slot_has_none_afterwards(
    store: Store, services: Services
) -> None:
    at = await store.value("SELECT clock_timestamp()")
    schedule_id = await add(store, cron=None, at=at, next_at=at)
    assert await start_next(services, store) is not None
    row = await schedule(store, schedule_id)
    assert (row.next_at, row.due_at, row.last_at) == (None, None, at)
    [slot] = await stored(store, schedule_id)
    assert row.last_run_id == slot.run_id


# Overlap.


async def test_a_slot_is_skipped_while_the_last_run_is_open(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store, overlap="skip")
    first = await start_next(services, store)
    assert first is not None and first.run_id is not None
    await next_slot(store, schedule_id)
    second = await start_next(services, store)
    assert second is not None and second.skip_reason == "overlap"
    assert (await schedule(store, schedule_id)).last_skip_reason == "overlap"
    await end(store, first.run_id)
    await next_slot(store, schedule_id)
    third = await start_next(services, store)
    assert third is not None and third.run_id is not None
    assert (await schedule(store, schedule_id)).last_skip_reason is None


async def test_a_new_run_replaces_the_former(store: Store, services: Services) -> None:
    schedule_id = await add(store, overlap="replace")
    first = await start_next(services, store)
    await next_slot(store, schedule_id)
    second = await start_next(services, store)
    assert first and first.run_id and second and second.run_id
    assert (await store.head(first.run_id)).status == "cancelled"
    assert (await store.head(second.run_id)).status == "queued"


async def test_a_worker_with_an_outdated_claim_cancels_no_run_of_its_slot(
    store: Store, services: Services
) -> None:
    await add(store, overlap="replace")
    [first], [second] = await claim(store, lease=NO_LEASE), await claim(store, lease=NO_LEASE)
    starter = build_slot_starter(services)
    result = await starter.start(first)
    assert result is not None and result.run_id is not None
    assert await starter.start(second) is None
    assert (await store.head(result.run_id)).status == "queued"


async def test_waiting_runs_start_one_after_the_other(store: Store, services: Services) -> None:
    schedule_id = await add(store, overlap="queue")
    runs: list[RunId] = []
    for _ in range(4):
        result = await start_next(services, store)
        assert result is not None and result.run_id is not None
        runs.append(result.run_id)
        await next_slot(store, schedule_id)
    sweeper = reaper(store)
    for position, run_id in enumerate(runs):
        await sweeper.sweep()
        assert [state.id for state in await store.claim()] == [run_id]
        await sweeper.sweep()
        assert await store.claim() == []
        if position == 1:  # A waiting run that ends does not let the next one start.
            await end(store, runs.pop(2))
        await end(store, run_id)
    await sweeper.sweep()
    assert await store.claim() == []


async def test_runs_of_a_deleted_schedule_do_not_wait_forever(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store, overlap="queue")
    first = await start_next(services, store)
    await next_slot(store, schedule_id)
    second = await start_next(services, store)
    assert first and first.run_id and second and second.run_id
    async with store.pool.begin() as tx:
        assert await schedules.delete_schedule(tx, PROJECT, schedule_id)
    await end(store, first.run_id)
    await reaper(store).sweep()
    assert [state.id for state in await store.claim()] == [second.run_id]


async def test_at_most_so_many_runs_of_a_schedule_wait(store: Store, services: Services) -> None:
    schedule_id = await add(store, overlap="queue")
    await store.accept(MAX_WAITING_RUNS)
    await store.sql("UPDATE runs SET schedule_id = :id", id=schedule_id)
    last = await start_next(services, store)
    assert last is not None and last.run_id is not None
    await next_slot(store, schedule_id)
    full = await start_next(services, store)
    assert full is not None and full.skip_reason == "queue_full"


async def test_runs_of_a_session_wait_in_the_session(store: Store, services: Services) -> None:
    async with store.pool.begin() as tx:
        session = await sessions.create(
            tx, PROJECT, name=None, metadata={}, state={}, on_conflict=sessions.ConflictMode.QUEUE
        )
    run = RUN | {"session_id": f"sess_{session.id.hex}"}
    schedule_id = await add(store, overlap="queue", run=run)
    first = await start_next(services, store)
    await next_slot(store, schedule_id)
    second = await start_next(services, store)
    assert first and first.run_id and second and second.run_id
    assert [state.id for state in await store.claim()] == [first.run_id]
    await end(store, first.run_id)
    assert [state.id for state in await store.claim()] == [second.run_id]


# Runs that cannot start.


async def test_a_slot_whose_agent_is_gone_has_an_error_and_delays_no_other(
    store: Store, services: Services
) -> None:
    gone = await add(store, 1, run={"agent": "gone", "input": "go"})
    good = await add(store)
    for due in await claim(store):
        await build_slot_starter(services).start(due)
    row = await schedule(store, gone)
    assert row.last_error["code"] == "unknown_agent"
    assert row.last_error["errors"] == [{"path": "run.agent", "message": "is not registered"}]
    assert row.last_run_id is None
    assert row.next_at > row.last_at
    assert (await schedule(store, good)).last_run_id is not None


async def test_a_request_that_this_version_rejects_is_an_error(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store, run=RUN | {"limits": {"max_turns": "many"}, "old": 1})
    await start_next(services, store)
    error = (await schedule(store, schedule_id)).last_error
    assert error["code"] == "invalid_request"
    assert [one["path"] for one in error["errors"]] == ["run.limits.max_turns", "run.old"]


@pytest.mark.parametrize(
    ("change", "path"),
    [("time_zone = 'Mars/Phobos'", "time_zone"), ("cron = '61 * * * *'", "cron")],
)
async def test_a_slot_waits_with_an_error_until_a_worker_knows_its_times(
    store: Store, services: Services, change: str, path: str
) -> None:
    """The time zone database of another host may be newer."""
    schedule_id = await add(store)
    await store.sql(f"UPDATE schedules SET {change}")
    result = await start_next(services, store)
    assert result is not None and result.error is not None
    row = await schedule(store, schedule_id)
    assert [one["path"] for one in row.last_error["errors"]] == [path]
    assert await stored(store, schedule_id) == []
    await store.sql(
        "UPDATE schedules SET time_zone = 'UTC', cron = '* * * * *', due_at = clock_timestamp()"
    )
    await start_next(services, store)
    row = await schedule(store, schedule_id)
    assert (row.last_error, row.last_run_id is None) == (None, False)


async def test_a_schedule_of_a_newer_version_delays_no_other(store: Store) -> None:
    """During an upgrade, workers of both versions claim slots."""
    newer, good = await add(store, 1), await add(store)
    await store.sql("ALTER TABLE schedules DROP CONSTRAINT schedules_overlap_known")
    await store.sql("UPDATE schedules SET overlap = 'newer' WHERE id = :id", id=newer)
    assert [due.schedule.id for due in await claim(store)] == [good]


async def test_a_secret_that_cannot_be_read_delays_the_slot_and_then_is_an_error(
    store: Store, services: Services
) -> None:
    schedule_id = await add(store)
    await store.sql("UPDATE schedules SET sealed_run = 'x'")
    assert await start_next(services, store) is None
    assert await stored(store, schedule_id) == []
    await store.sql(
        "UPDATE schedules SET next_at = next_at - interval '3 minutes', misfires = 'once',"
        " cron = NULL, at = next_at - interval '3 minutes', due_at = clock_timestamp()"
    )
    result = await start_next(services, store)
    assert result is not None and result.error is not None
    assert result.error["code"] == "unavailable"


async def test_the_run_has_the_agent_as_it_is_now(store: Store, services: Services) -> None:
    about: dict[str, Any] = {"description": None, "metadata": {}}
    async with store.pool.begin() as tx:
        config = AgentConfig.model_validate({"model": "offline:rules", "instructions": "first"})
        await agents.put_agent(tx, PROJECT, "clerk", config, replace=False, **about)
    schedule_id = await add(store, overlap="queue", run={"agent": "clerk", "input": "go"})
    await start_next(services, store)
    async with store.pool.begin() as tx:
        changed = config.model_copy(update={"instructions": "second"})
        await agents.put_agent(tx, PROJECT, "clerk", changed, replace=True, **about)
    await next_slot(store, schedule_id)
    await start_next(services, store)  # This process has cached the first version.
    runs = await store.sql("SELECT config, agent_version FROM runs ORDER BY created_at")
    assert [(row.config["instructions"], row.agent_version) for row in runs] == [
        ("first", 1),
        ("second", 2),
    ]


# The worker.


async def test_the_sweep_wakes_the_worker_and_deletes_old_slots(
    store: Store, services: Services
) -> None:
    woken: list[bool] = []
    sweeper = reaper(store, wake_schedules=lambda: woken.append(True))
    await sweeper.sweep()
    assert woken == []
    schedule_id = await add(store)
    await sweeper.sweep()
    assert woken == [True]
    await start_next(services, store)
    await clean(store)
    assert len(await stored(store, schedule_id)) == 1
    await store.sql("UPDATE schedule_slots SET created_at = created_at - interval '31 days'")
    await clean(store)
    assert await stored(store, schedule_id) == []


async def test_an_unexpected_error_of_one_slot_delays_no_other(store: Store) -> None:
    bad, good = await add(store, 1), await add(store)
    started: list[UUID] = []

    async def start(due: DueSlot) -> SlotResult | None:
        if due.schedule.id == bad:
            raise ZeroDivisionError
        started.append(due.schedule.id)
        return None

    async with open_services(SETTINGS, store.url) as services:
        worker = ScheduleWorker(services.storage, start)
        task = asyncio.create_task(worker.run())
        worker.wake()

        async def has_started() -> bool:
            return started == [good]

        await until(has_started)
        task.cancel()
        await worker.finish()
        await asyncio.gather(task, return_exceptions=True)
