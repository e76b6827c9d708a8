"""Group commit: who is answered what, and when. The flushes are held back by hand."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from runward.store.runs.gate import MAX_BATCH, FlushResult, GroupCommit


class Flushes:
    """Answers an entry with itself; an entry that is an error or a task, with that. `go` lets
    the next flush through."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self._begun = asyncio.Semaphore(0)
        self._allowed = asyncio.Semaphore(0)

    async def __call__(self, batch: Sequence[Any]) -> Sequence[FlushResult[Any]]:
        self.batches.append(list(batch))
        self._begun.release()
        await self._allowed.acquire()
        if "everything fails" in batch:
            raise ConnectionError
        return batch

    async def begun(self) -> None:
        """Until one more flush is in flight."""
        await self._begun.acquire()

    def go(self, flushes: int = 1) -> None:
        for _ in range(flushes):
            self._allowed.release()


async def arrive(commit: GroupCommit[Any, Any], *entries: Any) -> list[asyncio.Task[Any]]:
    """All of them wait when this returns."""
    tasks = [asyncio.create_task(commit(entry)) for entry in entries]
    await asyncio.sleep(0)
    return tasks


async def held_back(
    commit: GroupCommit[Any, Any], flushes: Flushes, *entries: Any
) -> list[asyncio.Task[Any]]:
    """`entries` have arrived while a flush was in flight."""
    await arrive(commit, "first")
    await flushes.begun()
    return await arrive(commit, *entries)


async def test_an_idle_process_commits_at_once() -> None:
    flushes = Flushes()
    flushes.go(2)
    async with GroupCommit(flushes) as commit:
        assert await commit("a") == "a"
        assert await commit("b") == "b"
    assert flushes.batches == [["a"], ["b"]]


async def test_what_arrives_during_a_flush_is_the_next_one_in_order() -> None:
    flushes = Flushes()
    async with GroupCommit(flushes) as commit:
        tasks = await held_back(commit, flushes, *range(10))
        assert flushes.batches == [["first"]]
        flushes.go()
        await flushes.begun()
        late = await arrive(commit, "late")
        flushes.go(2)
        assert await asyncio.gather(*tasks, *late) == [*range(10), "late"]
    assert flushes.batches == [["first"], list(range(10)), ["late"]]


async def test_nobody_is_answered_before_his_flush_is_done() -> None:
    flushes = Flushes()
    async with GroupCommit(flushes) as commit:
        [task] = await arrive(commit, "a")
        await flushes.begun()
        await asyncio.sleep(0)
        assert not task.done()
        flushes.go()
        assert await task == "a"


async def test_a_flush_takes_no_more_than_it_may() -> None:
    flushes = Flushes()
    async with GroupCommit(flushes) as commit:
        tasks = await held_back(commit, flushes, *range(2 * MAX_BATCH + 1))
        flushes.go(4)
        assert await asyncio.gather(*tasks) == list(range(2 * MAX_BATCH + 1))
    assert [len(batch) for batch in flushes.batches] == [1, MAX_BATCH, MAX_BATCH, 1]


async def test_an_entry_s_error_is_its_own() -> None:
    flushes = Flushes()
    async with GroupCommit(flushes) as commit:
        tasks = await held_back(commit, flushes, "a", ValueError("b"), "c")
        flushes.go(2)
        good, bad, other = await asyncio.gather(*tasks, return_exceptions=True)
    assert (good, other) == ("a", "c")
    assert isinstance(bad, ValueError)


async def test_a_flush_that_fails_fails_for_all_in_it_and_the_next_goes_on() -> None:
    flushes = Flushes()
    flushes.go(3)
    async with GroupCommit(flushes) as commit:
        tasks = await arrive(commit, "everything fails", "b")
        for task in tasks:
            with pytest.raises(ConnectionError):
                await task
        assert await commit("c") == "c"


async def test_an_entry_on_its_way_alone_holds_up_nobody() -> None:
    flushes = Flushes()
    flushes.go(3)
    arrived = asyncio.Event()

    async def alone() -> str:
        await arrived.wait()
        return "at last"

    async with GroupCommit(flushes) as commit:
        slow, fast = await arrive(commit, asyncio.create_task(alone()), "fast")
        assert await fast == "fast"
        assert await commit("next") == "next"
        assert not slow.done()
        arrived.set()
        assert await slow == "at last"


async def test_an_entry_that_fails_alone_fails_for_its_caller() -> None:
    flushes = Flushes()
    flushes.go()

    async def alone() -> str:
        raise ValueError

    async with GroupCommit(flushes) as commit:
        with pytest.raises(ValueError):
            await commit(asyncio.create_task(alone()))


async def test_a_caller_that_went_away_disturbs_nobody() -> None:
    """Its entry is written all the same: nobody knows how far it was."""
    flushes = Flushes()
    async with GroupCommit(flushes) as commit:
        gone, task = await held_back(commit, flushes, "gone", "b")
        gone.cancel()
        flushes.go(2)
        assert await task == "b"
    assert gone.cancelled()
    assert flushes.batches == [["first"], ["gone", "b"]]


async def test_the_end_leaves_nobody_waiting() -> None:
    flushes = Flushes()
    flushes.go()
    never = asyncio.create_task(asyncio.Event().wait())
    async with GroupCommit(flushes) as commit:
        [alone] = await arrive(commit, never)
        await flushes.begun()
        [in_flight] = await arrive(commit, "in flight")
        await flushes.begun()
        [waiting] = await arrive(commit, "waiting")
    await asyncio.wait([alone, in_flight, waiting], timeout=5)
    assert [task.cancelled() for task in (alone, in_flight, waiting, never)] == [True] * 4
    assert flushes.batches == [[never], ["in flight"]]


async def test_after_the_end_nothing_is_taken_in() -> None:
    async with GroupCommit(Flushes()) as commit:
        pass
    with pytest.raises(AssertionError):
        await commit("late")
