"""A run that the process which accepts it begins at once, without reading it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

from runward.api.runs.start import accept_immediately
from runward.domain.run.config import AgentConfig, Limits
from runward.domain.run.items import Message
from runward.domain.run.state import RunState, Segment, SegmentKind
from runward.store.live.carried import CommittedEvents
from runward.store.live.events import read_after
from runward.store.runs.queue import AcceptedRun, NewRun
from tests.db.store import MODEL, PROJECT, Store, new_run

ROOM: Final = 1024
"""Bytes that a stored segment has beside its items, at most."""


async def test_a_run_is_adopted_as_it_would_be_loaded(store: Store) -> None:
    tool = await store.register()
    limits = Limits(deadline_seconds=60)
    config = AgentConfig(model=MODEL, tools=(tool.name,), limits=limits)
    new = new_run(config, context={"tier": "gold"})
    said = Segment(SegmentKind.INPUT, 0, None, (Message("user", "x" * 100_000),))
    new.changes.segments[:] = [said]
    adopted: list[RunState] = []
    told: list[CommittedEvents] = []

    def start(state: RunState, events: CommittedEvents) -> None:
        adopted.append(state)
        told.append(events)

    async def accept(new: NewRun) -> AcceptedRun:
        [accepted] = await store.acceptor.write([new])
        assert isinstance(accepted, AcceptedRun)
        return accepted

    services: Any = SimpleNamespace(reserve_place=lambda: True, accept=accept, start_accepted=start)
    await accept_immediately(services, new)
    [state], loaded = adopted, await store.load(new.id)
    assert abs(state.stored_bytes - loaded.stored_bytes) < ROOM
    assert 59 < (loaded.seconds_left or 0) <= (state.seconds_left or 0) <= 60
    unlike = {"stored_bytes": state.stored_bytes, "seconds_left": state.seconds_left}
    assert replace(loaded, **unlike) == state
    async with store.pool.connect() as tx:
        stored = await read_after(tx, PROJECT, new.id, 0, 10)
    assert [event for one in told for event in one.encoded] == stored
