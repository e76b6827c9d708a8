"""Query plans: no statement of a busy service reads a whole table.

The tests call the store's functions, record the statements, and explain each of them with its
values and as the generic plan that PostgreSQL may switch to. The statements of a run are also
explained on an empty database, because PostgreSQL keeps a generic plan while the tables grow.
"""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from sqlalchemy import event, text

from runward.domain.ids import RunId, SessionId
from runward.domain.retention import DataClass, RetentionLimits
from runward.domain.run.config import AgentConfig
from runward.domain.run.notifications import DeliveryStatus
from runward.domain.run.state import CallPhase, RunState
from runward.domain.run.status import RunStatus
from runward.store.access import keys
from runward.store.live import events
from runward.store.live.family_events import read_family_after
from runward.store.live.project_log import LogPosition, read_log
from runward.store.postgres.db import Tx, mint
from runward.store.postgres.engine import AsyncEngine
from runward.store.postgres.held_connection import FrequentStatement, HeldConnection
from runward.store.registry import tool_history
from runward.store.retention import cleaner, erasures
from runward.store.runs import (
    approvals,
    decisions,
    erasure,
    queries,
    queue,
    sweep,
    transitions,
    views,
)
from runward.store.runs.backlog import BacklogReader
from runward.store.runs.search import RunFilter, search_runs
from runward.store.runs.sweep import HeldLease
from runward.store.runs.writers import AcceptWriter
from runward.store.schedules import schedules, slots
from runward.store.webhooks import deliveries, endpoints, outbox
from runward.store.webhooks.deliveries import ClaimLimit
from tests.db.store import APPROVER, LEASE, MODEL, PROJECT, Store, new_run, pay, step

SEED: Final = """
INSERT INTO runs (project_id, id, status, agent, config, last_seq, deadline_at,
  lease_expires_at, ended_at, schedule_id)
SELECT :p, gen_random_uuid(), s.status, 'agent ' || n % 50, '{"model": "some model"}', 1,
  CASE WHEN n % 10 = 0 THEN now() + interval '1 day' END,
  CASE WHEN s.status = 'in_progress' THEN now() + interval '1 day' END,
  CASE WHEN s.status IN ('completed', 'failed') THEN now() END,
  CASE WHEN n % 5 = 0 THEN md5((n % 50)::text)::uuid END
FROM generate_series(1, 100000) n, LATERAL (SELECT CASE
  WHEN n % 100 < 3 THEN 'queued' WHEN n % 100 < 5 THEN 'in_progress'
  WHEN n % 100 < 10 THEN 'requires_action' WHEN n % 100 < 15 THEN 'failed'
  ELSE 'completed' END AS status) s;
INSERT INTO runs (project_id, id, status, config, last_seq, parent_run_id, parent_call_id,
  ancestors, path, ended_at)
SELECT project_id, gen_random_uuid(), s.status, config, 1, id, 'c' || n, ARRAY[id], '{clerk}',
  CASE WHEN s.status = 'completed' THEN now() END
FROM runs, generate_series(1, 2) n,
  LATERAL (SELECT CASE WHEN n = 1 THEN 'completed' ELSE 'requires_action' END AS status) s
WHERE runs.status = 'requires_action';
INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)
SELECT project_id, id, 1, 'x', '{}', now() FROM runs;
INSERT INTO run_items (project_id, run_id, seq, kind, turn, items)
SELECT project_id, id, 1, 'input', 0, '[]' FROM runs;
INSERT INTO tool_calls (project_id, run_id, call_id, id, turn, position, tool, arguments, digest,
  phase, attempt, fence, result, created_at, deadline_at)
SELECT project_id, id, 'c1', gen_random_uuid(), 1, 0, 'pay', '{}', 'd', phase, 1, 1,
  CASE WHEN phase = 'settled' THEN '{"outcome": "completed", "output": 1}'::json END, now(),
  now() + interval '1 day'
FROM (SELECT *, CASE WHEN status = 'requires_action' THEN 'awaiting_callback' ELSE 'settled'
  END AS phase FROM runs) r;
INSERT INTO approvals (project_id, id, run_id, call_id, tool, tool_version, arguments, digest,
  status, allowed_decisions, requested_at, expires_at, decided_at)
SELECT project_id, gen_random_uuid(), id, 'c1', 'pay', 1, '{}', 'd',
  CASE WHEN status = 'requires_action' THEN 'pending' ELSE 'approved' END, '{approve}', now(),
  now() + interval '1 day', CASE WHEN status <> 'requires_action' THEN now() END
FROM runs;
INSERT INTO remembered_decisions (project_id, id, run_id, decision, tool, tool_version)
SELECT project_id, gen_random_uuid(), id, 'approve', 'pay', 1 FROM runs LIMIT 20000;
INSERT INTO idempotency_keys (project_id, key, route, body_digest, expires_at)
SELECT :p, gen_random_uuid()::text, 'POST', 'd', now() + interval '1 day'
FROM generate_series(1, 100000);
INSERT INTO schedules (project_id, id, name, cron, time_zone, run, overlap, misfires, enabled,
  created_by, next_at, due_at)
SELECT :p, gen_random_uuid(), 's', '* * * * *', 'UTC', '{}', 'skip', 'once', true,
  gen_random_uuid(), at, at
FROM (SELECT now() + (n - 20) * interval '1 second' AS at FROM generate_series(1, 20000) n) s;
INSERT INTO schedule_slots (project_id, schedule_id, slot_at, status, skip_reason)
SELECT :p, md5((n % 50)::text)::uuid, now() - n * interval '1 minute', 'skipped', 'missed'
FROM generate_series(1, 100000) n;
INSERT INTO api_keys (project_id, id, name, secret_hmac, scopes)
SELECT :p, gen_random_uuid(), 'k', sha256(n::text::bytea), '{}' FROM generate_series(1, 20000) n;
"""
QUEUED: Final = """
INSERT INTO runs (project_id, id, status, config, available_at, priority)
SELECT CAST(:project_id AS uuid), gen_random_uuid(), 'queued', '{}',
  clock_timestamp() + CASE WHEN CAST(:later AS bool) THEN 1 ELSE -1 END * interval '1 h', n % 2
FROM generate_series(1, CAST(:runs AS int)) n"""
DELIVERIES: Final = """
INSERT INTO webhook_deliveries (project_id, id, url, target, message_id, type, run_id, seq, status,
  next_attempt_at, ended_at)
SELECT CAST(:project_id AS uuid), gen_random_uuid(), 'https://a.example',
  md5((n % CAST(:targets AS int))::text)::uuid, 'evt_' || n, 'x', gen_random_uuid(), 1, s.status,
  CASE WHEN s.status = 'pending' THEN now() END, CASE WHEN s.status <> 'pending' THEN now() END
FROM generate_series(1, CAST(:count AS int)) n, LATERAL (SELECT CASE
  WHEN n % CAST(:pending AS int) = 0 THEN 'pending' ELSE 'delivered' END AS status) s"""
FOREIGN_KEYS: Final = """
SELECT set_config('session_replication_role', :role, false)
WHERE current_setting('is_superuser') = 'on'"""
LARGE: Final = frozenset(
    {
        "runs",
        "run_events",
        "run_items",
        "tool_calls",
        "approvals",
        "remembered_decisions",
        "idempotency_keys",
        "api_keys",
        "schedules",
        "schedule_slots",
        "webhook_deliveries",
    }
)
WHICH_RUNS: Final = (
    RunFilter(),
    RunFilter(statuses=[RunStatus.FAILED], agent="agent 7"),
    RunFilter(session=SessionId(mint())),
    RunFilter(schedule=mint()),
    RunFilter(created_from=datetime(2020, 1, 1, tzinfo=UTC), created_before=datetime.now(UTC)),
    RunFilter(ids=(mint(), mint())),
    RunFilter(text="nowhere to be found"),
)
RUNNING: Final = frozenset(
    {"accept", "claim", "step", "step that waited for its row", "heartbeat", "decide", "cancel"}
)
"""The statements that every run sends."""
A_DAY: Final = RetentionLimits(dict.fromkeys(DataClass, 1), {})
READ_WHOLE: Final = frozenset(
    {
        "runs_queued",
        "runs_running",
        "runs_open_children",
        "approvals_expiry",
        "runs_schedule_waiting",
        "schedules_project_due",
        "webhook_deliveries_due",
        "webhook_deliveries_next_attempt",
    }
)
"""Partial indexes that a sweep or a scrape may read from end to end: the queue, what is worked on,
open child runs, pending approvals, and waiting runs of schedules. Of the projects with schedules
and of the targets of deliveries, a claim reads the first."""


@dataclass
class Sent:
    """Statements on their way to PostgreSQL, with a set of values, under who sent them first."""

    statements: dict[str, tuple[str, tuple[Any, ...]]] = field(
        default_factory=dict[str, tuple[str, tuple[Any, ...]]]
    )
    by: str = ""

    @contextmanager
    def of(self, engine: AsyncEngine) -> Generator[None]:
        """Record the statements of an engine, and of all held connections."""
        fetch = HeldConnection.fetch

        async def held(connection: HeldConnection, frequent: FrequentStatement, values: Any) -> Any:
            self.add(frequent.sql, [values[name] for name in frequent.parameters])
            return await fetch(connection, frequent, values)

        def sent(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
            self.add(statement, values)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(HeldConnection, "fetch", held)
            event.listen(engine.sync_engine, "before_cursor_execute", sent)
            yield
            event.remove(engine.sync_engine, "before_cursor_execute", sent)

    def add(self, statement: str, values: Any) -> None:
        if any(word in statement for word in ("FROM", "UPDATE", "INSERT")):
            self.statements.setdefault(statement, (self.by, tuple(values or ())))


async def seed(store: Store, *, runs: int = 100_000) -> None:
    """Without checking foreign keys, where we may: that is most of the work."""
    async with store.autocommit.connect() as tx:
        await tx.execute(text(FOREIGN_KEYS), {"role": "replica"})
        for statement in SEED.split(";\n"):
            if statement.strip():
                await tx.execute(
                    text(statement.replace(":p", f"'{PROJECT}'").replace("100000", str(runs)))
                )
        values = {"project_id": PROJECT, "count": 20_000, "targets": 50, "pending": 50}
        await tx.execute(text(DELIVERIES), values)
        await tx.execute(text(FOREIGN_KEYS), {"role": "origin"})
        await tx.execute(text("ANALYZE"))


async def everything(store: Store, sent: Sent) -> None:
    """Each statement that is sent while runs are accepted, worked on, decided about and read."""
    sent.by = "accept"
    acceptor = AcceptWriter(store.pool, LEASE)
    key = ("key", "POST /v1/runs", "digest")
    await acceptor.write([new_run(AgentConfig(model=MODEL), idempotency=key)])
    await acceptor.close()
    sent.by = "claim"
    states = await store.claim(50)
    sent.by = "step"
    await store.write(*[step(state, "x") for state in states])
    sent.by = "step that waited for its row"
    async with store.locked(states[0].id):
        [alone] = await store.writer.write([step(states[0], "y")])
        assert isinstance(alone, asyncio.Task)
    await alone
    sent.by = "heartbeat"
    held = [HeldLease(state.project_id, state.id, state.fence) for state in states]
    async with store.pool.begin() as tx:
        assert await sweep.renew_leases(tx, LEASE, held) == []
    await sweeps(store, sent)
    await people(store, sent)
    await retention(store, sent)
    async with store.pool.connect() as tx:
        await reads(tx, sent, states)
    sent.by = "backlog"
    assert await BacklogReader(store.autocommit).read() is not None


async def crash_loops(tx: Tx) -> object:
    return await sweep.list_crash_loops(tx, LEASE)


async def claim_slots(tx: Tx) -> None:
    await tx.execute(text(slots.DUE))
    await tx.execute(text(slots.STRANDED))
    for due in await slots.claim_slots(tx, 16, 4, {PROJECT: 2}):
        await slots.list_open_runs(tx, due, 100)


async def claim_deliveries(tx: Tx) -> None:
    await tx.execute(text(deliveries.DUE))
    await endpoints.add_cursor(tx, PROJECT)
    await outbox.list_due(tx, 10)
    await outbox.enqueue_events(tx, PROJECT)
    limit = ClaimLimit(4, {PROJECT: 2})
    await deliveries.claim_deliveries(tx, 16, limit, limit)
    await deliveries.redeliver(tx, PROJECT, mint())


async def list_erasures(tx: Tx) -> object:
    return await erasure.list_due(tx, sweep.BATCH)


async def sweeps(store: Store, sent: Sent) -> None:
    for find in (
        sweep.free_expired_leases,
        sweep.list_due_approvals,
        sweep.list_due_callbacks,
        sweep.list_due_results,
        sweep.list_due_deadlines,
        sweep.list_orphans,
        crash_loops,
        list_erasures,
        sweep.delete_expired_idempotency_keys,
        claim_slots,
        claim_deliveries,
        slots.delete_old,
        slots.wake_waiting,
    ):
        sent.by = find.__name__
        async with store.pool.begin() as tx:
            await find(tx)


async def retention(store: Store, sent: Sent) -> None:
    """Of runs that ended two days ago."""
    sent.by = "not measured"
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(
            text(
                "UPDATE runs SET ended_at = ended_at - interval '2 days'"
                " WHERE status = 'failed' OR id IN (SELECT parent_run_id FROM runs)"
            )
        )
    sent.by = "list work"
    async with store.pool.begin() as tx:
        await cleaner.list_work(tx, A_DAY)
    for data_class in DataClass:
        async with store.pool.begin() as tx:
            sent.by = f"preview {data_class}"
            await cleaner.preview(tx, PROJECT, data_class, 1)
            sent.by = f"remove {data_class}"
            await cleaner.remove_batch(tx, A_DAY, PROJECT, data_class)
    sent.by = "erase by metadata"
    async with store.pool.begin() as tx:
        made = await erasures.add_erasure(tx, PROJECT, {"user": "u1"})
        await erasures.list_runs_to_cancel(tx, 10)
        await erasures.advance(tx, PROJECT, made.id)
    sent.by = "delete a hold"
    async with store.pool.begin() as tx:
        await cleaner.return_cursors(tx, PROJECT, mint())


async def people(store: Store, sent: Sent) -> None:
    """On a run of our own, which is more than the seeded ones are."""
    sent.by = "not measured"
    await store.sql("UPDATE runs SET available_at = now() + interval '1 h' WHERE status = 'queued'")
    state = await store.waiting(pay("c1"), pay("c2"))
    first, _ = await store.pending(state.id)
    sent.by = "decide"
    decision = decisions.rules.ApproveDecision(decision="approve")
    async with store.pool.begin() as tx:
        await decisions.decide(tx, store.vault, APPROVER, first, decision)
    sent.by = "is_overdue"
    async with store.pool.begin() as tx:
        await sweep.is_overdue(tx, PROJECT, state.id, transitions.CallId("c1"))
    sent.by = "cancel"
    async with store.pool.begin() as tx:
        await transitions.cancel(tx, PROJECT, state.id, after_turn=False)
    sent.by = "erase"
    async with store.pool.begin() as tx:
        assert await erasure.erase(tx, PROJECT, state.id)


async def reads(tx: Tx, sent: Sent, states: list[RunState]) -> None:
    run = states[0].id
    several = [RunId(state.id) for state in states[:20]]
    sent.by = "load and follow"
    await queries.load(tx, PROJECT, run)
    await events.read_after(tx, PROJECT, run, 1, 100)
    sent.by = "pages of events"
    await read_log(tx, PROJECT, LogPosition(7, run, 1), 100)
    await events.read_page(tx, PROJECT, run, 1, 100)
    sent.by = "events of a family"
    await read_family_after(tx, PROJECT, run, {run: 1}, datetime(2000, 1, 1, tzinfo=UTC), 100)
    sent.by = "last sequences"
    await events.last_sequences(tx, [(PROJECT, one) for one in several])
    sent.by = "run and status"
    await views.get_status(tx, PROJECT, run)
    await views.get_run(tx, PROJECT, run)
    sent.by = "calls"
    await views.list_calls(tx, PROJECT, run)
    await views.list_calls(tx, PROJECT, run, phases=(CallPhase.READY,))
    sent.by = "open calls"
    await views.find_open_calls(tx, [(PROJECT, one, mint()) for one in several])
    sent.by = "required actions"
    await views.list_waiting_calls(tx, PROJECT, several)
    sent.by = "figures of a tool"
    await tool_history.read_figures(tx, PROJECT, "pay")
    sent.by = "authenticate"
    await keys.authenticate(tx, [b"unknown"])
    for descending in (False, True):
        for after in (None, mint()):
            page: dict[str, Any] = {"after": after, "limit": 21, "descending": descending}
            sent.by = f"runs {page}"
            for which in WHICH_RUNS:
                await search_runs(tx, PROJECT, which, **page)
            sent.by = f"approvals {page}"
            await approvals.search(tx, PROJECT, **page)
            await approvals.search(tx, PROJECT, status="pending", **page)
            await approvals.search(tx, PROJECT, run_id=run, tool="pay", **page)
            sent.by = f"child runs {page}"
            await search_runs(tx, PROJECT, RunFilter(parent=run), **page)
            await search_runs(tx, PROJECT, RunFilter(parent=run, text="x"), **page)
            await schedules.list_schedules(tx, PROJECT, **page)
            await list_deliveries(tx, sent, run, page)
            sent.by = f"calls of a tool {page}"
            await tool_history.list_past_calls(tx, PROJECT, "pay", **page)


async def list_deliveries(tx: Tx, sent: Sent, run: RunId, page: dict[str, Any]) -> None:
    sent.by = f"deliveries {page}"
    filters: list[dict[str, Any]] = [{"run_id": run}, {"endpoint_id": mint()}]
    filters += [{"status": one} for one in (None, *DeliveryStatus)]
    nothing: dict[str, Any] = dict.fromkeys(("run_id", "endpoint_id", "status"))
    for one in filters:
        await deliveries.list_deliveries(tx, PROJECT, **nothing | one | page)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def wrong_in(plan: dict[str, Any]) -> list[str]:
    """Where it reads a large table, or a large index, from end to end."""
    return [
        f"{node['Node Type']} on {node.get('Relation Name')} {node.get('Index Name', '')}".strip()
        for node in nodes(plan)
        if node.get("Relation Name") in LARGE
        and (
            node["Node Type"] == "Seq Scan"
            or (
                node["Node Type"] in {"Index Scan", "Index Only Scan"}
                and "Index Cond" not in node
                and node["Index Name"] not in READ_WHOLE
            )
        )
    ]


async def explained(connection: Any, statement: str, values: tuple[Any, ...]) -> list[str]:
    """What is wrong with its plan for these values, and with its generic plan."""
    [[[custom]]] = await connection.fetch(f"EXPLAIN (FORMAT JSON) {statement}", *values)
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE hot AS {statement}")
    nulls = f"({', '.join(['NULL'] * len(values))})" if values else ""
    [[[generic]]] = await connection.fetch(f"EXPLAIN (FORMAT JSON) EXECUTE hot{nulls}")
    await connection.execute("DEALLOCATE hot")
    return [
        f"{what} ({kind})"
        for kind, found in (("its values", custom), ("any", generic))
        for what in wrong_in(found["Plan"])
    ]


async def test_no_hot_statement_reads_a_whole_table(store: Store) -> None:
    await seed(store)
    sent = await record(store)
    assert len(sent.statements) > 35
    assert await find_wrong_plans(store, sent.statements) == {}


@pytest.mark.parametrize("runs", [0, 20])
async def test_plans_that_were_made_on_small_tables_do_not_read_them_whole_later(
    store: Store, runs: int
) -> None:
    """Autovacuum first analyzes the table after about 15 runs."""
    if runs:
        await store.accept(runs)
    sent = await record(store)
    if runs:
        await store.sql("ANALYZE")
    running = {
        statement: sender for statement, sender in sent.statements.items() if sender[0] in RUNNING
    }
    assert {by for by, _ in running.values()} == RUNNING
    assert await find_wrong_plans(store, running) == {}


@pytest.mark.parametrize("queued", [800, 10_000])
@pytest.mark.parametrize("statistics", ["SELECT 1", "ANALYZE"])
async def test_a_claim_reads_as_many_rows_of_a_long_queue_as_of_a_short_one(
    store: Store, queued: int, statistics: str
) -> None:
    """One project has the queue, another one has as many runs that start later, and a third one
    has a single run."""
    for runs, later in ((queued, False), (queued, True), (1, False)):
        project = mint()
        await store.sql("INSERT INTO projects (id, name) VALUES (:id, 'p')", id=project)
        await store.sql(QUEUED, runs=runs, later=later, project_id=project)
    await store.sql(statistics)
    claim = text(f"EXPLAIN (ANALYZE, FORMAT JSON) {queue.CLAIM.text}")
    async with store.autocommit.connect() as tx:
        values = queue.claim_values(2, LEASE, None, queue.NO_TURN)
        [[explained]] = (await tx.execute(claim, values)).scalars()
    assert 2 <= count_rows_read(explained["Plan"], "runs") <= 30


@pytest.mark.parametrize("analyze", ["before", "after"])
async def test_a_claim_of_deliveries_reads_few_rows_of_a_long_backlog(
    store: Store, analyze: str
) -> None:
    """Of each of 20 targets, a claim reads the first delivery and up to 8 that are due."""
    if analyze == "before":
        await store.sql("VACUUM ANALYZE webhook_deliveries")
    await store.sql(DELIVERIES, project_id=PROJECT, count=10_000, targets=20, pending=1)
    if analyze == "after":
        await store.sql("ANALYZE webhook_deliveries")
    sent = Sent()
    with sent.of(store.pool):
        async with store.autocommit.connect() as tx:
            limit = ClaimLimit(64, {})
            claimed = await deliveries.claim_deliveries(tx, 128, ClaimLimit(8, {}), limit)
    assert len(claimed) == 64
    [(statement, (_, values))] = sent.statements.items()
    async with store.autocommit.connect() as tx:
        connection: Any = (await tx.get_raw_connection()).driver_connection
        [[[explained]]] = await connection.fetch(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values
        )
    assert count_rows_read(explained["Plan"], "webhook_deliveries") <= 400


def count_rows_read(plan: dict[str, Any], relation: str) -> float:
    """The rows that the plan reads of the relation and of its indexes."""
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in nodes(plan)
        if node.get("Relation Name") == relation and "Scan" in node["Node Type"]
    )


async def record(store: Store) -> Sent:
    sent = Sent()
    with sent.of(store.pool):
        await everything(store, sent)
    return sent


async def find_wrong_plans(
    store: Store, statements: dict[str, tuple[str, tuple[Any, ...]]]
) -> dict[str, list[str]]:
    wrong: dict[str, list[str]] = {}
    async with store.autocommit.connect() as tx:
        connection: Any = (await tx.get_raw_connection()).driver_connection
        for statement, (by, values) in statements.items():
            if by != "not measured" and (found := await explained(connection, statement, values)):
                wrong[f"{by}: {statement}"] = found
    return wrong


async def test_a_plan_that_reads_a_whole_table_is_found(store: Store) -> None:
    async with store.autocommit.connect() as tx:
        connection: Any = (await tx.get_raw_connection()).driver_connection
        bad = "SELECT * FROM runs WHERE output IS NOT NULL AND turn = $1::int"
        assert len(await explained(connection, bad, (1,))) == 2
