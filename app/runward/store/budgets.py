"""Budgets. A model request reserves its estimated usage first, and the step that stores the
response replaces the reservation with the usage.

A transaction locks its run first, then its budgets in the order of their IDs, then their
reservations. The database's clock decides about periods."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, assert_never, cast
from uuid import UUID

from sqlalchemy import Double, delete, func, insert, literal_column, select, text, update
from sqlalchemy import cast as sql_cast

from runward.domain.ids import KeyId, ProjectId, RunId
from runward.domain.run.budget_approvals import ApprovedBudgets, is_approved
from runward.domain.run.budgets import (
    BudgetAction,
    BudgetChange,
    BudgetCharge,
    BudgetPeriod,
    BudgetUnit,
    BudgetWait,
    Estimate,
)
from runward.domain.run.status import RunStatus
from runward.store.postgres.columns import TIMESTAMP, RowMapping
from runward.store.postgres.db import Tx, mint, notify_tools, select_page
from runward.store.postgres.tables import OPEN_STATUSES, budgets

BATCH: Final = 200
"""Maximum number of waiting runs that one sweep wakes."""

_START: Final = "date_trunc(budgets.period, clock_timestamp(), 'UTC')"
_END: Final = (
    f"date_trunc(budgets.period, {_START} + CASE budgets.period WHEN 'month' THEN interval '744 h'"
    " WHEN 'day' THEN interval '24 h' ELSE interval '60 s' END, 'UTC')"
)
# Many runs can wait for the budget of a minute, so only the sweep wakes as many as it has room for.
_DELAY: Final = (
    f"CASE budgets.period WHEN 'minute' THEN interval '1 h' ELSE {_END} - clock_timestamp() END"
)
_SPENT: Final = f"CASE WHEN budgets.period_start < {_START} THEN 0 ELSE budgets.spent_usd END"


@dataclass(frozen=True, slots=True)
class StoredBudget:
    """A budget. `agent` and `key_id`: the runs to which it applies. Without them, it applies to all
    runs of the project. `limit`, `spent` and `reserved`: in its unit."""

    id: UUID
    agent: str | None
    key_id: KeyId | None
    period: BudgetPeriod
    unit: BudgetUnit
    limit: float
    on_limit: BudgetAction
    spent: float
    reserved: float
    period_start: datetime
    period_end: datetime
    created_at: datetime
    updated_at: datetime


Reserved: TypeAlias = Literal["reserved", "no_budget", "unknown_price"] | BudgetWait

_OWN: Final = (
    *("id", "agent", "key_id", "period", "unit", "on_limit"),
    *("created_at", "updated_at"),
)
_BUDGET: Final = RowMapping(StoredBudget, budgets, only=_OWN)
_COLUMNS: Final = (
    *(budgets.c[name] for name in _BUDGET.columns),
    budgets.c.limit_usd.label("limit"),
    literal_column(f"CAST({_SPENT} AS float8)", Double).label("spent"),
    sql_cast(budgets.c.reserved_usd, Double).label("reserved"),
    literal_column(_START, TIMESTAMP).label("period_start"),
    literal_column(_END, TIMESTAMP).label("period_end"),
)
_APPLYING: Final = (
    "budgets.project_id = :project_id AND (budgets.agent IS NULL OR budgets.agent = :agent)"
    " AND (budgets.key_id IS NULL OR budgets.key_id = :key_id)"
)
_NEEDS_PRICE: Final = text(
    f"SELECT EXISTS (SELECT 1 FROM budgets WHERE {_APPLYING} AND unit = '{BudgetUnit.USD}')"
)
# PostgreSQL adds the amounts as in _WAKE. With another rounding, a woken run could find no room.
_LOCK_APPLYING: Final = text(
    "SELECT id, unit, limit_usd AS limit, on_limit = 'ask' AS asks,"
    f" {_SPENT} + reserved_usd + CAST(CASE unit WHEN '{BudgetUnit.TOKENS}'"
    " THEN CAST(:tokens AS float8) ELSE CAST(:cost AS float8) END AS numeric) > limit_usd AS full,"
    f" {_END} AS period_end, {_DELAY} AS delay"
    f" FROM budgets WHERE {_APPLYING} ORDER BY id FOR UPDATE"
)
# If the first try was committed and its response was lost, the second one changes nothing.
_RESERVE: Final = text(
    """
WITH made AS (
  INSERT INTO budget_reservations (project_id, budget_id, run_id, fence, amount_usd)
  SELECT :project_id, id, :run_id, :fence, estimate
  FROM unnest(CAST(:ids AS uuid[]), CAST(:estimates AS float8[])) AS b(id, estimate)
  ON CONFLICT DO NOTHING
  RETURNING budget_id, amount_usd
), continued AS (
  DELETE FROM budget_waits WHERE project_id = :project_id AND run_id = :run_id
)
UPDATE budgets SET reserved_usd = reserved_usd + made.amount_usd FROM made
WHERE project_id = :project_id AND id = made.budget_id"""
)
_LOCK_RESERVED: Final = text(
    "SELECT 1 FROM budgets WHERE project_id = :project_id AND id IN (SELECT budget_id"
    " FROM budget_reservations WHERE project_id = :project_id AND run_id = :run_id"
    " AND fence = :fence) ORDER BY id FOR UPDATE"
)
_CHARGE: Final = text(
    f"""
WITH gone AS (
  DELETE FROM budget_reservations
  WHERE project_id = :project_id AND run_id = :run_id AND fence = :fence
  RETURNING budget_id, amount_usd
)
UPDATE budgets SET reserved_usd = reserved_usd - gone.amount_usd,
  spent_usd = {_SPENT} + CASE budgets.unit WHEN '{BudgetUnit.TOKENS}' THEN :tokens
    ELSE CAST(CAST(:cost AS float8) AS numeric) END,
  period_start = greatest(budgets.period_start, {_START})
FROM gone WHERE project_id = :project_id AND id = gone.budget_id"""
)
_WAIT: Final = text(
    "INSERT INTO budget_waits (project_id, run_id, budget_id, estimate_usd)"
    " VALUES (:project_id, :run_id, :budget_id, CAST(:estimate AS float8))"
    " ON CONFLICT (project_id, run_id) DO UPDATE"
    " SET budget_id = excluded.budget_id, estimate_usd = excluded.estimate_usd"
)
# A reservation is lost if the claim that made it has ended without a step, for example because the
# worker crashed, or the run was cancelled.
_LOST: Final = (
    "FROM budget_reservations v WHERE NOT EXISTS (SELECT 1 FROM runs r"
    " WHERE r.project_id = v.project_id AND r.id = v.run_id AND r.fence = v.fence"
    " AND r.status = 'in_progress')"
)
_LOCK_LOST: Final = text(
    "SELECT 1 FROM budgets WHERE (project_id, id) IN"
    f" (SELECT v.project_id, v.budget_id {_LOST}) ORDER BY id FOR UPDATE"
)
_RELEASE_LOST: Final = text(
    f"""
WITH gone AS (
  DELETE FROM budget_reservations WHERE (project_id, run_id, fence, budget_id) IN (
    SELECT v.project_id, v.run_id, v.fence, v.budget_id {_LOST}
  ) RETURNING project_id, run_id, budget_id, amount_usd
), sums AS (
  SELECT g.project_id, g.budget_id, sum(g.amount_usd) AS released,
    coalesce(sum(g.amount_usd) FILTER (WHERE r.status = '{RunStatus.CANCELLED}'), 0) AS charged
  FROM gone g LEFT JOIN runs r ON r.project_id = g.project_id AND r.id = g.run_id GROUP BY 1, 2
)
UPDATE budgets SET reserved_usd = reserved_usd - sums.released,
  spent_usd = {_SPENT} + sums.charged,
  period_start = greatest(budgets.period_start, {_START})
FROM sums WHERE budgets.project_id = sums.project_id AND id = sums.budget_id"""
)
# The smallest requests that fit together are woken, and the runs whose budget asks a person by now.
# `ready` keeps the runs of full budgets out of the sort, because there can be many of them. A wait
# is also removed if its run no longer waits. A locked run is skipped, because the lock's holder is
# changing it.
_WAKE: Final = text(
    f"""
WITH ready AS (
  SELECT w.project_id, w.budget_id, {_SPENT} + budgets.reserved_usd AS used,
    CASE budgets.on_limit WHEN 'wait' THEN budgets.limit_usd END AS most
  FROM (SELECT project_id, budget_id, min(estimate_usd) AS least FROM budget_waits GROUP BY 1, 2) w
  LEFT JOIN budgets ON budgets.project_id = w.project_id AND budgets.id = w.budget_id
  WHERE budgets.id IS NULL OR budgets.on_limit = 'ask'
    OR {_SPENT} + budgets.reserved_usd + w.least <= budgets.limit_usd
), w AS (
  SELECT w.project_id, w.run_id, ready.used, ready.most, sum(w.estimate_usd) OVER (
    PARTITION BY w.project_id, w.budget_id ORDER BY w.estimate_usd, w.run_id) AS needed
  FROM budget_waits w
  JOIN ready ON ready.project_id = w.project_id AND ready.budget_id = w.budget_id
), due AS (
  SELECT project_id, run_id FROM w WHERE most IS NULL OR used + needed <= most LIMIT :batch
), locked AS (
  SELECT r.project_id, r.id FROM runs r
  JOIN due ON due.project_id = r.project_id AND due.run_id = r.id
  ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
), gone AS (
  DELETE FROM budget_waits w USING locked
  WHERE w.project_id = locked.project_id AND w.run_id = locked.id
), woken AS (
  UPDATE runs r SET available_at = clock_timestamp() FROM locked
  WHERE r.project_id = locked.project_id AND r.id = locked.id
    AND r.status = 'queued' AND r.available_at > clock_timestamp()
  RETURNING r.id
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_work', '') FROM woken LIMIT 1
)
SELECT woken.id FROM woken LEFT JOIN hint ON true"""
)
_FORGET_ENDED: Final = text(
    "DELETE FROM budget_waits w USING runs r WHERE r.project_id = w.project_id"
    f" AND r.id = w.run_id AND r.status NOT IN ({OPEN_STATUSES})"
)
DUE: Final = f"SELECT 1 FROM budget_waits UNION ALL SELECT 1 {_LOST}"
"""Finds a row if a run waits for a budget or a reservation is lost."""


async def add_budget(tx: Tx, project_id: ProjectId, fields: Mapping[str, Any]) -> StoredBudget:
    made = insert(budgets).values(project_id=project_id, id=mint(), **fields)
    row = (await tx.execute(made.returning(*_COLUMNS))).one()
    await notify_tools(tx, project_id)
    return _read(row)


async def count_budgets(tx: Tx, project_id: ProjectId) -> int:
    query = select(func.count()).select_from(budgets).where(budgets.c.project_id == project_id)
    return (await tx.execute(query)).scalar_one()


async def get_budget(
    tx: Tx, project_id: ProjectId, budget_id: UUID, *, lock: bool = False
) -> StoredBudget | None:
    """Return the budget, or None if it does not exist. `lock`: until the transaction ends."""
    query = select(*_COLUMNS).where(*_identify(project_id, budget_id))
    found = (await tx.execute(query.with_for_update() if lock else query)).one_or_none()
    return None if found is None else _read(found)


async def list_budgets(
    tx: Tx, project_id: ProjectId, *, after: UUID | None, limit: int, descending: bool
) -> list[StoredBudget]:
    query = select_page(
        select(*_COLUMNS).where(budgets.c.project_id == project_id),
        budgets.c.id,
        after=after,
        limit=limit,
        descending=descending,
    )
    return [_read(row) for row in await tx.execute(query)]


async def update_budget(
    tx: Tx, project_id: ProjectId, budget_id: UUID, changes: Mapping[str, Any]
) -> StoredBudget | None:
    """Update the budget. The sweep wakes the runs that it has room for."""
    row = await tx.execute(
        update(budgets)
        .where(*_identify(project_id, budget_id))
        .values(**changes, updated_at=func.clock_timestamp())
        .returning(*_COLUMNS)
    )
    found = row.one_or_none()
    return None if found is None else _read(found)


async def delete_budget(tx: Tx, project_id: ProjectId, budget_id: UUID) -> bool:
    """Delete the budget and its reservations. The sweep wakes the runs that wait for it. Returns
    False if it does not exist."""
    gone = delete(budgets).where(*_identify(project_id, budget_id)).returning(budgets.c.id)
    if (await tx.execute(gone)).one_or_none() is None:
        return False
    await notify_tools(tx, project_id)
    return True


async def needs_price(
    tx: Tx, project_id: ProjectId, agent: str | None, key_id: UUID | None
) -> bool:
    """Return whether a budget limits the cost of runs of this agent and API key."""
    values = {"project_id": project_id, "agent": agent, "key_id": key_id}
    return (await tx.execute(_NEEDS_PRICE, values)).scalar_one()


async def reserve(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    fence: int,
    *,
    agent: str | None,
    key_id: UUID | None,
    estimate: Estimate,
    approved: ApprovedBudgets = frozenset(),
) -> Reserved:
    """Reserve the estimated usage of a request in all budgets that apply to the run, or in none of
    them. `approved`: the budgets that the run may exceed."""
    run = {"project_id": project_id, "agent": agent, "key_id": key_id, **asdict(estimate)}
    rows = (await tx.execute(_LOCK_APPLYING, run)).all()
    if not rows:
        return "no_budget"
    amounts = {row.id: estimate.of(BudgetUnit(row.unit)) for row in rows}
    if None in amounts.values():
        return "unknown_price"
    for row in sorted(rows, key=lambda row: row.asks):  # a person is asked only if that helps
        if row.full:
            amount = cast("float", amounts[row.id])
            unit, end = BudgetUnit(row.unit), row.period_end
            wait = BudgetWait(row.id, unit, row.limit, amount, end, row.delay, row.asks)
            if not (row.asks and is_approved(wait, approved)):
                return wait
    made: dict[str, Any] = {
        "project_id": project_id,
        "run_id": run_id,
        "fence": fence,
        "ids": list(amounts),
        "estimates": list(amounts.values()),
    }
    await tx.execute(_RESERVE, made)
    return "reserved"


async def apply_change(tx: Tx, project_id: ProjectId, run_id: RunId, change: BudgetChange) -> None:
    """Write a step's change of budgets, in the transaction that has written the step."""
    run: dict[str, Any] = {"project_id": project_id, "run_id": run_id}
    match change:
        case BudgetCharge(fence=fence):
            await tx.execute(_LOCK_RESERVED, run | {"fence": fence})
            await tx.execute(_CHARGE, run | asdict(change))
        case BudgetWait():
            wait = {"budget_id": change.budget_id, "estimate": change.estimate}
            await tx.execute(_WAIT, run | wait)
        case _:
            assert_never(change)


async def release_lost(tx: Tx) -> None:
    """Release the reservations of claims that have ended without a step. If a run was cancelled,
    its estimate counts, because the provider may charge for the request. Otherwise, a client could
    read a streamed response and cancel the run before it is charged."""
    await tx.execute(_LOCK_LOST)
    await tx.execute(_RELEASE_LOST)


async def forget_ended(tx: Tx) -> None:
    """Remove the waits of runs that have ended, for example because they were cancelled."""
    await tx.execute(_FORGET_ENDED)


async def wake_waiting(tx: Tx) -> int:
    """Wake the runs whose budgets have room for their next requests, and return their number."""
    return len((await tx.execute(_WAKE, {"batch": BATCH})).all())


def _read(row: Any) -> StoredBudget:
    return _BUDGET.read(
        row,
        limit=row.limit,
        spent=row.spent,
        reserved=row.reserved,
        period_start=row.period_start,
        period_end=row.period_end,
    )


def _identify(project_id: ProjectId, budget_id: UUID) -> tuple[Any, ...]:
    return (budgets.c.project_id == project_id, budgets.c.id == budget_id)
