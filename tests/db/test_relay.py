"""Drafts for readers on other processes: two feeds that know each other by PostgreSQL alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from sqlalchemy.engine import make_url

from runward.domain.ids import RunId
from runward.domain.json import JsonObject
from runward.store.live.carried import CarriedRun
from runward.store.live.drafts import Delta
from runward.store.live.feed import Feed
from runward.store.live.followers import Follower
from runward.store.live.listener import Listener
from runward.store.live.relay import MAX_DELTA_CHARACTERS, Relay
from runward.store.postgres.db import open_database
from tests.db.store import PROJECT, Store, until

TEXT = "message.delta"
REFUSING = """
CREATE FUNCTION refusing.pg_notify(channel text, payload text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF payload LIKE '%refused%' THEN RAISE EXCEPTION 'payload string too long'; END IF;
  PERFORM pg_catalog.pg_notify(channel, payload);
END$$"""


def relaying(store: Store) -> Relay:
    return Relay(store.pool.execution_options(isolation_level="AUTOCOMMIT"))


@asynccontextmanager
async def process(store: Store, relay: Relay | None = None) -> AsyncGenerator[Feed]:
    """As another process has it: its own feed, relay and listener."""
    feed, listening = Feed(relay or relaying(store)), asyncio.Event()
    listener = Listener(
        store.url,
        on_run=lambda _: listening.set(),
        on_tools=lambda _: None,
        on_payload={
            "runward_follow": feed.receive_follow,
            "runward_deltas": feed.receive_deltas,
        },
        own_backends=set(),
    )
    tasks = [asyncio.create_task(listener.run()), asyncio.create_task(feed.run_relay())]
    try:
        async with asyncio.timeout(20):
            await listening.wait()
        yield feed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Reader:
    """What a stream does with what is pushed to it."""

    def __init__(self, feed: Feed, follower: Follower) -> None:
        self.text = ""
        self.types: list[str] = []
        self._feed = feed
        self._follower = follower

    async def has(self, text: str) -> None:
        async def read() -> bool:
            if self._follower.needs_catch_up:
                self._feed.catch_up(self._follower)
            while self._follower.pushed:
                piece = self._follower.pushed.popleft()
                assert isinstance(piece, Delta)
                for new in self._follower.select_unseen(piece):
                    self.types.append(new.type)
                    self.text = "" if new.type == "message.restarted" else self.text + new.text
            return self.text == text

        await until(read)


@pytest.fixture
def run_id() -> RunId:
    return RunId(uuid4())


async def test_a_reader_elsewhere_gets_what_was_said_and_what_follows(
    store: Store, run_id: RunId
) -> None:
    async with process(store) as here, process(store) as there:
        here.carry(CarriedRun(PROJECT, run_id, 0))
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            draft.add(TEXT, "Hello")
            reader = Reader(there, follower)
            await reader.has("Hello")
            draft.add(TEXT, " you")
            draft.add(TEXT, " there")
            await reader.has("Hello you there")
            draft.restart()
            draft.add(TEXT, "Bye")
            await reader.has("Bye")
    assert reader.types.count("message.restarted") == 1


async def test_a_reader_that_was_there_first_gets_all_from_the_start(
    store: Store, run_id: RunId
) -> None:
    relay = relaying(store)
    async with process(store, relay) as here, process(store) as there:
        with there.follow(PROJECT, run_id) as follower:
            reader = Reader(there, follower)
            await reader.has("")

            async def known() -> bool:
                return relay.is_wanted(run_id)

            await until(known)
            with here.open_draft(run_id, turn=1, fence=1, agent=None) as draft:
                draft.add(TEXT, "Hello")
                await reader.has("Hello")


async def test_what_is_longer_than_a_notification_comes_whole(store: Store, run_id: RunId) -> None:
    long = '\x01é𝄞"\\\n' * MAX_DELTA_CHARACTERS
    async with process(store) as here, process(store) as there:
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            draft.add(TEXT, long)
            reader = Reader(there, follower)
            await reader.has(long)
            draft.add(TEXT, long)
            await reader.has(long + long)


@pytest.mark.parametrize("name", ["n" * 9_000, "\x00" * 2_000, "a\ud800"])
async def test_a_piece_that_no_notification_holds_is_skipped_and_the_others_come(
    store: Store, run_id: RunId, name: str
) -> None:
    about: JsonObject = {"tool": name}
    async with process(store) as here, process(store) as there:
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            draft.add("tool_call.arguments.delta", "{", 0, about)
            draft.add(TEXT, "Hello")
            reader = Reader(there, follower)
            await reader.has("Hello")
            draft.add("tool_call.arguments.delta", "}", 0, about)
            draft.add(TEXT, " you")
            await reader.has("Hello you")
    assert set(reader.types) == {TEXT}


async def test_a_database_that_refuses_a_notification_does_not_end_the_relay(
    store: Store, run_id: RunId
) -> None:
    name = make_url(store.url).database
    await store.sql("CREATE SCHEMA refusing")
    await store.sql(REFUSING)
    await store.sql(f'ALTER DATABASE "{name}" SET search_path = refusing, pg_catalog, public')
    database = open_database(store.url, pool_size=2)
    async with process(store, Relay(database.autocommit)) as here, process(store) as there:
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            draft.add(TEXT, "Hello")
            reader = Reader(there, follower)
            await reader.has("Hello")
            draft.add(TEXT, " refused")
            draft.flush()
            draft.restart()
            draft.add(TEXT, "Bye")
            await reader.has("Bye")
    await database.close()


async def test_a_reader_that_missed_something_asks_again(store: Store, run_id: RunId) -> None:
    async with process(store) as here, process(store) as there:
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            draft.add(TEXT, "Hello")
            reader = Reader(there, follower)
            await reader.has("Hello")
            follower.live = False  # as if these were lost on their way
            draft.add(TEXT, " you")
            draft.flush()
            with there.follow(PROJECT, run_id) as other:
                await Reader(there, other).has("Hello you")
            follower.live = True
            draft.add(TEXT, " there")
            await reader.has("Hello you there")


async def test_rubbish_on_the_channels_is_passed_over(store: Store, run_id: RunId) -> None:
    async with process(store) as here, process(store) as there:
        with (
            here.open_draft(run_id, turn=1, fence=1, agent=None) as draft,
            there.follow(PROJECT, run_id) as follower,
        ):
            for rubbish in ("", "x", "x [1]", 'x [["a"]]', "x ?a,b", "x +", "x {}"):
                there.receive_deltas(rubbish)
                here.receive_follow(rubbish)
            draft.add(TEXT, "Hello")
            await Reader(there, follower).has("Hello")
