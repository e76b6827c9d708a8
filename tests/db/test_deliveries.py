"""Deliveries in the database: which events cause them, who sends them, and what happens next."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from runward.domain.ids import ProjectId
from runward.domain.json import compact
from runward.domain.run.config import AgentConfig, add_webhook
from runward.domain.run.notifications import MAX_ATTEMPTS, DisabledReason, RunWebhook
from runward.domain.run.status import Move
from runward.store.postgres.db import mint
from runward.store.runs import erasure
from runward.store.runs.gate import Ending
from runward.store.webhooks import deliveries, endpoints, outbox
from runward.store.webhooks.deliveries import Attempt, ClaimedDelivery, ClaimLimit
from runward.store.webhooks.endpoints import StoredEndpoint
from tests.db.store import MODEL, PROJECT, Store, new_run, step
from tests.db.test_outside import clean, reaper
from tests.db.test_project_log import pass_horizon

MANY = 100
UNLIMITED = ClaimLimit(MANY, {})


async def add_endpoint(
    store: Store, *events: str, project_id: ProjectId = PROJECT
) -> StoredEndpoint:
    fields: dict[str, Any] = {
        "url": "https://a.example",
        "description": "",
        "events": events or ("*",),
        "include": (),
        "enabled": True,
    }
    async with store.pool.begin() as tx:
        return await endpoints.add_endpoint(tx, store.vault, project_id, fields, "whsec_AAAA")


async def enqueue(store: Store) -> int:
    async with store.pool.begin() as tx:
        return await outbox.enqueue_events(tx, PROJECT)


async def due(store: Store) -> bool:
    async with store.autocommit.connect() as tx:
        return bool(await outbox.list_due(tx, 10))


async def claim(
    store: Store,
    count: int = MANY,
    *,
    per_target: ClaimLimit = UNLIMITED,
    per_project: ClaimLimit = UNLIMITED,
    lease: timedelta = deliveries.LEASE,
) -> list[ClaimedDelivery]:
    async with store.autocommit.connect() as tx:
        return await deliveries.claim_deliveries(tx, count, per_target, per_project, lease)


def attempt(status: int | None) -> Attempt:
    return Attempt(datetime.now(UTC), 1.0, status, "" if status else None, None)


async def fail(
    store: Store, claimed: ClaimedDelivery, status: int | None = 500, after: float | None = None
) -> DisabledReason | None:
    async with store.pool.begin() as tx:
        return await deliveries.record_failure(tx, claimed.delivery, attempt(status), 0.0, after)


async def make_due(store: Store) -> None:
    await store.sql(
        "UPDATE webhook_deliveries SET next_attempt_at = clock_timestamp()"
        " WHERE status = 'pending' AND next_attempt_at < 'infinity'"
    )


async def stored(store: Store) -> list[Any]:
    return list(
        await store.sql(
            "SELECT *, CASE WHEN isfinite(next_attempt_at)"
            " THEN extract(epoch FROM next_attempt_at - clock_timestamp()) END AS seconds"
            " FROM webhook_deliveries ORDER BY id"
        )
    )


async def test_each_event_is_enqueued_once_for_each_endpoint_that_selects_it(store: Store) -> None:
    runs, all_types = await add_endpoint(store, "run.created"), await add_endpoint(store)
    state = await store.leased()
    await store.committed(step(state, "message.completed", "run.waiting"))
    assert await due(store)
    assert await enqueue(store) == 4
    await pass_horizon(store)
    assert await enqueue(store) == 0
    assert not await due(store)
    found = {(row.endpoint_id, row.message_id, row.type) for row in await stored(store)}
    run = state.id.hex
    assert found == {
        (runs.id, f"evt_{run}_1", "run.created"),
        (all_types.id, f"evt_{run}_1", "run.created"),
        (all_types.id, f"evt_{run}_2", "run.started"),
        (all_types.id, f"evt_{run}_4", "run.waiting"),
    }


async def test_the_endpoints_of_a_project_are_added_one_after_the_other(store: Store) -> None:
    """Otherwise, simultaneous requests could exceed the maximum number."""
    fields = {"url": "", "description": "", "events": (), "include": (), "enabled": True}
    await add_endpoint(store)
    async with store.pool.begin() as tx, store.pool.connect() as other:
        await endpoints.add_endpoint(tx, store.vault, PROJECT, fields, "whsec_AAAA")
        await other.execute(text("SET LOCAL lock_timeout = 50"))
        with pytest.raises(DBAPIError, match="lock timeout"):
            await endpoints.add_endpoint(other, store.vault, PROJECT, fields, "whsec_AAAA")


async def test_a_long_transaction_delays_no_notification(store: Store) -> None:
    await add_endpoint(store, "run.waiting")
    state = await store.leased()
    async with store.pool.begin() as other:
        await other.execute(text("SELECT pg_current_xact_id()"))
        await store.committed(step(state, "run.waiting"))
        assert await enqueue(store) == 1
        await store.committed(step(state, "run.waiting"))
        assert await enqueue(store) == 1
        assert await due(store)  # the cursor could not pass them
    await pass_horizon(store)
    assert await enqueue(store) == 0
    assert not await due(store)


@pytest.mark.parametrize("data", ["[" * 400 + "]" * 400, "5", "[1]"])
async def test_an_event_that_cannot_be_read_is_delivered_without_its_data(
    store: Store, data: str
) -> None:
    """Otherwise no worker could claim any delivery."""
    await add_endpoint(store, "run.waiting")
    state, other = await store.leased(), await store.leased()
    for one in (state, other):
        await store.committed(step(one, "run.waiting"))
    await enqueue(store)
    for column in ("run_events SET data", "webhook_deliveries SET attempts"):
        broken = f"UPDATE {column} = CAST(:data AS json) WHERE run_id = :id"
        await store.sql(broken, data=data, id=state.id)
    claimed = {one.delivery.run_id: one.delivery for one in await claim(store)}
    assert claimed.keys() == {state.id, other.id}
    assert claimed[state.id].payload["data"] == {"run_id": f"run_{state.id.hex}", "sequence": 3}


async def test_a_webhook_whose_url_cannot_be_parsed_does_not_hold_up_the_project(
    store: Store,
) -> None:
    endpoint = await add_endpoint(store, "run.created")
    await store.accept()
    await store.sql(
        """UPDATE runs SET config = '{"webhook": {"url": "http://[::1", "events": ["*"]}}'"""
    )
    assert await enqueue(store) == 2
    assert {row.endpoint_id for row in await stored(store)} == {endpoint.id, None}


async def test_an_event_that_commits_late_is_enqueued(store: Store) -> None:
    await add_endpoint(store, "run.waiting")
    state, other = await store.leased(), await store.leased()
    async with store.locked(state.id) as late:
        await store.bump(late, state.id, "run.waiting")
        await store.committed(step(other, "run.waiting"))
        assert await enqueue(store) == 1
    assert await enqueue(store) == 1
    assert {row.run_id for row in await stored(store)} == {state.id, other.id}


async def test_a_backlog_is_enqueued_in_batches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "BATCH", 5)
    await add_endpoint(store, "run.waiting")
    state = await store.leased()
    for _ in range(12):
        await store.committed(step(state, "run.waiting"))
    await store.committed(step(state, *["run.waiting"] * 7))  # one transaction
    await pass_horizon(store)
    batches = [await enqueue(store) for _ in range(6)]
    assert sum(batches) == 19
    assert max(batches) <= 11
    assert not await due(store)


async def test_an_endpoint_gets_no_event_from_before_it_was_enabled(store: Store) -> None:
    first = await add_endpoint(store, "run.waiting")
    state = await store.leased()
    await store.committed(step(state, "run.waiting"))
    await add_endpoint(store, "run.waiting")
    async with store.pool.begin() as tx:
        await endpoints.update_endpoint(tx, PROJECT, first.id, {"enabled": False})
    async with store.pool.begin() as tx:
        await endpoints.update_endpoint(tx, PROJECT, first.id, {"enabled": True})
    assert await enqueue(store) == 0


async def test_several_workers_share_the_deliveries_without_duplicates(store: Store) -> None:
    await add_endpoint(store, "run.waiting")
    state = await store.leased()
    await store.committed(step(state, *["run.waiting"] * 60))
    await enqueue(store)
    claimed = [
        one
        for batch in await asyncio.gather(*(claim(store, 20) for _ in range(6)))
        for one in batch
    ]
    claimed += await claim(store)
    ids = [one.delivery.id for one in claimed]
    assert len(ids) == len(set(ids)) == 60


async def test_a_claim_takes_few_deliveries_of_each_target(store: Store) -> None:
    first, second = await add_endpoint(store, "run.waiting"), await add_endpoint(store)
    state = await store.leased()
    await store.committed(step(state, *["run.waiting"] * 20))
    await enqueue(store)
    limit = ClaimLimit(3, {})
    targets = [one.delivery.target for one in await claim(store, per_target=limit)]
    assert sorted(targets) == sorted([first.id] * 3 + [second.id] * 3)
    limit = ClaimLimit(3, {first.id: 0})
    targets = [one.delivery.target for one in await claim(store, 4, per_target=limit)]
    assert targets == [second.id] * 3


async def test_a_project_with_many_targets_leaves_room_for_the_others(store: Store) -> None:
    project_id = ProjectId(mint())
    await store.sql("INSERT INTO projects (id, name) VALUES (:id, 'other')", id=project_id)
    flooding = [(await add_endpoint(store)).id for _ in range(9)]
    single = [(await add_endpoint(store, project_id=project_id)).id]
    async with store.pool.begin() as tx:
        for owner, ids in ((PROJECT, flooding * 2), (project_id, single)):
            await outbox.enqueue_notification(tx, owner, ids, "webhook_endpoint.test", {})
    limit = ClaimLimit(4, {PROJECT: 3})
    claimed = await claim(store, 2, per_project=limit)
    assert {one.delivery.project_id for one in claimed} == {PROJECT, project_id}
    assert len(await claim(store, per_project=limit)) == 3
    assert await claim(store, per_project=ClaimLimit(4, {PROJECT: 0})) == []


async def test_a_delivery_whose_worker_was_lost_is_claimed_again(store: Store) -> None:
    await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    [lost] = await claim(store, lease=timedelta(0))
    [second] = await claim(store)
    assert (second.delivery.id, second.delivery.message_id) == (
        lost.delivery.id,
        lost.delivery.message_id,
    )
    async with store.pool.begin() as tx:
        assert not await deliveries.record_success(tx, lost.delivery, attempt(200))
        assert await deliveries.record_success(tx, second.delivery, attempt(200))
    [row] = await stored(store)
    assert (row.status, len(row.attempts)) == ("delivered", 1)


@pytest.mark.parametrize(("most", "expected"), [(1024, 2), (1, 1)])
async def test_the_webhooks_of_runs_have_a_target_for_each_host_up_to_a_maximum(
    store: Store, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    monkeypatch.setattr(outbox, "MAX_TARGETS", most)
    async with store.pool.begin() as tx:
        await endpoints.add_cursor(tx, PROJECT)
    for url in ("https://a.example/1", "https://a.example/2", "https://b.example"):
        config = add_webhook(AgentConfig(model=MODEL), RunWebhook(url=url))
        await store.acceptor.write([new_run(config)])
    assert await enqueue(store) == 3
    assert len({row.target for row in await stored(store)}) == expected


async def test_a_redelivery_during_an_attempt_starts_the_schedule_again(store: Store) -> None:
    await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    await fail(store, (await claim(store))[0])
    await make_due(store)
    [in_flight] = await claim(store)
    async with store.pool.begin() as tx:
        await deliveries.redeliver(tx, PROJECT, in_flight.delivery.id)
    await fail(store, in_flight)
    [again] = await claim(store)
    await fail(store, again)
    [row] = await stored(store)
    assert (row.attempt, round(row.seconds), len(row.attempts)) == (1, 5, 2)


async def test_a_delivery_is_not_held_after_its_endpoint_was_enabled(store: Store) -> None:
    endpoint = await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    await store.sql("UPDATE webhook_endpoints SET enabled = false")
    [claimed] = await claim(store)
    assert not claimed.enabled
    async with store.pool.begin() as tx:
        await endpoints.update_endpoint(tx, PROJECT, endpoint.id, {"enabled": True})
    async with store.autocommit.connect() as tx:
        await deliveries.hold_delivery(tx, claimed.delivery)
    [again] = await claim(store)
    assert again.enabled
    await store.sql("UPDATE webhook_endpoints SET enabled = false")
    async with store.autocommit.connect() as tx:
        await deliveries.hold_delivery(tx, again.delivery)
    [row] = await stored(store)
    assert row.next_attempt_at.year == 9999


async def test_attempts_follow_the_schedule_for_three_days(store: Store) -> None:
    await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    delays: list[int] = []
    [row] = await stored(store)
    while claimed := await claim(store):
        await fail(store, claimed[0])
        [row] = await stored(store)
        delays.append(round(row.seconds or 0))
        await make_due(store)
    assert len(delays) == MAX_ATTEMPTS
    assert delays == [5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400, 0]
    assert sum(delays) > 3 * 86_400
    assert (row.status, row.attempt) == ("failed", MAX_ATTEMPTS)


async def test_a_later_retry_after_is_honored(store: Store) -> None:
    await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    [claimed] = await claim(store)
    await fail(store, claimed, 429, after=120)
    [row] = await stored(store)
    assert round(row.seconds) == 120


async def test_an_endpoint_that_fails_for_three_days_is_disabled_with_a_notice(
    store: Store,
) -> None:
    failing, other = await add_endpoint(store, "run.created"), await add_endpoint(store, "*")
    await store.leased()
    await store.leased()
    await enqueue(store)
    mine = [one for one in await claim(store) if one.delivery.target == failing.id]
    assert await fail(store, mine[0]) is None
    await store.sql(
        "UPDATE webhook_endpoints SET failing_since = failing_since - interval '3 days'"
        " WHERE failing_since IS NOT NULL"
    )
    assert await fail(store, mine[1], None) is DisabledReason.FAILING
    async with store.autocommit.connect() as tx:
        shown = await endpoints.get_endpoint(tx, PROJECT, failing.id)
    assert shown is not None
    assert (shown.enabled, shown.disabled_reason) == (False, "failing")
    held = [row for row in await stored(store) if row.endpoint_id == failing.id]
    assert {row.next_attempt_at.year for row in held} == {9999}
    [notice] = [row for row in await stored(store) if row.type == "webhook_endpoint.disabled"]
    assert (notice.endpoint_id, notice.data["disabled_reason"]) == (other.id, "failing")


async def test_a_success_ends_a_series_of_failures(store: Store) -> None:
    endpoint = await add_endpoint(store, "run.created")
    await store.leased()
    await enqueue(store)
    [claimed] = await claim(store)
    await fail(store, claimed)
    await make_due(store)
    [claimed] = await claim(store)
    async with store.pool.begin() as tx:
        await deliveries.record_success(tx, claimed.delivery, attempt(204))
        shown = await endpoints.get_endpoint(tx, PROJECT, endpoint.id)
    assert shown is not None
    assert shown.failing_since is None


async def test_old_deliveries_are_deleted(store: Store) -> None:
    await add_endpoint(store, "run.created")
    for _ in range(3):
        await store.leased()
    await enqueue(store)
    old = (await stored(store))[0].id
    await store.sql(
        "UPDATE webhook_deliveries SET created_at = created_at - interval '31 days' WHERE id = :id",
        id=old,
    )
    await clean(store)
    assert old not in {row.id for row in await stored(store)}
    assert len(await stored(store)) == 2


async def test_a_sweep_enqueues_notifications_and_wakes_the_sender(store: Store) -> None:
    await add_endpoint(store, "run.created")
    await store.leased()
    woken: list[int] = []
    await reaper(store, lambda: woken.append(1)).sweep()
    assert len(await stored(store)) == len(woken) == 1


async def test_the_secret_of_an_endpoint_is_stored_encrypted(store: Store) -> None:
    endpoint = await add_endpoint(store)
    [row] = await store.sql("SELECT * FROM webhook_endpoints")
    assert "AAAA" not in str(row)
    assert endpoints.open_secret(store.vault, PROJECT, UUID(int=endpoint.id.int), row.secret)


async def test_the_webhook_of_an_erased_run_is_notified_once_and_erased(store: Store) -> None:
    await add_endpoint(store, "tool_call.outcome_unknown")
    webhook = {"url": "https://a.example/ada", "events": ["run.completed"], "include": []}
    runs = [await store.leased() for _ in range(2)]
    await store.sql(
        "UPDATE runs SET config = CAST(CAST(config AS jsonb) || CAST(:webhook AS jsonb) AS json)",
        webhook=compact({"webhook": webhook}),
    )
    before, after = runs
    await store.committed(step(before, "run.completed", ending=Ending(Move.COMPLETE)))
    assert await enqueue(store) == 1
    await pass_horizon(store)
    await enqueue(store)
    await store.sql("DELETE FROM webhook_deliveries")  # as retention does
    await store.committed(step(after, "run.completed", ending=Ending(Move.COMPLETE)))
    async with store.pool.begin() as tx:
        assert await erasure.erase(tx, PROJECT, before.id)
        assert await erasure.erase(tx, PROJECT, after.id)
    [row] = await stored(store)
    assert (row.run_id, row.type, row.url) == (after.id, "run.completed", webhook["url"])
    assert await enqueue(store) == 0
    assert await store.value("SELECT count(*) FROM runs WHERE config::text LIKE '%ada%'") == 0
