"""What a run that goes on takes over, in one transaction."""

from runward.domain.events.run_data import IncompleteDetails
from runward.domain.run.items import Message
from runward.domain.run.state import CallOutcome, Result, SegmentKind
from runward.domain.run.status import Move
from runward.store.runs import continuation
from runward.store.runs.gate import Ending
from runward.store.runs.queue import ACCEPT, NewRun, accept_values
from tests.db.store import LEASE, PROJECT, Store, pay, step

PAID = Result(CallOutcome.COMPLETED, {"paid": True})
MESSAGE = (Message("user", "Go on."),)


async def goes_on(store: Store, run: NewRun) -> None:
    async with store.pool.begin() as tx:
        await tx.execute(ACCEPT, accept_values([run], LEASE))
        await continuation.copy_history(tx, run)


async def successor(store: Store, *, shared: str = "{}") -> NewRun:
    """Of a run with one call, whose state is `shared` and which a limit has stopped."""
    state = await store.started(pay("c1"))
    await store.sql(f"UPDATE runs SET shared = '{shared}' WHERE id = '{state.id}'")
    state = await store.conclude(await store.load(state.id), PAID)
    details: IncompleteDetails = {"reason": "max_turns", "message": "enough"}
    ending = Ending(Move.STOP, incomplete_details=details)
    await store.committed(step(state, "run.incomplete", seen=None, ending=ending))
    async with store.pool.connect() as tx:
        found = await continuation.prepare(tx, PROJECT, state.id, turns=None, messages=MESSAGE)
    return found.run


async def test_state_items_and_calls_are_taken_over_in_order(store: Store) -> None:
    run = await successor(store, shared='{"a": 1}')
    await goes_on(store, run)
    assert run.continued_from is not None
    old, new = await store.load(run.continued_from), await store.load(run.id)
    assert new.shared_state == {"a": 1}
    assert new.segments[: len(old.segments)] == old.segments
    assert [one.kind for one in new.segments[len(old.segments) :]] == [SegmentKind.INPUT]
    assert list(new.calls) == list(old.calls)
    assert all(one.result == old.calls[id_].result for id_, one in new.calls.items())
    assert (new.turn, new.last_seq, new.usage.total) == (old.turn, 1, 0)


async def test_what_is_not_committed_together_is_not_there_at_all(store: Store) -> None:
    run = await successor(store)
    async with store.pool.connect() as tx:
        transaction = await tx.begin()
        await tx.execute(ACCEPT, accept_values([run], LEASE))
        await continuation.copy_history(tx, run)
        await transaction.rollback()
    [[count]] = await store.sql(f"SELECT count(*) FROM run_items WHERE run_id = '{run.id}'")
    assert count == 0


async def test_a_worker_that_claims_it_has_the_whole_of_it(store: Store) -> None:
    run = await successor(store)
    await goes_on(store, run)
    [claimed] = [one for one in await store.claim() if one.id == run.id]
    assert len(claimed.segments) > 1
    assert len(claimed.calls) == 1
