"""Hints: what NOTIFY carries from process to process, and what is left of it when it is lost."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from operator import ge
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from runward.domain.events.kinds import RunStartedEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import Move
from runward.store.live.carried import MAX_EVENTS, CarriedRun, CommittedEvents
from runward.store.live.drafts import Delta
from runward.store.live.events import StoredEvent
from runward.store.live.feed import Feed
from runward.store.live.followers import MAX_PUSHED, Follower
from runward.store.live.listener import Listener
from runward.store.live.relay import Relay
from runward.store.runs.gate import Ending
from tests.db.proxy import Break, Proxy
from tests.db.store import PROJECT, Store, backend, step, until
from tests.db.test_worker import bench_on
from tests.environments.servers import pgbouncer

_LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
LISTENING = f"SELECT count(*) {_LISTENERS}"
END_LISTENING = f"SELECT pg_terminate_backend(pid) {_LISTENERS}"


class Heard:
    """What a listener has passed on since it was last asked."""

    def __init__(self) -> None:
        self.runs: list[UUID | None] = []
        self.tools: list[UUID | None] = []
        self.steps: list[UUID | None] = []
        self.work = 0

    @asynccontextmanager
    async def through(
        self, url: str, own: set[int], *, keepalive: float = 15.0
    ) -> AsyncGenerator[None]:
        """Somebody listens, and has been woken once."""
        listener = Listener(
            url,
            on_run=self.runs.append,
            on_step=self.steps.append,
            on_work=self._work,
            on_tools=self.tools.append,
            own_backends=own,
            keepalive=keepalive,
        )
        task = asyncio.create_task(listener.run())
        try:
            await self.everything()
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def everything(self) -> None:
        """What follows a connect: anything may have happened."""
        await self.hear(runs=1, tools=1, work=1)
        assert (self.runs, self.tools) == ([None], [None])
        self.forget()

    async def hear(self, *, runs: int = 0, steps: int = 0, tools: int = 0, work: int = 0) -> None:
        async def enough() -> bool:
            heard = (len(self.runs), len(self.steps), len(self.tools), self.work)
            return all(map(ge, heard, (runs, steps, tools, work)))

        await until(enough)

    async def forget_all_before(self, store: Store) -> None:
        """What was committed until now may still be on its way: notifications keep their order,
        so a last one of our own says that the others have come."""
        mark = uuid4()
        await notify(store, "runward_tools", mark.hex)

        async def marked() -> bool:
            return mark in self.tools

        await until(marked)
        self.forget()

    def forget(self) -> None:
        self.runs.clear()
        self.steps.clear()
        self.tools.clear()
        self.work = 0

    def _work(self, _: str) -> None:
        self.work += 1


@pytest.fixture
async def heard(store: Store) -> AsyncIterator[Heard]:
    """Of another process than the store's."""
    heard = Heard()
    async with heard.through(store.url, set()):
        yield heard


async def notify(store: Store, channel: str, payload: str) -> None:
    await store.sql("SELECT pg_notify(:channel, :payload)", channel=channel, payload=payload)


# What is said.


async def test_a_flush_names_its_runs_to_the_other_processes(store: Store, heard: Heard) -> None:
    states = [await store.leased() for _ in range(3)]
    await heard.forget_all_before(store)
    await store.write(*[step(state, "x") for state in states])
    await heard.hear(steps=3)
    assert set(heard.steps) == {state.id for state in states}
    assert heard.runs == []
    assert heard.work == 0


async def test_more_runs_than_a_hint_holds_are_any_run(store: Store, heard: Heard) -> None:
    await store.accept(300)
    states = await store.claim(300)
    await heard.forget_all_before(store)
    await store.write(*[step(state, "x") for state in states])
    await heard.hear(steps=1)
    assert heard.steps == [None]


async def test_workers_hear_of_work(store: Store, heard: Heard) -> None:
    state = await store.leased()
    await heard.hear(work=1)  # accepted, to be claimed
    await heard.forget_all_before(store)
    await store.committed(step(state, ending=Ending(Move.RELEASE)))
    await heard.hear(work=1, steps=1)


async def test_what_is_rolled_back_is_not_heard(store: Store, heard: Heard) -> None:
    state = await store.leased()
    await heard.forget_all_before(store)
    async with store.pool.connect() as tx:
        await store.bump(tx, state.id, "api")
        await tx.rollback()
    await notify(store, "runward_work", "")
    await heard.hear(work=1)
    assert heard.runs == []


async def test_what_nobody_understands_may_mean_anything(store: Store, heard: Heard) -> None:
    project, run = uuid4(), uuid4()
    for payload in ("", "*", "not an id", f"{run.hex},not an id", run.hex):
        await notify(store, "runward_runs", payload)
    for payload in ("", "not an id", project.hex):
        await notify(store, "runward_tools", payload)
    await heard.hear(runs=5, tools=3)
    assert heard.runs == [None, None, None, None, run]
    assert heard.tools == [None, None, project]


async def test_a_process_is_not_told_what_it_did_itself(store: Store) -> None:
    """Its loop knows; whatever the same process does on other connections, it is told."""
    states = [await store.leased() for _ in range(2)]
    heard = Heard()
    async with heard.through(store.url, store.own_backends):
        await store.committed(step(states[0], "mine"))
        async with store.pool.begin() as tx:
            assert await backend(tx) not in store.own_backends
            await store.bump(tx, states[1].id, "api")
        await heard.hear(runs=1)
    assert heard.runs == [states[1].id]


async def test_behind_pgbouncer_the_sender_of_a_notification_tells_no_process(store: Store) -> None:
    """Its connections to PostgreSQL are shared by all processes."""
    heard, run_id = Heard(), uuid4()
    with pgbouncer(store.url, connections=2) as url:
        async with bench_on(store, url=url, pgbouncer=True) as bench:
            bench.pay.answer.set()
            run = await bench.accept("pay(amount=7)", tools=["pay"])
            async with bench.working():
                await bench.until_status(run, "completed")
            async with heard.through(store.url, bench.services.own_backends):
                pool = bench.services.storage.database.pool
                async with pool.begin() as one, pool.begin() as two:
                    assert await backend(one) != await backend(two)
                    for tx in (one, two):
                        await tx.execute(text(f"SELECT pg_notify('runward_runs', '{run_id}')"))
                await heard.hear(runs=2)
    assert heard.runs == [run_id, run_id]


# What is lost.


async def test_a_lost_connection_is_replaced_and_everybody_woken(
    store: Store, heard: Heard
) -> None:
    for _ in range(2):
        await store.sql(END_LISTENING)
        await heard.everything()
        run = uuid4()
        await notify(store, "runward_runs", run.hex)
        await heard.hear(runs=1)
        assert heard.runs == [run]
        heard.forget()


async def test_a_server_that_is_starting_up_is_asked_again(store: Store) -> None:
    proxy = Proxy(store.url)
    proxy.refuse(1)
    heard = Heard()
    async with proxy.open() as url, heard.through(url, set()):
        assert await store.value(LISTENING) == 1


async def test_a_connection_whose_end_is_hidden_is_replaced(store: Store) -> None:
    """The driver then raises an internal error of its own at the next sign of life."""
    proxy, heard = Proxy(store.url), Heard()
    proxy.hide_ends = True
    async with proxy.open() as url, heard.through(url, set(), keepalive=0.05):
        await store.sql(END_LISTENING)
        await heard.everything()
        run = uuid4()
        await notify(store, "runward_runs", run.hex)
        await heard.hear(runs=1)
        assert heard.runs == [run]


@pytest.mark.parametrize("statement", ["LISTEN", "SELECT 1"])
async def test_a_connection_that_swallows_a_statement_is_replaced(
    store: Store, statement: str
) -> None:
    """Whether it is about to listen, or is asked for a sign of life."""
    proxy, heard = Proxy(store.url), Heard()
    proxy.break_at(statement, Break.SWALLOWED)
    async with proxy.open() as url, heard.through(f"{url}&connect_timeout=1", set(), keepalive=0.3):
        if statement == "SELECT 1":
            await heard.everything()
        assert proxy.broken == 1


async def test_the_connection_ends_with_the_listener(store: Store) -> None:
    async with Heard().through(store.url, set()):
        assert await store.value(LISTENING) == 1
    await store.until(LISTENING, 0)


# Who waits for it, in this process.


AT = datetime(2026, 1, 1, tzinfo=UTC)
NOW = 0.0


def feeding() -> Feed:
    """Of a process that knows of no other."""
    return Feed(Relay(create_async_engine("postgresql+asyncpg://localhost:1/none")))


def publish(feed: Feed, run_id: RunId, *sequences: int) -> None:
    for sequence in sequences:
        feed.publish(run_id, CommittedEvents(run_id, sequence, AT, [RunStartedEvent({})]))


def pushed(follower: Follower) -> list[int]:
    return [one.sequence for one in follower.pushed if isinstance(one, StoredEvent)]


async def test_a_reader_is_given_what_goes_by_in_this_process() -> None:
    feed, run, other = feeding(), RunId(uuid4()), RunId(uuid4())
    with feed.follow(PROJECT, run) as follower:
        publish(feed, other, 1)
        assert not await follower.wait(NOW)
        publish(feed, run, 3, 4)
        feed.catch_up(follower)
        with feed.open_draft(run, turn=1, fence=1, agent=None) as draft:
            draft.add("message.delta", "Hello")
        assert await follower.wait(NOW)
        assert not await follower.wait(NOW)
    assert pushed(follower) == [3, 4]
    assert [one.text for one in follower.pushed if isinstance(one, Delta)] == ["Hello"]


async def test_only_who_asks_for_what_is_being_said_is_told() -> None:
    feed, run = feeding(), RunId(uuid4())
    with (
        feed.follow(PROJECT, run) as poll,
        feed.open_draft(run, turn=1, fence=1, agent=None) as draft,
    ):
        draft.add("message.delta", "Hello")
        draft.flush()
        assert not await poll.wait(NOW)


async def test_a_thousand_readers_share_the_bytes_of_each_event_and_piece() -> None:
    feed, run = feeding(), RunId(uuid4())
    with ExitStack() as stack:
        feed.carry(CarriedRun(PROJECT, run, 0))
        readers = [stack.enter_context(feed.follow(PROJECT, run)) for _ in range(1000)]
        for reader in readers:
            feed.catch_up(reader)
        publish(feed, run, 1, 2)
        draft = stack.enter_context(feed.open_draft(run, turn=1, fence=1, agent=None))
        draft.add("message.delta", "Hello")
        late = feed.read_carried(PROJECT, run, 0)
    assert late is not None and [one.sequence for one in late] == [1, 2]
    frames = [[one.frame for one in reader.pushed] for reader in readers]
    assert {len(each) for each in frames} == {3}
    assert len({id(frame) for each in frames for frame in each}) == 3
    assert [id(one.frame) for one in late] == [id(frame) for frame in frames[0][:2]]


async def test_a_slow_reader_is_left_with_a_gap_that_sends_it_to_the_database() -> None:
    feed, run = feeding(), RunId(uuid4())
    with feed.follow(PROJECT, run) as slow, feed.follow(PROJECT, run) as fast:
        publish(feed, run, *range(1, MAX_PUSHED + 1))
        assert pushed(slow) == list(range(1, MAX_PUSHED + 1))
        fast.pushed.clear()
        publish(feed, run, MAX_PUSHED + 1)
        assert pushed(slow) == pushed(fast) == [MAX_PUSHED + 1]


async def test_a_reader_catches_up_at_once_with_more_than_is_kept_for_a_slow_one() -> None:
    feed, run = feeding(), RunId(uuid4())
    with (
        feed.follow(PROJECT, run) as late,
        feed.open_draft(run, turn=1, fence=1, agent=None) as draft,
    ):
        for index in range(MAX_PUSHED + 2):
            draft.add("tool_call.arguments.delta", "{", index)
        feed.catch_up(late)
        assert not late.needs_catch_up
        news = [
            new for one in late.pushed if isinstance(one, Delta) for new in late.select_unseen(one)
        ]
    assert sorted(new.key[1] for new in news) == list(range(MAX_PUSHED + 2))


async def test_the_poll_wakes_those_who_lack_events_and_nobody_else() -> None:
    feed, run, missing = feeding(), RunId(uuid4()), RunId(uuid4())
    with feed.follow(PROJECT, run) as behind, feed.follow(PROJECT, run) as abreast:
        behind.seen, abreast.seen = 4, 5
        feed.wake_outdated({run: 5, missing: 9})
        assert await behind.wait(NOW)
        assert not await abreast.wait(NOW)


async def test_the_poll_wakes_a_reader_of_a_family_only_for_events_that_it_lacks() -> None:
    feed, run, child = feeding(), RunId(uuid4()), RunId(uuid4())
    with feed.follow_family(PROJECT, run) as family:
        family.add_runs({run: 5, child: 2})
        feed.wake_outdated({run: 5, child: 2})
        assert not await family.wait(NOW)
        feed.wake_outdated({run: 5, child: 3})
        assert await family.wait(NOW)


async def test_a_hint_wakes_the_run_s_readers_and_one_without_a_name_all() -> None:
    feed, one, other = feeding(), RunId(uuid4()), RunId(uuid4())
    with feed.follow(PROJECT, one) as first, feed.follow(PROJECT, other) as second:
        feed.notify_changed(one)
        assert (await first.wait(NOW), await second.wait(NOW)) == (True, False)
        feed.notify_changed(None)
        assert (await first.wait(NOW), await second.wait(NOW)) == (True, True)


async def test_a_reader_who_has_left_is_forgotten() -> None:
    feed, run = feeding(), RunId(uuid4())
    with feed.follow(PROJECT, run):
        with feed.follow(PROJECT, run) as left:
            assert feed.followed_runs == [(PROJECT, run)]
        assert feed.followed_runs == [(PROJECT, run)]
        publish(feed, run, 1)
        assert pushed(left) == []
    assert feed.followed_runs == []


# The events of the runs that this process executes.


def remembered(feed: Feed, run_id: RunId, seen: int, project: ProjectId = PROJECT) -> list[int]:
    found = feed.read_carried(project, run_id, seen)
    return [-1] if found is None else [one.sequence for one in found]


DATABASE = [-1]


def carrying(*sequences: int, begin: int = 0) -> tuple[Feed, RunId]:
    feed, run = feeding(), RunId(uuid4())
    feed.carry(CarriedRun(PROJECT, run, begin))
    publish(feed, run, *sequences)
    return feed, run


def test_a_reader_gets_the_events_of_a_run_that_this_process_executes_from_memory() -> None:
    feed, run = carrying(1, 2, 3)
    assert remembered(feed, run, 0) == [1, 2, 3]
    assert remembered(feed, run, 2) == [3]
    assert remembered(feed, run, 9) == []


def test_another_project_does_not() -> None:
    feed, run = carrying(1)
    assert remembered(feed, run, 0, ProjectId(uuid4())) == DATABASE


def test_events_from_before_the_claim_are_in_the_database() -> None:
    feed, run = carrying(5, 6, begin=4)
    assert remembered(feed, run, 4) == [5, 6]
    assert remembered(feed, run, 3) == DATABASE


def test_only_the_last_events_are_kept() -> None:
    feed, run = carrying(*range(1, MAX_EVENTS + 3))
    assert remembered(feed, run, 1) == DATABASE
    assert len(remembered(feed, run, 2)) == MAX_EVENTS


def test_a_gap_sends_readers_to_the_database() -> None:
    feed, run = carrying(1, 3)
    assert remembered(feed, run, 0) == remembered(feed, run, 3) == DATABASE


@pytest.mark.parametrize("named", [True, False])
def test_an_event_of_another_process_sends_readers_to_the_database(*, named: bool) -> None:
    feed, run = carrying(1, 2)
    feed.notify_changed(run if named else None)
    publish(feed, run, 3)
    assert remembered(feed, run, 0) == remembered(feed, run, 3) == DATABASE


def test_so_does_a_poll_that_finds_more_events() -> None:
    feed, run = carrying(1, 2)
    feed.wake_outdated({run: 2})
    assert remembered(feed, run, 1) == [2]
    feed.wake_outdated({run: 3})
    assert remembered(feed, run, 1) == DATABASE


def test_a_run_that_is_no_longer_executed_is_in_the_database() -> None:
    feed, run = feeding(), RunId(uuid4())
    first, second = (CarriedRun(PROJECT, run, begin) for begin in (0, 1))
    feed.carry(first)
    feed.carry(second)
    feed.release(first)
    assert remembered(feed, run, 1) == []
    feed.release(second)
    assert remembered(feed, run, 1) == DATABASE
