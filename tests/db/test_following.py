"""Readers of a run that another process executes."""

import asyncio
from contextlib import AbstractAsyncContextManager, aclosing

from runward.api.events.follow import RunLog, follow
from runward.domain.ids import RunId
from runward.services import Live, Storage
from runward.store.access.key_checks import KeyChecks
from runward.store.live.feed import Feed
from runward.store.live.relay import Relay
from runward.store.postgres.db import Tx
from tests.db.store import PROJECT, Store, step, until

READERS = 300


class CountingStorage(Storage):
    queries = 0

    def connect(self) -> AbstractAsyncContextManager[Tx]:
        self.queries += 1
        return super().connect()


class Readers:
    """The readers of a run, and the memory addresses of the frames that each has received."""

    def __init__(self, store: Store) -> None:
        self.storage = CountingStorage(store.database, store.vault)
        self.live = Live(Feed(Relay(store.autocommit)), KeyChecks(self.storage.connect), READERS)
        self.frames: list[dict[int, bytes]] = []

    async def read(self, run_id: RunId) -> None:
        frames: dict[int, bytes] = {}
        self.frames.append(frames)
        log = RunLog(PROJECT, run_id)
        async with aclosing(follow(self.storage, self.live, log)) as batches:
            async for batch in batches:
                frames.update({one.event.sequence: one.event.frame for one in batch.entries})

    async def have(self, count: int) -> None:
        async def everything() -> bool:
            return [len(one) for one in self.frames] == [count] * READERS

        await until(everything)


async def test_readers_that_are_woken_together_share_one_query(store: Store) -> None:
    readers, state = Readers(store), await store.leased()
    async with asyncio.TaskGroup() as group:
        for _ in range(READERS):
            group.create_task(readers.read(state.id))
        await readers.have(state.last_seq)
        readers.storage.queries = 0
        for count in (1, 2):
            await store.committed(step(state, "run.resumed"))
            readers.live.feed.notify_changed(state.id)
            await readers.have(state.last_seq + count)
            assert readers.storage.queries == count
        readers.live.stopping.set()
        readers.live.feed.notify_changed(None)
    new = {id(frame) for one in readers.frames for at, frame in one.items() if at > state.last_seq}
    assert len(new) == 2
