"""The database defends itself: what the code must never do, it cannot."""

import re
from typing import Any

import pytest
from sqlalchemy import CheckConstraint, make_url, text
from sqlalchemy.exc import DBAPIError

from runward.domain.run.status import TERMINAL
from runward.store.postgres.db import UnsafeDatabaseError, check_safety, open_database, sqlstate
from runward.store.postgres.tables import metadata
from tests.db.store import Store, pay, step

CHECK, NOT_NULL, UNIQUE, FOREIGN = "23514", "23502", "23505", "23503"
COLUMNS = {
    "status": "'queued'",
    "config": "'{}'",
    "lease_expires_at": "NULL",
    "ended_at": "NULL",
    "project_id": "'00000000-0000-0000-0000-000000000000'",
}


async def refused(store: Store, statement: str, **values: Any) -> str:
    with pytest.raises(DBAPIError) as error:
        await store.sql(statement, **values)
    return sqlstate(error.value)


def a_run(**columns: str) -> str:
    """An INSERT; the columns are SQL."""
    given = COLUMNS | columns
    names, values = ", ".join(given), ", ".join(given.values())
    return f"INSERT INTO runs (id, {names}) VALUES (gen_random_uuid(), {values})"


@pytest.mark.parametrize(
    ("columns", "state"),
    [
        ({"status": "'paused'"}, CHECK),
        ({"status": "'in_progress'"}, CHECK),
        ({"lease_expires_at": "now()"}, CHECK),
        ({"status": "'completed'"}, CHECK),
        ({"ended_at": "now()"}, CHECK),
        ({"status": "'requires_action'", "ended_at": "now()"}, CHECK),
        ({"config": "NULL"}, NOT_NULL),
        ({"project_id": "gen_random_uuid()"}, FOREIGN),
    ],
    ids=str,
)
async def test_a_run_that_contradicts_itself_is_refused(
    store: Store, columns: dict[str, str], state: str
) -> None:
    await store.sql(a_run())
    assert await refused(store, a_run(**columns)) == state


AN_EVENT = "INSERT INTO run_events (project_id, run_id, seq, type, data, created_at) VALUES"


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ("(:project, :run, 0, 'x', '{}', now())", CHECK),
        ("(:project, :run, 1, 'x', '{}', now())", UNIQUE),
    ],
)
async def test_an_event_has_a_number_of_its_own(store: Store, row: str, state: str) -> None:
    [run] = await store.accept()
    values = {"project": (await store.head(run)).project_id, "run": run}
    needed = {name: value for name, value in values.items() if f":{name}" in row}
    assert await refused(store, f"{AN_EVENT} {row}", **needed) == state


@pytest.mark.parametrize(
    "change",
    [
        "phase = 'thinking'",
        "phase = 'settled'",
        """result = '{"outcome": "completed", "output": 1}'""",
        "phase = 'started', attempt = 0",
    ],
)
async def test_a_call_that_contradicts_itself_is_refused(store: Store, change: str) -> None:
    await store.waiting(pay("c1"))
    assert await refused(store, f"UPDATE tool_calls SET {change}") == CHECK


@pytest.mark.parametrize(
    "change", ["status = 'maybe'", "status = 'approved'", "decided_at = now()"]
)
async def test_an_approval_that_contradicts_itself_is_refused(store: Store, change: str) -> None:
    await store.waiting(pay("c1"))
    assert await refused(store, f"UPDATE approvals SET {change}") == CHECK


@pytest.mark.parametrize("status", sorted(TERMINAL))
async def test_a_run_that_has_ended_can_be_neither_changed_nor_deleted(
    store: Store, status: str
) -> None:
    await store.sql(a_run(status=f"'{status}'", ended_at="now()"))
    for statement in (
        "UPDATE runs SET status = 'queued', ended_at = NULL",
        "UPDATE runs SET version = version",
        "UPDATE runs SET output = '1'",
        "DELETE FROM runs",
    ):
        assert await refused(store, statement) == CHECK


async def test_erasure_may_and_nothing_after_it(store: Store) -> None:
    await store.leased()
    await store.sql("UPDATE runs SET status = 'failed', lease_expires_at = NULL, ended_at = now()")
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(text("UPDATE runs SET context = NULL"))
    # The same connection may be lent again: the flag ended with its transaction.
    for _ in range(3):
        assert await refused(store, "DELETE FROM runs") == CHECK
    async with store.pool.begin() as tx:
        await tx.execute(text("SET LOCAL runward.erasing = 'on'"))
        await tx.execute(text("DELETE FROM runs"))
    assert await store.value("SELECT count(*) FROM run_events") == 0


async def test_the_records_of_a_run_are_deleted_with_it(store: Store) -> None:
    state, other = await store.waiting(pay("c1")), await store.leased()
    await store.sql("DELETE FROM runs WHERE id = :id", id=state.id)
    for table in ("run_events", "run_items", "tool_calls", "approvals"):
        left = await store.sql(f"SELECT DISTINCT run_id FROM {table}")
        assert {row.run_id for row in left} <= {other.id}
    assert await store.log(other.id) == ["run.created", "run.started"]


async def test_a_run_that_goes_on_is_none_of_the_trigger_s_business(store: Store) -> None:
    state = await store.leased()
    await store.committed(step(state, "x"))
    await store.sql("DELETE FROM runs")


async def test_a_key_is_there_once_in_all_projects(store: Store) -> None:
    add = (
        "INSERT INTO api_keys (project_id, id, name, secret_hmac, scopes)"
        " SELECT id, gen_random_uuid(), 'k', '\\x00', '{}' FROM projects"
    )
    await store.sql(add)
    assert await refused(store, add) == UNIQUE


async def test_a_database_that_forgets_commits_is_refused(store: Store) -> None:
    await check_safety(store.database)
    name = make_url(store.url).database
    await store.sql(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    forgetful = open_database(store.url, pool_size=1)
    with pytest.raises(UnsafeDatabaseError):
        await check_safety(forgetful)
    await forgetful.close()


async def test_indexes_and_constraints_list_the_same_values_as_the_tables(store: Store) -> None:
    """Migrations have the values as text, and Alembic does not compare them."""
    rows = await store.sql(
        "SELECT indexname AS name, indexdef AS definition FROM pg_indexes"
        " WHERE schemaname = 'public' UNION ALL SELECT conname, pg_get_constraintdef(oid)"
        " FROM pg_constraint WHERE contype = 'c' AND connamespace = 'public'::regnamespace"
    )
    migrated = {row.name: listed_values(row.definition) for row in rows}
    conditions = {
        str(index.name): index.dialect_options["postgresql"]["where"]
        for table in metadata.tables.values()
        for index in table.indexes
    } | {
        str(constraint.name): constraint.sqltext
        for table in metadata.tables.values()
        for constraint in table.constraints
        if isinstance(constraint, CheckConstraint)
    }
    expected = {name: listed_values(str(condition)) for name, condition in conditions.items()}
    assert {name: migrated[name] for name in expected} == expected
    assert {"queued", "in_progress", "requires_action"} in expected.values()


def listed_values(condition: str) -> set[str]:
    return set(re.findall(r"'([a-z_]+)'", condition))
