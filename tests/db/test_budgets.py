"""Budgets in the database: reservations, charges, and runs that wait."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Row

from runward.domain.ids import Prefix, format_id
from runward.domain.run.budget_approvals import ApprovedBudgets, list_approved_budgets
from runward.domain.run.budgets import BudgetWait, Estimate
from runward.domain.run.response import ModelResponse, Usage
from runward.domain.run.state import RunState
from runward.llm.prices import Price, Prices
from runward.loop.execution import Execution
from runward.store import budgets
from runward.store.budgets import Reserved, StoredBudget
from runward.store.runs.gate import Step
from tests.db.execution import Loop, loop_on
from tests.db.store import PROJECT, Store
from tests.db.test_outside import APPROVE, cancel, decide, reaper

PRICE = Price(input=0, output=100)  # 4,096 tokens of output are estimated at 0.4096 US dollars
ESTIMATE = 0.4096
KEY = UUID(int=7)


@pytest.fixture
async def loop(store: Store) -> AsyncIterator[Loop]:
    async with loop_on(store) as loop:
        prices = Prices({"offline:rules": PRICE})
        loop.engine = replace(loop.engine, models=replace(loop.engine.models, prices=prices))
        yield loop


async def add(store: Store, limit_usd: float, **fields: Any) -> StoredBudget:
    async with store.pool.begin() as tx:
        return await budgets.add_budget(
            tx, PROJECT, {"period": "day", "limit_usd": limit_usd} | fields
        )


async def get(store: Store, budget: StoredBudget) -> StoredBudget:
    async with store.pool.connect() as tx:
        found = await budgets.get_budget(tx, PROJECT, budget.id)
    assert found is not None
    return found


async def sums(store: Store, budget: StoredBudget) -> tuple[float, float]:
    found = await get(store, budget)
    return found.spent, found.reserved


async def reserve(
    store: Store,
    state: RunState,
    estimate: float | None = 1.0,
    agent: str | None = None,
    approved: ApprovedBudgets = frozenset(),
) -> Reserved:
    async with store.pool.begin() as tx:
        return await budgets.reserve(
            tx,
            PROJECT,
            state.id,
            state.fence,
            agent=agent,
            key_id=KEY,
            estimate=Estimate(estimate, 100),
            approved=approved,
        )


async def answer(tokens: int) -> ModelResponse:
    return ModelResponse.of("done", usage=Usage(output=tokens))


async def wait_forever() -> ModelResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def waits(store: Store) -> list[Row[Any]]:
    return list(await store.sql("SELECT * FROM budget_waits"))


async def is_available(store: Store, state: RunState) -> bool:
    head = await store.head(state.id)
    return head.status == "queued" and head.available_at <= await store.value(
        "SELECT clock_timestamp()"
    )


async def test_a_step_charges_the_cost_of_the_response_instead_of_its_reservation(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 1.0)
    seen: list[tuple[float, float]] = []

    async def respond() -> ModelResponse:
        seen.append(await sums(store, budget))
        return await answer(1_000)

    loop.model.answers.append(respond)
    state = await loop.leased("go")
    assert await loop.execute(state) == "completed"
    assert seen == [(0.0, pytest.approx(ESTIMATE))]
    assert await sums(store, budget) == (pytest.approx(0.1), 0.0)


async def test_a_response_without_usage_costs_as_much_as_its_reservation(
    loop: Loop, store: Store
) -> None:
    cost, tokens = await add(store, 1.0), await add(store, 10_000, unit="tokens")

    async def respond() -> ModelResponse:
        return ModelResponse.of("done")

    loop.model.answers.append(respond)
    assert await loop.execute(await loop.leased("go")) == "completed"
    assert await sums(store, cost) == (pytest.approx(ESTIMATE), 0)
    spent, reserved = await sums(store, tokens)
    assert (spent > 4_096, reserved) == (True, 0)


async def test_fifty_parallel_runs_do_not_reserve_more_than_the_limit(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 4.2)
    in_flight = 0
    is_full = asyncio.Event()
    go_on = asyncio.Event()

    async def respond() -> ModelResponse:
        nonlocal in_flight
        in_flight += 1
        if in_flight == 10:
            is_full.set()
        await go_on.wait()
        return await answer(4_096)

    loop.model.answers += [respond] * 50
    await store.accept(50)
    states = await store.claim(50)
    assert len(states) == 50
    executions = [Execution(loop.engine, state) for state in states]
    async with asyncio.TaskGroup() as group:
        for execution in executions:
            group.create_task(execution.run())
        await is_full.wait()
        await store.until("SELECT count(*) FROM budget_waits", 40)
        assert await sums(store, budget) == (0.0, pytest.approx(10 * ESTIMATE))
        go_on.set()
    assert await sums(store, budget) == (pytest.approx(10 * ESTIMATE), 0.0)
    assert len(loop.model.requests) == 10


async def test_a_run_waits_with_an_event_and_continues_after_the_limit_is_raised(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 0.1)
    state = await loop.leased("go")
    assert await loop.execute(state) == "queued"
    assert loop.model.requests == []
    assert (await store.log(state.id))[-1] == "budget.exceeded"
    head = await store.head(state.id)
    assert head.available_at - budget.period_end < timedelta(seconds=60)
    assert head.claims == 0
    await reaper(store).sweep()
    assert not await is_available(store, state)
    async with store.pool.begin() as tx:
        await budgets.update_budget(tx, PROJECT, budget.id, {"limit_usd": 1.0})
    await reaper(store).sweep()
    assert await is_available(store, state)
    assert await waits(store) == []
    [claimed] = await store.claim(1)
    assert await loop.execute(claimed) == "completed"


async def test_an_approval_to_exceed_a_budget_applies_until_its_period_ends(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 0.1, on_limit="ask")
    state = await loop.leased("go")
    assert await loop.execute(state) == "requires_action"
    [asked] = await store.sql("SELECT id FROM approvals WHERE status = 'pending'")
    await decide(store, asked.id, APPROVE)
    [claimed] = await store.claim(1)
    approved = list_approved_budgets(claimed)
    [(budget_id, ends_at)] = approved
    assert budget_id == format_id(Prefix.BUDGET, budget.id)
    assert datetime.fromisoformat(ends_at) == budget.period_end
    assert await reserve(store, claimed, approved=approved) == "reserved"
    await store.sql("UPDATE budgets SET period = 'month'")
    other = await store.leased()
    assert isinstance(await reserve(store, other, approved=approved), BudgetWait)


async def test_a_run_ends_if_the_approval_to_exceed_its_budget_expires(
    loop: Loop, store: Store
) -> None:
    await add(store, 0.1, on_limit="ask")
    state = await loop.leased("go")
    assert await loop.execute(state) == "requires_action"
    await store.sql("UPDATE approvals SET expires_at = clock_timestamp()")
    await reaper(store).sweep()
    [claimed] = await store.claim(1)
    assert await loop.execute(claimed) == "incomplete"
    assert (await store.head(state.id)).incomplete_details["reason"] == "budget"
    assert loop.model.requests == []


async def test_a_person_is_asked_only_if_all_other_budgets_have_room(store: Store) -> None:
    await add(store, 0.1, on_limit="ask")
    hard = await add(store, 0.1)
    state = await store.leased()
    wait = await reserve(store, state)
    assert isinstance(wait, BudgetWait)
    assert (wait.budget_id, wait.asks) == (hard.id, False)


async def test_a_run_that_is_changed_before_it_waits_decides_again(
    loop: Loop, store: Store
) -> None:
    await add(store, 0.1)
    state = await loop.leased("go")

    async def change(step: Step) -> None:
        if isinstance(step.changes.budget, BudgetWait):
            loop.before_commit = None
            await loop.change(state)

    loop.before_commit = change
    assert await loop.execute(state) == "queued"
    assert (await store.log(state.id)).count("budget.exceeded") == 1
    assert [isinstance(step.changes.budget, BudgetWait) for step in loop.steps].count(True) == 2
    assert len(await waits(store)) == 1


async def test_runs_that_wait_continue_after_the_budget_is_deleted(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 0.1)
    state = await loop.leased("go")
    await loop.execute(state)
    async with store.pool.begin() as tx:
        assert await budgets.delete_budget(tx, PROJECT, budget.id)
    await reaper(store).sweep()
    assert await is_available(store, state)


async def test_the_sweep_wakes_only_as_many_runs_as_the_budget_has_room_for(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 0.1)
    await store.accept(3)
    states = await store.claim(3)
    for state in states:
        await loop.execute(state)
    assert len(await waits(store)) == 3
    async with store.pool.begin() as tx:
        await budgets.update_budget(tx, PROJECT, budget.id, {"limit_usd": 0.9})
    await reaper(store).sweep()
    assert [await is_available(store, state) for state in states].count(True) == 2


async def test_a_request_that_fits_exactly_is_reserved(store: Store) -> None:
    """In floating-point numbers, 0.2 + 0.1 exceeds 0.3."""
    budget = await add(store, 0.3)
    for spent in (0.1, 0.2, 0.3):
        assert await reserve(store, await store.leased(), 0.1) == "reserved"
        assert (await sums(store, budget))[1] == spent
    assert isinstance(await reserve(store, await store.leased(), 1e-9), BudgetWait)


async def test_a_run_that_continues_in_the_next_period_waits_no_more(
    loop: Loop, store: Store
) -> None:
    await add(store, 0.5)
    await store.sql("UPDATE budgets SET spent_usd = 0.5")
    state = await loop.leased("go")
    assert await loop.execute(state) == "queued"
    await store.sql("UPDATE budgets SET spent_usd = 0")
    await store.sql("UPDATE runs SET available_at = clock_timestamp()")
    [claimed] = await store.claim(1)
    assert len(await waits(store)) == 1
    assert await loop.execute(claimed) == "completed"
    assert await waits(store) == []


async def test_waits_of_runs_that_ended_are_removed(loop: Loop, store: Store) -> None:
    await add(store, 0.1)
    state, other = await loop.leased("go"), await loop.leased("go")
    for one in (state, other):
        assert await loop.execute(one) == "queued"
    await cancel(store, state)
    async with store.pool.begin() as tx:
        await budgets.forget_ended(tx)
    assert [row.run_id for row in await waits(store)] == [other.id]


async def test_the_database_s_clock_begins_the_next_period(loop: Loop, store: Store) -> None:
    budget = await add(store, 0.5)
    state = await store.leased()
    assert await reserve(store, state, 0.2) == "reserved"
    await store.sql("UPDATE budgets SET spent_usd = 0.5")
    assert isinstance(await reserve(store, state, 0.2), BudgetWait)
    await store.sql("UPDATE budgets SET period_start = clock_timestamp() - interval '25 hours'")
    assert await sums(store, budget) == (0.0, pytest.approx(0.2))  # the request is in flight
    other = await store.leased()
    assert await reserve(store, other, 0.2) == "reserved"


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles"])
async def test_a_period_is_a_day_or_a_month_in_utc(store: Store, zone: str) -> None:
    async with store.pool.begin() as tx:
        await tx.exec_driver_sql(f"SET LOCAL TIME ZONE '{zone}'")
        for period in ("day", "month"):
            fields = {"period": period, "limit_usd": 1.0}
            found = await budgets.add_budget(tx, PROJECT, fields)
            start, end = found.period_start, found.period_end
            utc = await tx.exec_driver_sql(
                f"SELECT date_trunc('{period}', clock_timestamp() AT TIME ZONE 'UTC')"
                f" AT TIME ZONE 'UTC', (date_trunc('{period}', clock_timestamp() AT TIME ZONE"
                f" 'UTC') + interval '1 {period}') AT TIME ZONE 'UTC'"
            )
            assert (start, end) == tuple(utc.one())


async def test_the_reservation_of_a_lost_claim_is_released(store: Store) -> None:
    budget = await add(store, 1.0)
    state = await store.leased()
    await reserve(store, state)
    await reaper(store).sweep()
    assert (await sums(store, budget))[1] == 1.0  # the claim still has its lease
    await store.sql("UPDATE runs SET lease_expires_at = clock_timestamp()")
    await reaper(store).sweep()
    await reaper(store).sweep()
    assert await sums(store, budget) == (0.0, 0.0)


async def test_the_estimate_of_a_run_that_was_cancelled_counts(store: Store) -> None:
    """Otherwise, a client could read streamed responses and pay for none."""
    budget = await add(store, 1.0)
    state = await store.leased()
    await reserve(store, state, 0.25)
    await cancel(store, state)
    await reaper(store).sweep()
    assert await sums(store, budget) == (0.25, 0.0)


async def test_the_estimate_of_a_request_that_the_deadline_stops_counts(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 1.0)
    state = await loop.leased("go", limits={"deadline_seconds": 1})
    loop.model.answers.append(wait_forever)
    assert await loop.execute(state) == "incomplete"
    assert await sums(store, budget) == (pytest.approx(ESTIMATE), 0.0)


async def test_a_worker_that_was_lost_neither_charges_nor_keeps_its_reservation(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 1.0)
    state = await loop.leased("go")

    async def respond() -> ModelResponse:
        await loop.steal(state)
        return await answer(1_000)

    loop.model.answers.append(respond)
    await loop.execute(state)
    assert await sums(store, budget) == (0.0, pytest.approx(ESTIMATE))
    await reaper(store).sweep()
    assert await sums(store, budget) == (0.0, 0.0)


async def test_a_request_that_is_given_back_releases_its_reservation(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 1.0)
    state = await loop.leased("go")

    async def respond() -> ModelResponse:
        loop.current.leased.drain()
        return await wait_forever()

    loop.model.answers.append(respond)
    assert await loop.execute(state) == "queued"
    assert await sums(store, budget) == (0.0, 0.0)


async def test_a_reservation_that_is_sent_twice_counts_once(store: Store) -> None:
    budget = await add(store, 5.0)
    state = await store.leased()
    for _ in range(2):
        assert await reserve(store, state) == "reserved"
    assert (await sums(store, budget))[1] == 1.0


async def test_all_budgets_that_apply_have_room_or_none_is_reserved(store: Store) -> None:
    whole, clerk = await add(store, 5.0), await add(store, 0.5, agent="clerk")
    key, other = await add(store, 5.0, key_id=KEY), await add(store, 5.0, key_id=UUID(int=8))
    state = await store.leased()
    wait = await reserve(store, state, agent="clerk")
    assert isinstance(wait, BudgetWait)
    assert wait.budget_id == clerk.id
    assert [(await sums(store, one))[1] for one in (whole, clerk, key, other)] == [0, 0, 0, 0]
    assert await reserve(store, state, agent="writer") == "reserved"
    assert [(await sums(store, one))[1] for one in (whole, clerk, key, other)] == [1, 0, 1, 0]


async def test_a_model_without_a_price_fails_a_run_with_a_budget(loop: Loop, store: Store) -> None:
    models = loop.engine.models
    loop.engine = replace(loop.engine, models=replace(models, prices=Prices()))
    await add(store, 1.0)
    state = await loop.leased("go", model="unknown:model")
    assert await loop.execute(state) == "failed"
    assert (await store.head(state.id)).error["code"] == "unknown_price"
    assert loop.model.requests == []


async def test_a_project_without_budgets_executes_no_statement_of_budgets(
    loop: Loop, store: Store
) -> None:
    state = await loop.leased("go")
    assert await loop.execute(state) == "completed"
    assert all(step.related is None for step in loop.steps)
    assert (await loop.engine.guards.policies.of(PROJECT)).has_budgets is False


async def test_tokens_are_reserved_and_charged_without_a_price(loop: Loop, store: Store) -> None:
    loop.engine = replace(loop.engine, models=replace(loop.engine.models, prices=Prices({})))
    budget = await add(store, 10_000, unit="tokens", period="minute")
    seen: list[tuple[float, float]] = []

    async def respond() -> ModelResponse:
        seen.append(await sums(store, budget))
        return ModelResponse.of("done", usage=Usage(input=30, output=12))

    loop.model.answers.append(respond)
    assert await loop.execute(await loop.leased("go")) == "completed"
    [(spent, reserved)] = seen
    assert spent == 0
    assert 4_096 < reserved < 4_200
    assert await sums(store, budget) == (42, 0)


async def test_one_request_reserves_cost_and_tokens(store: Store) -> None:
    await store.accept(2)
    first, second = await store.claim(2)
    cost = await add(store, 5.0)
    tokens = await add(store, 150, unit="tokens")
    assert await reserve(store, first) == "reserved"
    assert (await sums(store, cost), await sums(store, tokens)) == ((0, 1.0), (0, 100))
    wait = await reserve(store, second)
    assert isinstance(wait, BudgetWait)
    assert (wait.budget_id, wait.unit, wait.limit, wait.estimate) == (tokens.id, "tokens", 150, 100)
    assert await sums(store, cost) == (0, 1.0)


async def test_the_next_minute_wakes_only_the_runs_that_it_has_room_for(
    loop: Loop, store: Store
) -> None:
    budget = await add(store, 9_000, unit="tokens", period="minute")
    await store.sql("UPDATE budgets SET spent_usd = 9000")
    await store.accept(3)
    states = await store.claim(3)
    for state in states:
        assert await loop.execute(state) == "queued"
    ends_at = "SELECT count(*) FROM runs WHERE available_at > clock_timestamp() + interval '50 min'"
    assert await store.value(ends_at) == 3
    await store.sql("UPDATE budgets SET period_start = period_start - interval '1 min'")
    assert (await get(store, budget)).spent == 0
    async with store.pool.begin() as tx:
        assert await budgets.wake_waiting(tx) == 2
