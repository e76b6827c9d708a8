"""The gate: what a worker may write of a run, and what a flush does with many of them."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runward.domain.events.kinds import RunCompletedEvent
from runward.domain.events.values import CallReason, RunErrorCode
from runward.domain.ids import CallId
from runward.domain.run.open_calls import close_open_calls
from runward.domain.run.state import Call, CallPhase, Changes, RunState
from runward.domain.run.status import Move
from runward.store.postgres.db import mint, sqlstate
from runward.store.runs import sweep, writers
from runward.store.runs.gate import (
    Committed,
    Ending,
    GroupCommit,
    Step,
    StepOutcome,
    VersionChanged,
)
from tests.db.store import Store, pay, step, taken

SHORT = timedelta(seconds=0.3)


async def reclaimed(store: Store, state: RunState) -> RunState:
    """Its lease ran out, and somebody else has the run now."""
    await store.sql(
        "UPDATE runs SET lease_expires_at = clock_timestamp() - interval '1 ms' WHERE id = :id",
        id=state.id,
    )
    async with store.pool.begin() as tx:
        assert await sweep.free_expired_leases(tx) == [state.id]
    [again] = await store.claim()
    return again


async def expired(store: Store, state: RunState) -> None:
    await store.until(
        "SELECT lease_expires_at < clock_timestamp() FROM runs WHERE id = :id", id=state.id
    )


def always(number: int) -> Callable[[int], int]:
    """A source of random numbers that draws only this one."""

    def draw(_: int) -> int:
        return number

    return draw


def call(id_: str, **fields: Any) -> Call:
    values: dict[str, Any] = {"tool": "pay", "arguments": {}, "phase": CallPhase.READY, **fields}
    return Call(CallId(id_), mint(), turn=1, position=0, version=1, digest="d", **values)


def inserting(*calls: Call) -> Changes:
    return Changes(inserted={one.id: one for one in calls})


# Who may write.


@pytest.mark.parametrize("seen", [None, 0])
async def test_a_stale_fence_writes_nothing(store: Store, seen: int | None) -> None:
    old = await store.leased()
    new = await reclaimed(store, old)
    before = await store.head(old.id)

    assert await store.write(step(old, "zombie", seen=seen)) == ["lost"]
    ending = Ending(Move.COMPLETE, output="zombie")
    assert await store.write(step(old, "run.completed", seen=seen, ending=ending)) == ["lost"]

    assert await store.head(old.id) == before
    await store.committed(step(new, "mine"))
    assert await store.log(old.id) == ["run.created", "run.started", "run.resumed", "mine"]


async def test_a_stale_worker_is_not_told_that_the_write_of_another_was_its_own(
    store: Store,
) -> None:
    """Each of the two processes writes its first step."""
    old = await store.leased()
    new = await reclaimed(store, old)
    await store.write(step(new, "theirs"), writer=store.new_writer())
    assert await store.write(step(old, "zombie"), writer=store.new_writer()) == ["lost"]
    assert "zombie" not in await store.log(old.id)


@pytest.mark.parametrize("seen", [None, 0])
async def test_a_write_id_of_another_claim_proves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, seen: int | None
) -> None:
    """If two processes draw the same number, the fence tells their writes apart."""
    monkeypatch.setattr(writers, "randbits", always(1))
    old = await store.leased()
    new = await reclaimed(store, old)
    await store.write(step(new, "theirs"), writer=store.new_writer())
    assert await store.write(step(old, "zombie", seen=seen), writer=store.new_writer()) == ["lost"]


async def test_a_claim_forgets_what_the_claim_before_wrote(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new process may count from a lower number than the process that held the run before."""
    monkeypatch.setattr(writers, "randbits", always(1000))
    first = store.new_writer()
    monkeypatch.setattr(writers, "randbits", always(1))
    second = store.new_writer()
    old = await store.leased()
    await store.write(step(old, "first"), writer=first)
    new = await reclaimed(store, old)
    [written] = await store.write(step(new, "second"), writer=second)
    assert isinstance(written, Committed) and written.last_seq == 5


async def test_a_lease_that_has_expired_writes_nothing_though_nobody_took_the_run(
    store: Store,
) -> None:
    state = await store.leased(lease=timedelta(0))
    before = await store.head(state.id)

    assert await store.write(step(state, "late")) == ["lost"]
    assert await store.write(step(state, "late", seen=0)) == ["lost"]
    assert await store.head(state.id) == before


async def test_a_lease_that_expires_during_a_lock_wait_writes_nothing(store: Store) -> None:
    """Whoever holds the row changes nothing of it: PostgreSQL then checks nothing again."""
    state = await store.leased(lease=SHORT)
    async with store.locked(state.id):
        writing = asyncio.create_task(store.write(step(state, "late")))
        await store.until_blocked()
        await expired(store, state)
    assert await writing == ["lost"]
    assert await store.log(state.id) == ["run.created", "run.started"]


async def test_a_run_that_is_deleted_during_a_lock_wait_leaves_no_records(store: Store) -> None:
    """No foreign key would refuse them."""
    state = await store.leased()
    async with store.locked(state.id) as tx:
        writing = asyncio.create_task(store.write(step(state, "late")))
        await store.until_blocked()
        await tx.execute(text("DELETE FROM runs"))
    assert await writing == ["lost"]
    assert await store.value("SELECT count(*) FROM run_events") == 0


async def test_a_lease_that_was_renewed_during_a_lock_wait_is_alive(store: Store) -> None:
    """The row that the statement saw first had expired; the one that counts has not."""
    state = await store.leased(lease=SHORT)
    async with store.locked(state.id) as tx:
        writing = asyncio.create_task(store.write(step(state, "in time")))
        await store.until_blocked()
        await expired(store, state)
        await tx.execute(text("UPDATE runs SET lease_expires_at = clock_timestamp() + '30 s'"))
    assert isinstance((await writing)[0], Committed)
    assert await store.log(state.id) == ["run.created", "run.started", "in time"]


async def test_a_step_renews_the_lease(store: Store) -> None:
    state = await store.leased()
    before = (await store.head(state.id)).lease_expires_at
    await store.committed(step(state, "alive"))
    assert (await store.head(state.id)).lease_expires_at > before


async def test_a_run_that_has_ended_takes_no_more_steps(store: Store) -> None:
    state = await store.leased()
    ending = Ending(Move.COMPLETE, output="done")
    await store.committed(step(state, "run.completed", seen=0, ending=ending))
    assert await store.write(step(state, "more")) == ["lost"]
    assert (await store.log(state.id))[-1] == "run.completed"


# What it was decided on.


async def test_a_step_decided_on_an_older_version_writes_nothing(store: Store) -> None:
    state = await store.leased()
    async with store.pool.begin() as tx:
        await store.bump(tx, state.id, "api")
    before = await store.head(state.id)

    changes = inserting(call("c1"))
    assert await store.write(step(state, "tool_call.started", seen=0, changes=changes)) == [
        VersionChanged(1)
    ]
    parked = step(state, "run.waiting", seen=0, ending=Ending(Move.PARK))
    assert await store.write(parked) == [VersionChanged(1)]

    assert await store.head(state.id) == before
    assert await store.phases(state.id) == {}
    assert await store.log(state.id) == ["run.created", "run.started", "api"]


async def test_what_has_happened_is_recorded_though_the_version_moved(store: Store) -> None:
    state = await store.leased()
    async with store.pool.begin() as tx:
        await store.bump(tx, state.id, "api")
    written = await store.committed(step(state, "tool_call.completed", "usage.updated"))
    assert (written.last_seq, written.version) == (5, 1)
    assert (await store.log(state.id))[2:] == ["api", "tool_call.completed", "usage.updated"]


async def test_a_change_made_during_a_lock_wait_counts(store: Store) -> None:
    starting, recording = await store.leased(), await store.leased()
    async with store.pool.begin() as tx:
        for state in (starting, recording):
            await store.bump(tx, state.id, "api")
        steps = step(starting, "tool_call.started", seen=0), step(recording, "result")
        writing = asyncio.create_task(store.write(*steps))
        await store.until_blocked(2)
    moved, recorded = await writing
    assert moved == VersionChanged(1)
    assert isinstance(recorded, Committed)
    assert (recorded.last_seq, recorded.version) == (4, 1)
    assert (await store.log(starting.id))[2:] == ["api"]
    assert (await store.log(recording.id))[2:] == ["api", "result"]


async def test_under_concurrent_changes_every_decision_holds_on_the_row_as_it_is(
    store: Store,
) -> None:
    """Others change six runs while their worker, with the version that it saw last, starts calls.
    Replayed from the log: each start stands exactly where the version was the one it names."""
    states = [await store.leased() for _ in range(6)]
    rounds, changers = 6, 3

    async def change(state: RunState) -> None:
        for _ in range(rounds):
            async with store.pool.begin() as tx:
                await store.bump(tx, state.id, "api")

    async def work(state: RunState, commit_one: GroupCommit[Step, StepOutcome]) -> tuple[int, int]:
        version = started = recorded = 0
        while version < rounds * changers:
            written = await commit_one(step(state, f"start {version}", seen=version))
            assert written != "lost"
            version = written.version
            started += isinstance(written, Committed)
            await commit_one(step(state, "result"))
            recorded += 1
        return started, recorded

    async with GroupCommit(store.writer.write) as commit_one, asyncio.TaskGroup() as group:
        working = [group.create_task(work(state, commit_one)) for state in states]
        for state in states:
            for _ in range(changers):
                group.create_task(change(state))
    for state, task in zip(states, working, strict=True):
        log = await store.log(state.id)
        assert versions_in(log) == (await store.head(state.id)).version == rounds * changers
        assert (sum(t.startswith("start") for t in log), log.count("result")) == task.result()


def versions_in(log: list[str]) -> int:
    """How often it was changed; every start stands at the version that it names."""
    version = 0
    for type_ in log:
        version += type_ == "api"
        assert not type_.startswith("start") or type_ == f"start {version}"
    return version


# Many in one flush.


async def test_events_are_numbered_without_gaps_under_many_writers(store: Store) -> None:
    states = [await store.leased() for _ in range(10)]

    async def work(state: RunState, commit_one: GroupCommit[Step, StepOutcome]) -> None:
        for number in range(10):
            await commit_one(step(state, *["step"] * (number % 4)))

    async def change(state: RunState) -> None:
        for _ in range(3):
            async with store.pool.begin() as tx:
                await store.bump(tx, state.id, "api", "api")

    async with (
        GroupCommit(store.writer.write) as one,
        GroupCommit(store.new_writer().write) as other,
        asyncio.TaskGroup() as group,
    ):
        for n, state in enumerate(states):
            group.create_task(work(state, (one, other)[n % 2]))
            group.create_task(change(state))
    for state in states:
        log = await store.log(state.id)
        assert (log.count("step"), log.count("api")) == (13, 6)


async def test_a_run_that_somebody_locks_falls_out_of_its_batch_alone(store: Store) -> None:
    held, free = await store.leased(), await store.leased()
    async with store.locked(held.id):
        results = await store.writer.write([step(held, "held"), step(free, "free")])
        waiting, done = results
        assert isinstance(done, Committed)
        assert isinstance(waiting, asyncio.Task)
        await store.until_blocked()
        # The writer goes on meanwhile.
        await store.committed(step(free, "more"))
        assert not waiting.done()
    assert isinstance(await waiting, Committed)
    assert (await store.log(held.id))[2:] == ["held"]
    assert (await store.log(free.id))[2:] == ["free", "more"]


async def test_a_long_lock_does_not_disturb_the_others_connection(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "_SET_LOCK_TIMEOUT", text("SET LOCAL lock_timeout = '10 ms'"))
    held, free = await store.leased(), await store.leased()
    await store.committed(step(free, "first"))
    [connection] = store.own_backends
    async with store.locked(held.id):
        [waiting] = await store.writer.write([step(held, "held")])
        assert isinstance(waiting, asyncio.Task)
        for _ in range(40):
            await store.committed(step(free, "more"))
            assert not waiting.done()
    assert isinstance(await waiting, Committed)
    assert store.own_backends == {connection}
    assert (await store.log(held.id))[2:] == ["held"]


def what(result: object) -> str:
    """The class of its SQLSTATE, or of the thing itself."""
    return sqlstate(result)[:2] if isinstance(result, DBAPIError) else type(result).__name__


def deep() -> Any:
    value: Any = "bottom"
    for _ in range(1000):
        value = [value]
    return value


async def test_a_step_with_bad_data_fails_alone(store: Store) -> None:
    states = [await store.leased() for _ in range(7)]
    await store.committed(step(states[2], changes=inserting(call("c1"))))
    too_deep = Changes()
    too_deep.add(RunCompletedEvent({"output": deep()}))
    incompressible = "".join(uuid4().hex for _ in range(1000))  # more than an index entry holds
    steps = [
        step(states[0], "good"),
        step(states[1], "nul\0"),
        step(states[2], "twice", changes=inserting(call("c1"))),
        step(states[3], "good"),
        step(states[4], "long", changes=inserting(call(incompressible))),
        step(states[5], changes=too_deep),
        step(states[6], "good"),
    ]
    results = await store.writer.write(steps)

    good = "Committed"
    unwritable = "PydanticSerializationError"
    assert [what(one) for one in results] == [good, "22", "23", good, "54", unwritable, good]
    for state, logged in zip(states, (True, False, False, True, False, False, True), strict=True):
        assert (await store.log(state.id))[2:] == (["good"] if logged else [])


@pytest.mark.parametrize("reason", [CallReason.RUN_ENDED, CallReason.RUN_CANCELLED])
async def test_a_run_that_ends_with_the_step_that_asks_leaves_nothing_to_decide(
    store: Store, reason: CallReason
) -> None:
    """The response holds a gated call, and something in it ends the run at once."""
    tool = await store.register(approval="always")
    other = await store.asked(pay("c1"))
    state, changes = taken(await store.leased(tools=["pay"]), tool, pay("c1"), pay("c2"))
    close_open_calls(state, changes, reason)
    ending = Ending(Move.FAIL, error={"code": RunErrorCode.CRASH_LOOP, "message": ""})
    await store.committed(step(state, "run.failed", seen=0, ending=ending, changes=changes))

    rows = await store.sql(
        "SELECT status, decided_at IS NOT NULL AS closed, decided_by FROM approvals"
        " WHERE run_id = :id",
        id=state.id,
    )
    assert [tuple(row) for row in rows] == [("cancelled", True, None)] * 2
    assert len(await store.pending(other.id)) == 1


async def test_two_claims_of_a_run_in_one_flush_are_kept_apart(store: Store) -> None:
    """A worker that lost a lease may have claimed the run again, while its old steps still wait."""
    old = await store.leased()
    new = await reclaimed(store, old)
    released = step(new, ending=Ending(Move.RELEASE))
    results = await store.write(step(old, "zombie"), released)
    assert results[0] == "lost"
    assert isinstance(results[1], Committed)
    assert "zombie" not in await store.log(old.id)


async def test_a_flush_of_more_runs_than_a_hint_can_name_is_written(store: Store) -> None:
    """The ids of 300 runs are more than the 8,000 bytes of a NOTIFY."""
    await store.accept(300)
    states = await store.claim(300)
    written = await store.write(*[step(state, "step") for state in states])
    assert [one for one in written if not isinstance(one, Committed)] == []


async def test_a_run_is_loaded_as_it_was_written(store: Store) -> None:
    state = await store.leased()
    written = call("c1", arguments={"a": [1, None, "é", {"b": 1.5}]}, raw="{", original={})
    await store.committed(step(state, changes=inserting(written)))
    assert (await store.load(state.id)).calls == {written.id: written}
