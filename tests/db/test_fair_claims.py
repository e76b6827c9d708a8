"""Fair claims: projects take turns, and the runs of a project are claimed by priority and age."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from runward.domain.ids import KeyId, ProjectId, RunId
from runward.domain.limits import KeyLimits, ProjectLimits, name_concurrency_group
from runward.domain.run.state import RunState
from runward.domain.run.status import Move
from runward.store.access import keys
from runward.store.access.limits import put_limits
from runward.store.postgres.db import mint
from runward.store.runs import queue
from runward.store.runs.fair_claims import CANDIDATES_OF_PROJECT
from runward.store.runs.gate import Ending
from tests.db.store import LEASE, PROJECT, STOPPED_CLOCK, Store, step
from tests.db.test_plans import count_rows_read

FLOOD = """
INSERT INTO runs (project_id, id, status, config, available_at, last_seq, concurrency_groups)
SELECT :project_id, gen_random_uuid(), 'queued', '{"model": "offline:rules"}',
  clock_timestamp() - interval '1 h' + n * interval '1 ms', 1, CAST(:groups AS text[])
FROM generate_series(1, CAST(:count AS int)) n"""
RUN = """
INSERT INTO runs (project_id, id, status, config, priority, available_at, agent, active_agent,
  created_by, concurrency_groups, last_seq)
VALUES (:project_id, :id, 'queued', '{"model": "offline:rules"}', :priority,
  coalesce(CAST(:available_at AS timestamptz), clock_timestamp()), CAST(:agent AS text),
  CAST(:agent AS text), CAST(:key_id AS uuid), CAST(:groups AS text[]), 1)"""

TIMES = ("now() - interval '1 h'", "now() - interval '2 h'")


class Worker:
    """The claims of one worker."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.last_turn = queue.NO_TURN

    async def claim(self, count: int = 1) -> list[RunState]:
        async with self.store.autocommit.connect() as tx:
            claimed = await queue.claim(tx, count, LEASE, after=self.last_turn)
        self.last_turn = claimed.find_last_turn(self.last_turn)
        return claimed.states

    async def claim_projects(self, count: int = 1) -> list[ProjectId]:
        return sorted(state.project_id for state in await self.claim(count))


@pytest.fixture
async def worker(store: Store) -> AsyncGenerator[Worker]:
    yield Worker(store)


async def add_project(store: Store, runs: int = 0) -> ProjectId:
    project_id = ProjectId(mint())
    await store.sql("INSERT INTO projects (id, name) VALUES (:id, 'p')", id=project_id)
    await store.sql(FLOOD, project_id=project_id, count=runs, groups=None)
    return project_id


async def add_run(
    store: Store,
    project_id: UUID = PROJECT,
    *,
    priority: int = 0,
    available_at: str | None = None,
    agent: str | None = None,
    key_id: UUID | None = None,
    groups: Sequence[str] | None = None,
) -> RunId:
    id_ = RunId(mint())
    values = {
        "id": id_,
        "project_id": project_id,
        "priority": priority,
        "agent": agent,
        "key_id": key_id,
        "groups": groups and list(groups),
    }
    at = None if available_at is None else await store.value(f"SELECT {available_at}")
    await store.sql(RUN, **values, available_at=at)
    return id_


@pytest.mark.parametrize("flood", [800, 10_000])
@pytest.mark.parametrize("count", [1, 2, 50])
async def test_a_flood_does_not_delay_the_run_of_another_project(
    store: Store, worker: Worker, flood: int, count: int
) -> None:
    await add_project(store, flood)
    assert len(await worker.claim(count)) == count
    other = await add_project(store)
    late = await add_run(store, other)
    claimed = await worker.claim(count)
    assert len(claimed) == count
    assert late in {state.id for state in claimed}


async def test_a_claim_takes_one_run_of_each_project_before_a_second_one(
    store: Store, worker: Worker
) -> None:
    few = await add_project(store, 2)
    one = await add_project(store, 1)
    many = await add_project(store, 20)
    claimed = await worker.claim_projects(8)
    assert claimed == sorted([few] * 2 + [one] + [many] * 5)


async def test_claims_of_single_runs_visit_all_projects(store: Store, worker: Worker) -> None:
    projects = [await add_project(store, 10) for _ in range(5)]
    first = [await worker.claim_projects() for _ in range(5)]
    second = [await worker.claim_projects() for _ in range(5)]
    assert sorted(first) == sorted([project] for project in projects)
    assert second == first


async def test_a_claim_of_few_runs_continues_where_the_last_one_ended(
    store: Store, worker: Worker
) -> None:
    projects = [await add_project(store, 10) for _ in range(5)]
    claimed = [*await worker.claim_projects(3), *await worker.claim_projects(3)]
    assert set(claimed) == set(projects)


async def test_projects_without_claimable_runs_lose_only_their_turn(
    store: Store, worker: Worker
) -> None:
    for _ in range(5):
        project = await add_project(store)
        await add_run(store, project, available_at="now() + interval '1 h'")
        await add_run(store, project, available_at="'infinity'::timestamptz")
    due = await add_run(store, await add_project(store))
    assert [state.id for state in await worker.claim(2)] == [due]


async def test_concurrent_claims_share_the_queues_of_several_projects(store: Store) -> None:
    for _ in range(3):
        await add_project(store, 60)
    workers = [Worker(store) for _ in range(9)]
    claimed = await asyncio.gather(*(worker.claim(20) for worker in workers))
    while more := await workers[0].claim(20):
        claimed.append(more)
    ids = [state.id for batch in claimed for state in batch]
    assert len(ids) == len(set(ids)) == 180


async def test_a_locked_run_does_not_reduce_the_claim(store: Store, worker: Worker) -> None:
    locked, *others = await store.accept(3)
    async with store.locked(locked):
        assert [state.id for state in await worker.claim(2)] == others


async def test_a_higher_priority_is_claimed_first_and_then_the_older_run(
    store: Store, worker: Worker
) -> None:
    old = await add_run(store, available_at="now() - interval '1 h'")
    new = await add_run(store)
    low = await add_run(store, priority=-100, available_at="now() - interval '1 day'")
    high = await add_run(store, priority=100)
    later = await add_run(store, priority=50, available_at="now() + interval '1 h'")
    claimed = [(await worker.claim())[0].id for _ in range(4)]
    assert claimed == [high, old, new, low]
    assert await worker.claim() == []
    assert (await store.head(later)).status == "queued"


async def test_a_priority_does_not_affect_other_projects(store: Store, worker: Worker) -> None:
    urgent, other = await add_project(store), await add_project(store)
    for _ in range(3):
        await add_run(store, urgent, priority=100)
    await add_run(store, other, priority=-100)
    assert await worker.claim_projects(2) == sorted([urgent, other])


# Limits.


async def limit(store: Store, running_runs: int | None = None, **agents: int) -> None:
    async with store.autocommit.connect() as tx:
        await put_limits(tx, PROJECT, ProjectLimits(running_runs, agents=agents))


async def count_running(store: Store) -> int:
    return await store.value("SELECT count(*) FROM runs WHERE status = 'in_progress'")


async def end(store: Store, state: RunState, move: Move = Move.COMPLETE) -> None:
    await store.committed(step(state, "run.completed", seen=state.version, ending=Ending(move)))


async def test_a_project_at_its_limit_is_skipped_and_others_are_claimed(
    store: Store, worker: Worker
) -> None:
    await limit(store, 2)
    await store.accept(5)
    other = await add_project(store, 3)
    assert await worker.claim_projects(10) == sorted([PROJECT] * 2 + [other] * 3)
    assert await worker.claim(10) == []


@pytest.mark.parametrize("move", [Move.COMPLETE, Move.PARK])
async def test_a_run_that_ended_or_waits_makes_room(
    store: Store, worker: Worker, move: Move
) -> None:
    await limit(store, 1)
    await store.accept(2)
    [first] = await worker.claim(2)
    await end(store, first, move)
    [second] = await worker.claim(2)
    assert second.id != first.id


async def test_a_lower_or_removed_limit_applies_to_the_next_claim(
    store: Store, worker: Worker
) -> None:
    await store.accept(6)
    assert len(await worker.claim(2)) == 2
    await limit(store, 1)
    assert await worker.claim(2) == []
    await limit(store)
    assert len(await worker.claim(10)) == 4


async def test_concurrent_claims_do_not_exceed_a_limit(store: Store) -> None:
    await limit(store, 7)
    await store.accept(60)
    workers = [Worker(store) for _ in range(12)]
    for _ in range(5):
        await asyncio.gather(*(worker.claim(3) for worker in workers))
        assert await count_running(store) <= 7
    assert await count_running(store) == 7


async def test_a_claim_that_began_before_another_one_ended_does_not_exceed_a_limit(
    store: Store,
) -> None:
    """Its statement has counted the running runs before the other claim was committed."""
    await limit(store, 1)
    await store.accept(2)

    async def claim() -> list[RunState]:
        async with store.pool.begin() as tx:
            await tx.execute(text(f"SET LOCAL search_path = {STOPPED_CLOCK}"))
            return (await queue.claim(tx, 1, LEASE)).states

    async with store.stopped_clock() as go_on:
        late = asyncio.create_task(claim())
        await store.until_blocked()
        assert len(await Worker(store).claim(1)) == 1
        await go_on()
        assert await late == []


async def test_an_agent_at_its_limit_does_not_delay_other_agents(
    store: Store, worker: Worker
) -> None:
    await limit(store, clerk=2, desk=1)
    clerks = [await add_run(store, agent="clerk") for _ in range(4)]
    desk, late_desk = [await add_run(store, agent="desk") for _ in range(2)]
    free = [await add_run(store, agent=name) for name in ("other", None)]
    claimed = await worker.claim(10)
    assert {state.id for state in claimed} == {*clerks[:2], desk, *free}
    await end(store, next(state for state in claimed if state.id == desk))
    assert [state.id for state in await worker.claim(10)] == [late_desk]


async def test_the_limits_of_a_project_and_of_its_agents_apply_together(
    store: Store, worker: Worker
) -> None:
    await limit(store, 2, clerk=1)
    [clerk, *_] = [await add_run(store, agent="clerk") for _ in range(3)]
    other = [await add_run(store, agent="other") for _ in range(3)]
    assert {state.id for state in await worker.claim(10)} == {clerk, other[0]}
    assert await worker.claim(10) == []


async def test_runs_of_agents_with_limits_are_claimed_by_priority_and_age(
    store: Store, worker: Worker
) -> None:
    await limit(store, clerk=5)
    new, old = [await add_run(store, agent="clerk", available_at=at) for at in TIMES]
    high = await add_run(store, agent="clerk", priority=1)
    assert [(await worker.claim())[0].id for _ in range(3)] == [high, old, new]


CUSTOMER = "run.metadata.customer"


async def limit_customers(store: Store, most: int, **limits: Any) -> None:
    async with store.autocommit.connect() as tx:
        chosen = ProjectLimits(concurrency_keys={CUSTOMER: most}, **limits)
        await put_limits(tx, PROJECT, chosen)


async def add_runs_of(store: Store, count: int, *customers: str, **fields: Any) -> list[RunId]:
    groups = [name_concurrency_group(CUSTOMER, customer) for customer in customers]
    return [await add_run(store, groups=groups, **fields) for _ in range(count)]


async def test_runs_with_the_same_value_of_a_key_are_limited_together(
    store: Store, worker: Worker
) -> None:
    await limit_customers(store, 2)
    acme = await add_runs_of(store, 3, "acme")
    other = await add_runs_of(store, 1, "other")
    free = await add_run(store)
    claimed = await worker.claim(10)
    assert {state.id for state in claimed} == {*acme[:2], *other, free}
    await end(store, next(state for state in claimed if state.id == acme[0]))
    assert [state.id for state in await worker.claim(10)] == [acme[2]]


async def test_a_run_that_waits_for_one_group_does_not_use_the_room_of_another(
    store: Store, worker: Worker
) -> None:
    await limit_customers(store, 1, agents={"clerk": 1})
    [first] = await add_runs_of(store, 1, "a", agent="clerk")
    assert [state.id for state in await worker.claim(10)] == [first]
    await add_runs_of(store, 1, "b", agent="clerk")
    [behind] = await add_runs_of(store, 1, "b", agent="desk")
    assert [state.id for state in await worker.claim(10)] == [behind]


async def test_many_runs_with_the_same_value_do_not_hide_later_runs(
    store: Store, worker: Worker
) -> None:
    await limit_customers(store, 1)
    acme = name_concurrency_group(CUSTOMER, "acme")
    await store.sql(FLOOD, project_id=PROJECT, count=CANDIDATES_OF_PROJECT + 2, groups=[acme])
    assert len(await worker.claim(10)) == 1
    others = await add_runs_of(store, 2, "other")
    assert [state.id for state in await worker.claim(10)] == others[:1]
    sql = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {queue.CLAIM.text}")
    async with store.autocommit.connect() as tx:
        values = queue.claim_values(10, LEASE, None, queue.NO_TURN)
        [[explained]] = (await tx.execute(sql, values)).scalars()
    assert count_rows_read(explained["Plan"], "runs") < 2 * CANDIDATES_OF_PROJECT


async def test_a_removed_expression_no_longer_limits_its_runs(store: Store, worker: Worker) -> None:
    await limit_customers(store, 1)
    await add_runs_of(store, 3, "acme")
    assert len(await worker.claim(10)) == 1
    await limit(store, desk=1)
    assert len(await worker.claim(10)) == 2


async def test_a_limit_that_is_no_number_stops_no_claim(store: Store, worker: Worker) -> None:
    await limit(store, desk=1)
    await store.sql("""UPDATE project_limits SET agents = '{"desk": {"max": 1}}'""")
    await add_runs_of(store, 2, "acme", agent="desk")
    assert len(await worker.claim(10)) == 2


async def test_the_runs_of_one_key_are_limited(store: Store, worker: Worker) -> None:
    async with store.autocommit.connect() as tx:
        made = await keys.add_key(
            tx, store.vault, PROJECT, name="k", scopes=("runs:write",), secret=keys.make_secret()
        )
        await put_limits(tx, PROJECT, ProjectLimits(), {KeyId(made.id): KeyLimits(1)})
    first, second = [await add_run(store, key_id=made.id) for _ in range(2)]
    others = [await add_run(store, key_id=UUID(int=7)), await add_run(store)]
    claimed = await worker.claim(10)
    assert {state.id for state in claimed} == {first, *others}
    await end(store, next(state for state in claimed if state.id == first))
    assert [state.id for state in await worker.claim(10)] == [second]


async def test_concurrent_claims_do_not_exceed_the_limit_of_a_value(store: Store) -> None:
    await limit_customers(store, 3)
    for customer in ("a", "b"):
        await add_runs_of(store, 20, customer)
    workers = [Worker(store) for _ in range(8)]
    for _ in range(5):
        await asyncio.gather(*(worker.claim(4) for worker in workers))
    assert await count_running(store) == 6
