"""The worker around the loop: leases that stay alive, and a clean way out."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import ProgrammingError

from runward.api.probes import check_liveness
from runward.domain.errors import UnavailableError
from runward.domain.ids import RunId
from runward.domain.run.config import AgentConfig
from runward.domain.run.items import Message
from runward.domain.run.outcomes import Done, Outcome
from runward.domain.run.state import RunState, Segment, SegmentKind
from runward.domain.run.status import Move
from runward.loop.unreadable_secrets import LONGEST_UNREADABLE_DELAY, UNREADABLE_DELAY
from runward.serve import build_slot_starter
from runward.services import Services
from runward.settings import Settings
from runward.store.live.carried import CommittedEvents
from runward.store.postgres.db import open_database
from runward.store.runs import sweep
from runward.store.runs.gate import Ending
from runward.store.runs.queue import MAX_CLAIMS, HeldLease
from runward.tools.base import Invocation
from runward.version import VERSION
from runward.wiring import open_services
from runward.worker import leases as leases_module
from runward.worker.leases import Heartbeat, HeartbeatStoppedError
from runward.worker.main import Worker
from runward.worker.process import run_worker
from tests.db.proxy import Break, Proxy
from tests.db.store import LEASE, PROJECT, STOPPED_CLOCK, Store, new_run, step, until

SECOND = timedelta(seconds=1)
SHORT = timedelta(seconds=0.3)
DAY = timedelta(days=1)
SLACK = timedelta(seconds=8)
CLAIMING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'"
    " AND datname = current_database()"
    " AND query LIKE '%RECURSIVE turns AS %'"
)
ALIVE = "SELECT lease_expires_at > clock_timestamp() FROM runs WHERE id = :id"


def held(*states: RunState) -> list[HeldLease]:
    return [HeldLease(state.project_id, state.id, state.fence) for state in states]


def block_the_loop(seconds: float) -> None:
    """A plugin that computes, and lets nothing else run in its thread."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


@dataclass
class Leases:
    """What a worker holds, and what it was told is lost."""

    holds: list[HeldLease]
    lost: list[HeldLease]
    stalls: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])

    def lose(self, leases: Iterable[HeldLease]) -> None:
        self.lost += leases

    def stall(self, seconds: float, place: str) -> None:
        self.stalls.append((seconds, place))


@asynccontextmanager
async def heartbeat(
    store: Store, lease: timedelta, *states: RunState, url: str | None = None
) -> AsyncGenerator[Leases]:
    leases = Leases(held(*states), [])
    beats = Heartbeat(
        lambda: open_database(url or store.url, pool_size=1),
        lease,
        list_held=lambda: leases.holds,
        on_lost=leases.lose,
        on_stall=leases.stall,
    )
    task = asyncio.create_task(beats.run())
    try:
        yield leases
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# Leases.


async def test_leases_live_on_while_the_event_loop_is_blocked_for_longer(store: Store) -> None:
    state = await store.leased(lease=SECOND)
    async with heartbeat(store, SECOND, state) as leases:
        await asyncio.sleep(0)  # it starts
        block_the_loop(1.5)
        assert await store.value(ALIVE, id=state.id)
        async with store.pool.begin() as tx:
            assert await sweep.free_expired_leases(tx) == []
    assert leases.lost == []
    await store.committed(step(state, "mine"))


async def test_a_lease_that_was_claimed_a_moment_ago_lives_on_too(store: Store) -> None:
    """The event loop has had no time to do anything since it took the claim in."""
    async with heartbeat(store, SECOND) as leases:
        await asyncio.sleep(0)  # it starts
        state = await store.leased(lease=SECOND)
        leases.holds = held(state)
        block_the_loop(1.5)
        assert await store.value(ALIVE, id=state.id)
    assert leases.lost == []


async def test_a_connection_that_no_longer_answers_is_replaced_within_a_lease(
    store: Store, database_url: str
) -> None:
    """Its driver would wait for an answer for half a minute."""
    state, proxy = await store.leased(), Proxy(database_url)
    leased = (await store.head(state.id)).lease_expires_at
    proxy.break_at("h(project_id, id, fence, kept)", Break.SWALLOWED)
    async with proxy.open() as url, heartbeat(store, SHORT, state, url=url):
        await store.until("SELECT lease_expires_at <> :leased FROM runs", leased=leased)
    assert proxy.broken == 1


async def test_a_loop_that_does_not_move_for_longer_than_its_lease_is_reported(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "MIN_STALL_SECONDS", 0)
    async with heartbeat(store, SHORT) as leases:
        await asyncio.sleep(0)
        assert leases.stalls == []
        while not leases.stalls:
            block_the_loop(0.5)
    seconds, place = leases.stalls[0]
    assert seconds >= SHORT.total_seconds()
    assert "test_worker.py" in place


def test_a_worker_whose_loop_is_stuck_ends_itself_with_a_message_and_a_code() -> None:
    """Its supervisor starts it again. Here nothing is leased, so no database is asked."""
    stuck = """if True:
        import asyncio, time
        from datetime import timedelta
        from runward.store.postgres.db import open_database
        from runward.worker import leases

        async def hang() -> None:
            nowhere = lambda: open_database("postgresql://nobody@127.0.0.1:9/x", pool_size=1)
            lease = timedelta(seconds=0.3)
            beats = leases.Heartbeat(nowhere, lease, list_held=list, on_lost=print)
            task = asyncio.create_task(beats.run())
            await asyncio.sleep(0.05)
            time.sleep(60)

        leases.MIN_STALL_SECONDS = 0
        asyncio.run(hang())
    """
    ended = subprocess.run(
        [sys.executable, "-c", stuck], check=False, capture_output=True, timeout=50
    )
    assert ended.returncode == leases_module.STALLED_EXIT_CODE == 70
    assert b"event_loop_stalled" in ended.stdout + ended.stderr
    assert b"in hang" in ended.stdout + ended.stderr


async def test_a_lost_lease_is_reported_until_its_owner_has_heard_and_forgiven_once(
    store: Store,
) -> None:
    state = await store.leased(lease=timedelta(0))
    async with store.pool.begin() as tx:
        await sweep.free_expired_leases(tx)
    async with heartbeat(store, SHORT, state) as leases:

        async def reported() -> bool:
            return len(leases.lost) > 2

        await until(reported)
    head = await store.head(state.id)
    assert (head.claims, head.lost_leases) == (0, 1)


async def test_a_lease_that_somebody_else_has_now_is_reported_and_no_other(store: Store) -> None:
    lost, kept = await store.leased(lease=SECOND), await store.leased(lease=SECOND)
    await store.sql("UPDATE runs SET fence = fence + 1 WHERE id = :id", id=lost.id)
    async with heartbeat(store, SECOND, lost, kept) as leases:

        async def reported() -> bool:
            return bool(leases.lost)

        await until(reported)
        leases.holds = held(kept)
    assert set(leases.lost) == set(held(lost))
    assert await store.value(ALIVE, id=kept.id)


async def test_a_lease_that_has_expired_is_not_revived(store: Store) -> None:
    state = await store.leased(lease=timedelta(0))
    async with store.pool.begin() as tx:
        assert await sweep.renew_leases(tx, LEASE, held(state)) == held(state)
    assert not await store.value(ALIVE, id=state.id)


async def test_a_run_that_has_ended_is_not_held(store: Store) -> None:
    state = await store.leased()
    await store.committed(step(state, "run.completed", seen=0, ending=Ending(Move.COMPLETE)))
    async with store.pool.begin() as tx:
        assert await sweep.renew_leases(tx, LEASE, held(state)) == held(state)


async def test_a_former_lease_of_a_run_does_not_take_the_newer_one_with_it(store: Store) -> None:
    """A process names both, if it claims a run again before it has noticed that its former claim is
    over."""
    state = await store.leased()
    former = replace(held(state)[0], fence=state.fence - 1)
    async with store.pool.begin() as tx:
        assert await sweep.renew_leases(tx, LEASE, [*held(state), former]) == [former]


async def test_a_lease_that_nobody_works_under_is_left_to_expire(store: Store) -> None:
    """Otherwise a worker that wrongly takes its lease for lost would keep the run for ever."""
    state = await store.leased(lease=SHORT)

    async def expires() -> bool:
        async with store.pool.begin() as tx:
            return await sweep.renew_leases(tx, LEASE, [], held(state)) == held(state)

    assert not await expires()
    await until(expires)
    assert not await store.value(ALIVE, id=state.id)


async def test_a_run_that_somebody_locks_does_not_cost_the_others_their_leases(
    store: Store,
) -> None:
    """A process that froze in the middle of a decision, say."""
    locked, other = await store.leased(lease=SECOND), await store.leased(lease=SECOND)
    async with store.locked(locked.id), heartbeat(store, SECOND, locked, other) as leases:

        async def lock_outlives_its_lease() -> bool:
            return bool(leases.lost)

        await until(lock_outlives_its_lease)
        assert await store.value(ALIVE, id=other.id)
    assert set(leases.lost) == set(held(locked))


async def test_a_heartbeat_that_cannot_go_on_says_so(store: Store) -> None:
    nowhere = make_url(store.url).set(database="nowhere").render_as_string(hide_password=False)
    beats = Heartbeat(
        lambda: open_database(nowhere, pool_size=1),
        SHORT,
        list_held=lambda: [HeldLease(PROJECT, RunId(PROJECT), 1)],
        on_lost=lambda _: None,
    )
    with pytest.raises(HeartbeatStoppedError):
        await beats.run()


# A worker in this process.


class Pay:
    """A tool that answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Invocation] = []
        self.cut_off = 0
        self.answer = asyncio.Event()

    async def invoke(self, call: Invocation) -> Outcome:
        self.calls.append(call)
        try:
            await self.answer.wait()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        return Done("paid")


class Bench:
    """A worker, its services, and the tool that its runs call."""

    def __init__(self, store: Store, services: Services) -> None:
        self.store = store
        self.services = services
        self.pay = Pay()
        tools = services.engine.tools
        tools = replace(tools, invokers={**tools.invokers, "webhook": self.pay})
        services.engine = replace(services.engine, tools=tools)
        self.lease = LEASE
        self.stop = asyncio.Event()

    def worker(self) -> Worker:
        return Worker(self.services, concurrency=8, lease=self.lease)

    @asynccontextmanager
    async def working(self, drain: timedelta = LEASE) -> AsyncGenerator[Worker]:
        """It has been drained when this is left."""
        worker = self.worker()
        task = asyncio.create_task(
            run_worker(worker, self.stop, drain, VERSION, build_slot_starter(self.services).start)
        )
        yield worker
        self.stop.set()
        await task

    async def accept(self, said: str, *, lease: bool = False, **config: Any) -> RunState:
        """Through the store alone: nobody is told."""
        asked = AgentConfig.model_validate({"model": "offline:rules", **config}, strict=False)
        new = new_run(asked, lease=lease)
        new.changes.segments[0] = Segment(SegmentKind.INPUT, 0, None, (Message("user", said),))
        [result] = await self.store.acceptor.write([new])
        assert not isinstance(result, BaseException)
        return await self.store.load(new.id)

    async def until_called(self, count: int = 1) -> None:
        async def called() -> bool:
            return len(self.pay.calls) >= count

        await until(called)

    async def until_status(self, state: RunState, status: str) -> None:
        await self.store.until("SELECT status FROM runs WHERE id = :id", status, id=state.id)


@asynccontextmanager
async def bench_on(store: Store, *, url: str | None = None, **more: Any) -> AsyncGenerator[Bench]:
    settings = Settings.model_validate({"secret_key": "k" * 32, **more})
    await store.register()
    async with open_services(settings, url or store.url) as services:
        yield Bench(store, services)


@pytest.fixture
async def bench(store: Store) -> AsyncIterator[Bench]:
    async with bench_on(store) as bench:
        yield bench


async def test_a_worker_carries_a_run_to_its_end(bench: Bench) -> None:
    bench.pay.answer.set()
    run = await bench.accept("pay(amount=7)", tools=["pay"])
    async with bench.working():
        await bench.until_status(run, "completed")
    log = await bench.store.log(run.id)
    assert log[:2] == ["run.created", "run.started"]
    assert log[-1] == "run.completed"
    assert [call.arguments for call in bench.pay.calls] == [{"amount": 7}]


async def test_a_call_in_flight_may_finish_and_then_its_run_is_handed_back(bench: Bench) -> None:
    run = await bench.accept("pay(amount=7)", tools=["pay"])
    async with bench.working() as worker:
        await bench.until_called()
        bench.stop.set()
        await asyncio.sleep(0)
        new = await bench.accept("hello")
        worker.wake()
        bench.pay.answer.set()
    head = await bench.store.head(run.id)
    assert (head.status, head.claims) == ("queued", 0)
    assert await bench.store.phases(run.id) == {"call_1": "settled"}
    assert (await bench.store.head(new.id)).fence == 0


async def test_a_call_that_takes_longer_than_the_drain_is_cut_off(bench: Bench) -> None:
    """Its ledger says that it had started; whoever takes the run next judges that."""
    run = await bench.accept("pay(amount=7)", tools=["pay"])
    async with bench.working(drain=timedelta(seconds=0.1)):
        await bench.until_called()
    assert (await bench.store.head(run.id)).status == "in_progress"
    assert await bench.store.phases(run.id) == {"call_1": "started"}
    assert bench.pay.cut_off == 1


async def test_a_worker_whose_task_has_ended_is_not_alive_while_its_calls_go_on(
    bench: Bench,
) -> None:
    worker = bench.worker()
    bench.services.queue.worker = worker
    await bench.accept("pay()", tools=["pay"])
    task = asyncio.create_task(
        run_worker(worker, bench.stop, LEASE, VERSION, build_slot_starter(bench.services).start)
    )
    await bench.until_called()
    assert (await check_liveness(bench.services.queue)).status == "ok"
    await bench.store.sql("ALTER TABLE approvals RENAME TO gone")  # the next sweep fails

    async def failed() -> bool:
        return worker.has_failed()

    await until(failed)
    with pytest.raises(UnavailableError):
        await check_liveness(bench.services.queue)
    bench.pay.answer.set()
    with pytest.raises(ProgrammingError):
        await task


async def test_a_run_whose_secrets_cannot_be_decrypted_is_handed_back(store: Store) -> None:
    """Again and again it is no crash: a worker with the key completes the run."""
    later = "SELECT available_at > clock_timestamp() + :delay FROM runs WHERE id = :id"
    async with bench_on(store, secret_key="another key" * 3) as bench:
        run = await bench.accept("pay(amount=7)", tools=["pay"])
        async with bench.working() as worker:
            for claims in range(1, MAX_CLAIMS + 2):
                await store.until("SELECT fence FROM runs WHERE id = :id", claims, id=run.id)
                delay = UNREADABLE_DELAY * claims - SLACK  # ever longer
                await store.until(later, True, id=run.id, delay=delay)
                await store.sql("UPDATE runs SET available_at = now() WHERE id = :id", id=run.id)
                worker.wake()
            await store.until("SELECT fence FROM runs WHERE id = :id", MAX_CLAIMS + 2, id=run.id)
            await store.until("SELECT status FROM runs WHERE id = :id", "queued", id=run.id)
            await store.sql(
                "UPDATE runs SET available_at = now(), fence = 1000 WHERE id = :id", id=run.id
            )
            worker.wake()
            await store.until("SELECT fence FROM runs WHERE id = :id", 1001, id=run.id)
            longest = LONGEST_UNREADABLE_DELAY
            await store.until(later, True, id=run.id, delay=longest - SLACK)
            await store.until(later, False, id=run.id, delay=longest)
    assert (await store.head(run.id)).claims == 0
    await store.sql("DELETE FROM data_keys")  # the first one was of another key
    async with bench_on(store) as bench:
        bench.pay.answer.set()
        await store.sql("UPDATE runs SET available_at = now() WHERE id = :id", id=run.id)
        async with bench.working():
            await bench.until_status(run, "completed")


async def test_a_run_that_is_just_being_claimed_is_handed_back_too(store: Store) -> None:
    """The claim is at work in PostgreSQL while the worker is told to stop."""
    name = make_url(store.url).database
    run = await store.leased()
    await store.committed(step(run, ending=Ending(Move.RELEASE, keep_claim=True, delay=DAY)))
    async with store.autocommit.connect() as due:
        await store.sql(f'ALTER DATABASE "{name}" SET search_path = {STOPPED_CLOCK}')
        async with bench_on(store) as bench, store.stopped_clock() as go_on:
            await due.execute(text("UPDATE runs SET available_at = now()"))
            async with bench.working():  # it has not claimed before, so its claim sees the run
                await store.until(CLAIMING, 1)
                bench.stop.set()
                await asyncio.sleep(0)
                await go_on()
    head = await store.head(run.id)
    assert (head.status, head.fence, head.claims) == ("queued", 2, 0)


async def test_a_claim_whose_answer_is_lost_is_given_back(store: Store) -> None:
    """PostgreSQL commits it after its worker was cut off. It would have been the third one."""
    name, proxy = make_url(store.url).database, Proxy(store.url)
    run = await store.leased()
    await store.committed(step(run, ending=Ending(Move.RELEASE, delay=DAY)))
    async with store.autocommit.connect() as other, proxy.open() as url:
        await store.sql(f'ALTER DATABASE "{name}" SET search_path = {STOPPED_CLOCK}')
        async with bench_on(store, url=url) as bench, store.stopped_clock() as go_on:
            claims = MAX_CLAIMS - 1
            await other.execute(text(f"UPDATE runs SET available_at = now(), claims = {claims}"))
            async with bench.working():
                await store.until(CLAIMING, 1)
                proxy.cut()
                await go_on()
                await bench.until_status(run, "completed")
    assert (await store.log(run.id))[:4] == [
        "run.created",
        "run.started",
        "run.resumed",
        "run.resumed",
    ]


async def test_a_claim_whose_answer_is_lost_while_its_worker_ends_is_given_back(
    store: Store,
) -> None:
    name, proxy = make_url(store.url).database, Proxy(store.url)
    run = await store.leased()
    await store.committed(step(run, ending=Ending(Move.RELEASE, keep_claim=True, delay=DAY)))
    async with store.autocommit.connect() as due, proxy.open() as url:
        await store.sql(f'ALTER DATABASE "{name}" SET search_path = {STOPPED_CLOCK}')
        async with bench_on(store, url=url) as bench, store.stopped_clock() as go_on:
            await due.execute(text("UPDATE runs SET available_at = now()"))
            async with bench.working():
                await store.until(CLAIMING, 1)
                bench.stop.set()
                await asyncio.sleep(0)
                proxy.cut()
                await go_on()
    head = await store.head(run.id)
    assert (head.status, head.fence, head.claims) == ("queued", 2, 0)


async def test_a_run_that_is_just_being_accepted_is_handed_back_too(bench: Bench) -> None:
    async with bench.working() as worker:
        assert worker.reserve_place()
        bench.stop.set()
        await asyncio.sleep(0)
        run = await bench.accept("pay(amount=7)", tools=["pay"], lease=True)
        assert not worker.reserve_place()
        worker.start_accepted(run, CommittedEvents(run.id, 0, datetime.now(UTC), []))
    head = await bench.store.head(run.id)
    assert (head.status, head.claims) == ("queued", 0)


async def test_a_place_that_is_given_up_holds_up_nobody(bench: Bench) -> None:
    async with bench.working() as worker:
        assert worker.reserve_place()
        bench.stop.set()
        await asyncio.sleep(0)
        worker.release_place()


async def test_a_worker_has_no_more_places_than_it_was_given(bench: Bench) -> None:
    worker = bench.worker()
    assert [worker.reserve_place() for _ in range(9)] == [True] * 8 + [False]


async def test_an_accepted_run_takes_no_place_before_the_runs_in_the_queue(bench: Bench) -> None:
    async with bench.working() as worker:
        reserved = 0
        while worker.reserve_place():
            reserved += 1
        for _ in range(reserved):
            worker.release_place()
        assert not worker.reserve_place()  # the run of the last request waits in the queue

        async def is_queue_empty() -> bool:
            return worker.reserve_place()

        await until(is_queue_empty)
        worker.release_place()


async def test_a_run_that_was_lost_and_claimed_again_here_is_dropped_by_its_first_claim(
    bench: Bench,
) -> None:
    """Its call is cut off, and not made again: it may have taken effect."""
    run = await bench.accept("pay(amount=7)", tools=["pay"])
    async with bench.working():
        await bench.until_called()
        await bench.store.sql(
            "UPDATE runs SET lease_expires_at = clock_timestamp() - '1 s'::interval"
        )
        await bench.until_status(run, "completed")
        await bench.store.sql("SELECT 1")

        async def dropped() -> bool:
            return bench.pay.cut_off == 1

        await until(dropped)
    log = await bench.store.log(run.id)
    assert "tool_call.outcome_unknown" in log
    assert log.count("tool_call.started") == 1
    assert len(bench.pay.calls) == 1


# A worker that is too slow to keep what it has.


async def test_a_worker_that_loses_a_lease_reports_it_and_the_run_goes_on(bench: Bench) -> None:
    """Somebody else has the run by then. Its claim by this worker, which lives, does not count."""
    bench.lease = SECOND
    run = await bench.accept("pay(amount=7)", tools=["pay"])
    async with bench.working():
        await bench.until_called()
        await bench.store.sql("UPDATE runs SET fence = fence + 1, claims = 2")
        await bench.store.until("SELECT claims FROM runs", 1)
        bench.pay.answer.set()
    head = await bench.store.head(run.id)
    assert (head.claims, head.lost_leases) == (1, 1)


async def test_leases_are_renewed_through_pgbouncer_too(store: Store) -> None:
    """It refuses clients that set what it does not know, as the pool does for a server."""
    proxy = Proxy(store.url)
    async with proxy.open() as url:
        proxy.refuse_parameter("jit")
        async with bench_on(store, url=url, pgbouncer=True, lease_seconds=1) as bench:
            bench.lease = SECOND
            run = await bench.accept("pay(amount=7)", tools=["pay"])
            async with bench.working():
                await bench.until_called()
                first = (await store.head(run.id)).lease_expires_at
                await store.until(
                    "SELECT lease_expires_at > :first AND fence = 1 FROM runs", first=first
                )
                bench.pay.answer.set()
