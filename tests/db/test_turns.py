"""Several workers on one database: one of them claims the run of a notification."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from runward.domain.run.config import AgentConfig
from runward.serve import build_listener, build_slot_starter
from runward.services import Services
from runward.settings import Settings
from runward.store.postgres.db import mint
from runward.store.runs import queue
from runward.version import VERSION
from runward.wiring import open_services
from runward.worker import main, turns
from runward.worker.main import Worker
from runward.worker.process import run_worker
from runward.worker.turns import Turns
from tests.db.store import LEASE, MODEL, Store, new_run, until

RUNS = 24
LISTENING = (  # to the last channel
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    " AND query LIKE 'LISTEN %follow%'"
)
WORKERS = 4
CLAIM = queue.CLAIM.text.strip().partition(":")[0]


@dataclass
class Process:
    """What runs in a process with a worker and no API."""

    services: Services
    worker: Worker
    statements: list[str] = field(default_factory=list[str])

    @property
    def claims(self) -> int:
        return sum(one.strip().startswith(CLAIM) for one in self.statements)

    def note(self, _c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        self.statements.append(statement)


@asynccontextmanager
async def working(store: Store, *, concurrency: int = 8) -> AsyncGenerator[Process]:
    settings = Settings.model_validate({"secret_key": "k" * 32})
    async with open_services(settings, store.url) as services:
        worker, stop = Worker(services, concurrency=concurrency, lease=LEASE), asyncio.Event()
        process = Process(services, worker)
        event.listen(
            services.storage.database.pool.sync_engine, "before_cursor_execute", process.note
        )
        listener = build_listener(services, worker, with_api=False)
        background = [
            asyncio.create_task(listener.run()),
            asyncio.create_task(services.live.feed.run_relay()),
        ]
        task = asyncio.create_task(
            run_worker(
                worker, stop, timedelta(seconds=5), VERSION, build_slot_starter(services).start
            )
        )
        try:
            yield process
        finally:
            stop.set()
            await task
            for one in background:
                one.cancel()
            await asyncio.gather(*background, return_exceptions=True)


def others(process: Process) -> int:
    """How many other workers this one has heard of."""
    return len(process.worker.turns._others)  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but notifications makes a worker claim."""
    monkeypatch.setattr(main, "POLL_SECONDS", 600.0)
    monkeypatch.setattr(turns, "ANNOUNCE_SECONDS", 600.0)
    monkeypatch.setattr(turns, "VALID_SECONDS", 900.0)


async def complete(store: Store) -> None:
    [run_id] = await store.accept()
    await store.until("SELECT status FROM runs WHERE id = :id", "completed", id=run_id)


async def count_claims(store: Store, workers: int) -> tuple[int, int]:
    """The claims for `RUNS` runs, and how many workers have claimed."""
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(working(store)) for _ in range(workers)]
        await store.until(
            LISTENING,
            workers,
        )
        await complete(store)  # all workers announce themselves, and claim

        async def all_have_heard() -> bool:
            return all(others(one) == workers - 1 for one in processes)

        await until(all_have_heard)
        for one in processes:
            one.statements.clear()
        for _ in range(RUNS):
            await complete(store)
        claims = [one.claims for one in processes]
    return sum(claims), sum(one > 0 for one in claims)


@pytest.mark.usefixtures("unhurried")
async def test_four_workers_send_as_many_claims_as_one(store: Store) -> None:
    """Each worker also claims when it announces itself, which can be after the count has begun. A
    claim that is in flight at that time can serve the first run."""
    for workers in (1, WORKERS):
        claims, active = await count_claims(store, workers)
        assert RUNS - 1 <= claims < RUNS + workers
        assert min(workers, 2) <= active <= workers


@pytest.mark.usefixtures("unhurried")
async def test_a_worker_without_capacity_passes_a_run_on(store: Store) -> None:
    async with working(store) as idle, working(store, concurrency=1) as full:
        await store.until(
            LISTENING,
            2,
        )
        await complete(store)

        async def both_have_heard() -> bool:
            return others(idle) == others(full) == 1

        await until(both_have_heard)

        async def place_is_free() -> bool:
            return full.worker.reserve_place()

        await until(place_is_free)  # the last run may have just ended
        for _ in range(RUNS):  # some of them are selected for the worker without capacity
            await complete(store)
        full.worker.release_place()


@pytest.mark.usefixtures("unhurried")
async def test_a_claim_in_flight_also_serves_the_notifications_of_its_runs(store: Store) -> None:
    async with working(store) as process:
        await store.until(LISTENING, 1)
        await complete(store)  # the worker announces itself, and claims
        worker, [run] = process.worker, [new_run(AgentConfig(model=MODEL), waits=True)]
        await store.acceptor.write([run])
        process.statements.clear()
        async with store.pool.begin() as tx:
            await tx.execute(text("LOCK TABLE runs"))
            worker.wake(run.id)
            await store.until_blocked()
            worker.wake(run.id)
            worker.wake_for(run.id.hex)
            await tx.execute(text("UPDATE runs SET available_at = now() WHERE ended_at IS NULL"))
        await store.until("SELECT status FROM runs WHERE id = :id", "completed", id=run.id)
        assert process.claims == 1
        async with store.pool.begin() as tx:
            await tx.execute(text("LOCK TABLE runs"))
            worker.wake(run.id)
            await store.until_blocked()
            worker.wake_for(mint().hex)  # this run is not claimed

        async def claimed_again() -> bool:
            return process.claims == 3

        await until(claimed_again)


def recorded() -> tuple[Turns, list[tuple[str, str]]]:
    sent: list[tuple[str, str]] = []
    return Turns(lambda channel, payload: sent.append((channel, payload))), sent


async def test_workers_that_know_each_other_select_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_turns = [recorded() for _ in range(WORKERS)]
    for mine, sent in all_turns:
        assert mine.is_selected("first")
        for other, _ in all_turns:
            other.receive(sent[0][1])
    for number in range(100):
        assert sum(mine.is_selected(f"run {number}") for mine, _ in all_turns) == 1
    assert all(mine.is_selected("") for mine, _ in all_turns)
    assert all(len(sent) == 1 for _, sent in all_turns)
    monkeypatch.setattr(turns, "VALID_SECONDS", 0)  # the others have ended
    assert all(mine.is_selected(f"run {number}") for mine, _ in all_turns for number in range(9))


async def test_a_worker_alone_passes_nothing_on() -> None:
    mine, sent = recorded()
    mine.pass_on()
    assert sent == []
    mine.receive("another")
    mine.pass_on()
    assert sent == [("runward_work", "")]
