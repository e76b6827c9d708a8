"""Everybody locks rows in the same order, so that no two transactions wait for each other."""

import asyncio
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from runward.domain.ids import CallId, RunId
from runward.domain.run.config import AgentConfig
from runward.domain.run.family import Lineage
from runward.store.access import idempotency
from runward.store.runs import queries, transitions
from runward.store.runs.gate import GroupCommit
from runward.store.runs.queue import ACCEPT, AcceptedRun, NewRun, accept_values
from tests.db.store import LEASE, MODEL, PROJECT, Store, new_run

KEY = text(
    "INSERT INTO idempotency_keys (project_id, key, route, body_digest, expires_at)"
    " VALUES (:project_id, :key, 'r', 'd', now() + interval '1 h')"
)
CONFIG = AgentConfig.model_validate({"model": MODEL}, strict=False)


async def with_a_child_of_a_lower_id(store: Store) -> tuple[RunId, RunId]:
    """The clock of the process that started the child run was behind."""
    parent = new_run(CONFIG)
    lineage = Lineage(parent.id, CallId("c1"), (parent.id,), ())
    child = new_run(CONFIG, lineage=lineage, id=RunId(UUID(int=parent.id.int - (1 << 90))))
    for result in await store.acceptor.write([parent, child]):
        assert isinstance(result, AcceptedRun)
    return parent.id, child.id


async def test_a_tree_is_locked_in_the_order_in_which_its_runs_lock_each_other(
    store: Store,
) -> None:
    """Somebody has locked the child run, and is about to lock its parent, while it is cancelled."""
    parent, child = await with_a_child_of_a_lower_id(store)

    async def cancel() -> None:
        async with store.pool.begin() as tx:
            await transitions.cancel(tx, PROJECT, parent, after_turn=False)

    async with store.pool.begin() as tx:
        await tx.execute(text("SELECT 1 FROM runs WHERE id = :id FOR UPDATE"), {"id": child})
        cancelling = asyncio.create_task(cancel())
        await store.until_blocked()
        await queries.lock_runs(tx, PROJECT, child)
    await cancelling
    assert {(await store.head(run)).status for run in (parent, child)} == {"cancelled"}


async def test_a_child_run_that_starts_meanwhile_is_cancelled_too(store: Store) -> None:
    parent, child = await with_a_child_of_a_lower_id(store)
    lineage = Lineage(child, CallId("c1"), (parent, child), ())
    new = new_run(CONFIG, lineage=lineage)

    async def cancel() -> None:
        async with store.pool.begin() as tx:
            await transitions.cancel(tx, PROJECT, parent, after_turn=False)

    async with store.locked(child) as tx:
        cancelling = asyncio.create_task(cancel())
        await store.until_blocked()
        await tx.execute(ACCEPT, accept_values([new], LEASE))
    await cancelling
    found = {(await store.head(run)).status for run in (parent, child, new.id)}
    assert found == {"cancelled"}


def keyed(key: str | None) -> NewRun:
    return new_run(CONFIG, idempotency=None if key is None else (key, "r", "d"))


async def test_keys_are_taken_in_their_order_whatever_that_of_the_requests(store: Store) -> None:

    async def accept() -> None:
        async with store.pool.begin() as tx:
            values = accept_values([keyed("b"), keyed("a"), keyed(None)], LEASE)
            await tx.execute(ACCEPT, values)

    async with store.pool.begin() as tx:
        await tx.execute(KEY, {"project_id": PROJECT, "key": "a"})
        writing = asyncio.create_task(accept())
        await store.until_blocked()
        await tx.execute(KEY, {"project_id": PROJECT, "key": "b"})  # the batch does not have it
    with pytest.raises(IntegrityError):
        await writing


async def test_a_deadlock_costs_no_run_of_the_batch(store: Store) -> None:
    """Somebody takes the keys in another order; PostgreSQL undoes the whole batch."""
    batch = [keyed("a"), keyed("b"), keyed(None)]
    writing: asyncio.Future[list[Any]] | None = None
    async with GroupCommit(store.acceptor.write) as accept:
        with suppress(IntegrityError):  # the batch may have "a" before this transaction has it
            async with store.pool.begin() as tx:
                await tx.execute(text("SET LOCAL deadlock_timeout = '60 s'"))  # the batch is first
                await tx.execute(KEY, {"project_id": PROJECT, "key": "b"})
                writing = asyncio.gather(*map(accept, batch), return_exceptions=True)
                await store.until_blocked()
                await tx.execute(KEY, {"project_id": PROJECT, "key": "a"})
        assert writing is not None
        first, second, third = await writing
    assert isinstance(first, IntegrityError | AcceptedRun)
    assert isinstance(second, IntegrityError | AcceptedRun)
    assert isinstance(third, AcceptedRun)


async def test_a_key_that_another_transaction_holds_delays_no_other_run(store: Store) -> None:
    keyed = new_run(CONFIG, idempotency=("held", "r", "d"))
    async with GroupCommit(store.acceptor.write) as accept:
        async with store.pool.begin() as tx:
            assert await idempotency.reserve(tx, PROJECT, "held", "r", "d")
            held = asyncio.create_task(accept(keyed))
            await store.until_blocked()
            async with asyncio.timeout(10):
                assert isinstance(await accept(new_run(CONFIG)), AcceptedRun)
        [error] = await asyncio.gather(held, return_exceptions=True)
        assert isinstance(error, IntegrityError)
