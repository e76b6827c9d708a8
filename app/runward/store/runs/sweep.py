"""Sweeps for expired leases, approvals, callbacks and deadlines, for crash loops, and for expired
idempotency keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId
from runward.store import budgets
from runward.store.postgres.db import Tx
from runward.store.postgres.tables import OPEN_STATUSES
from runward.store.runs import erasure, sessions
from runward.store.runs.queue import MAX_CLAIMS, MAX_LOST_LEASES, HeldLease
from runward.store.schedules import slots
from runward.store.webhooks import deliveries, outbox

SweepKind: TypeAlias = Literal[
    "lease",
    "crash_loop",
    "approval",
    "callback",
    "result",
    "deadline",
    "orphan",
    "session",
    "erasure",
    "erasure_request",
    "notification",
    "delivery",
    "slot",
    "scheduled_run",
    "budget",
]
BATCH: Final = 200
"""Maximum number of rows of one kind in one sweep. After a full batch, the next sweep follows at
once."""
KEYS_BATCH: Final = 1_000
"""Maximum number of idempotency keys that one transaction deletes."""

_LEASES: Final = text(
    """
WITH lost AS (
  SELECT project_id, id FROM runs
  WHERE status = 'in_progress' AND lease_expires_at <= clock_timestamp()
  ORDER BY id LIMIT :batch FOR UPDATE SKIP LOCKED
), freed AS (
  UPDATE runs r SET status = 'queued', lease_expires_at = NULL, available_at = clock_timestamp()
  FROM lost WHERE r.project_id = lost.project_id AND r.id = lost.id
    AND r.status = 'in_progress' AND r.lease_expires_at <= clock_timestamp()
  RETURNING r.id
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_work', '') FROM freed LIMIT 1
)
SELECT freed.id FROM freed LEFT JOIN hint ON true"""
)
# Each row that is found is checked again under its run's lock with clock_timestamp(). These queries
# use statement_timestamp(), because an index cannot be used with a volatile function.
_APPROVALS: Final = (
    "SELECT project_id, id FROM approvals WHERE status = 'pending'"
    " AND expires_at <= statement_timestamp() ORDER BY expires_at LIMIT :batch"
)
_ANSWERS: Final = (
    "SELECT project_id, run_id, call_id FROM tool_calls WHERE phase = '{phase}'"
    " AND received IS NULL AND deadline_at <= statement_timestamp()"
    " ORDER BY deadline_at LIMIT :batch"
)
_CALLBACKS: Final = _ANSWERS.format(phase="awaiting_callback")
_RESULTS: Final = _ANSWERS.format(phase="awaiting_result")
_OVERDUE: Final = text(
    "SELECT deadline_at <= clock_timestamp() FROM tool_calls"
    " WHERE project_id = :project_id AND run_id = :run_id AND call_id = :call_id"
)
_DEADLINES: Final = (
    "SELECT project_id, id FROM runs WHERE status IN ('queued', 'requires_action')"
    " AND deadline_at <= statement_timestamp() ORDER BY deadline_at LIMIT :batch"
)
# A worker that is alive reports a lost lease within the duration of a lease, which undoes the
# claim. The index excludes runs that no worker may claim yet, because there may be many of them.
_CRASH_LOOPS: Final = (
    "SELECT project_id, id FROM runs WHERE status = 'queued'"
    " AND available_at <= statement_timestamp() AND (lost_leases >= :max_lost"
    " OR claims >= :max_claims"
    " AND available_at <= statement_timestamp() - CAST(:lease AS interval)) LIMIT :batch"
)
_IS_CRASH_LOOP: Final = text(
    "SELECT lost_leases >= :max_lost OR claims >= :max_claims FROM runs"
    " WHERE project_id = :project_id AND id = :id"
)
# A worker that ends a run also cancels its child runs. This query finds child runs of workers that
# were lost before they did so.
_ORPHANS: Final = (
    "SELECT DISTINCT k.project_id, k.parent_run_id AS id FROM runs k"
    " JOIN runs p ON p.project_id = k.project_id AND p.id = k.parent_run_id"
    " WHERE k.parent_run_id IS NOT NULL"
    f" AND k.status IN ({OPEN_STATUSES})"
    " AND p.ended_at < statement_timestamp() - interval '2 seconds' LIMIT :batch"
)
_DUE_KINDS: Final[Mapping[SweepKind, str]] = {
    "lease": "SELECT 1 FROM runs WHERE status = 'in_progress'"
    " AND lease_expires_at <= statement_timestamp()",
    "crash_loop": _CRASH_LOOPS,
    "approval": _APPROVALS,
    "callback": _CALLBACKS,
    "result": _RESULTS,
    "deadline": _DEADLINES,
    "orphan": _ORPHANS,
    "session": sessions.WAITING,
    "erasure": erasure.DUE,
    "erasure_request": "SELECT 1 FROM erasures WHERE ended_at IS NULL",
    "notification": outbox.DUE,
    "delivery": deliveries.DUE,
    "slot": slots.DUE,
    "scheduled_run": slots.STRANDED,
    "budget": budgets.DUE,
}
_DUE: Final = text(
    "SELECT " + ", ".join(f"EXISTS ({query}) AS {kind}" for kind, query in _DUE_KINDS.items())
)
_OLD_KEYS: Final = (
    "DELETE FROM idempotency_keys WHERE ctid = ANY(ARRAY(SELECT ctid FROM idempotency_keys"
    " WHERE expires_at <= statement_timestamp() ORDER BY expires_at LIMIT :batch"
    " FOR UPDATE SKIP LOCKED)) RETURNING 1"
)
_HEARTBEAT: Final = text(
    """
WITH h AS (
  SELECT * FROM unnest(CAST(:projects AS uuid[]), CAST(:ids AS uuid[]), CAST(:fences AS bigint[]),
    CAST(:kept AS bool[])) AS h(project_id, id, fence, kept)
), l AS (
  SELECT r.project_id, r.id FROM runs r
  JOIN h ON r.project_id = h.project_id AND r.id = h.id AND r.fence = h.fence AND h.kept
  WHERE r.status = 'in_progress' AND r.lease_expires_at > clock_timestamp()
  ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
), renewed AS (
  UPDATE runs r SET lease_expires_at = clock_timestamp() + CAST(:lease AS interval)
  FROM l WHERE r.project_id = l.project_id AND r.id = l.id
)
SELECT h.id, h.fence FROM h LEFT JOIN runs r ON r.project_id = h.project_id AND r.id = h.id
  AND r.fence = h.fence AND r.status = 'in_progress' AND r.lease_expires_at > clock_timestamp()
WHERE r.id IS NULL"""
)


# Locked runs are skipped, because the lock's holder is changing them.
_REVERT_CLAIMS: Final = text(
    """
WITH h AS (
  SELECT * FROM unnest(CAST(:projects AS uuid[]), CAST(:ids AS uuid[]), CAST(:fences AS bigint[]))
    AS h(project_id, id, fence)
), l AS (
  SELECT r.project_id, r.id FROM runs r
  JOIN h ON r.project_id = h.project_id AND r.id = h.id AND r.fence >= h.fence
  WHERE r.status IN ('queued', 'in_progress') AND r.claims > 0
  ORDER BY r.id FOR UPDATE OF r SKIP LOCKED
)
UPDATE runs r SET claims = r.claims - 1, lost_leases = r.lost_leases + 1
FROM l WHERE r.project_id = l.project_id AND r.id = l.id"""
)


@dataclass(frozen=True, slots=True)
class DueAnswer:
    project_id: ProjectId
    run_id: RunId
    call_id: CallId


async def renew_leases(
    tx: Tx, lease: timedelta, held: Sequence[HeldLease], dropped: Sequence[HeldLease] = ()
) -> list[HeldLease]:
    """Renew the leases in `held`, and return the lost ones of `held` and `dropped`. No worker uses
    the leases in `dropped`, so they expire. One process may have two leases of one run. If a run is
    locked, its lease is renewed at the next call, so that the others do not wait."""
    leases = [*held, *dropped]
    kept = [True] * len(held) + [False] * len(dropped)
    values = {"lease": lease, "kept": kept, **_leases_to_columns(leases)}
    lost = {(row.id, row.fence) for row in await tx.execute(_HEARTBEAT, values)}
    return [one for one in leases if (one.run_id, one.fence) in lost]


async def list_due_kinds(tx: Tx, lease: timedelta) -> set[SweepKind]:
    """Return the kinds of which at least one row is due. `lease`: see `list_crash_loops`."""
    limits = {"max_claims": MAX_CLAIMS, "max_lost": MAX_LOST_LEASES}
    values = {"batch": 1, "lease": lease, "grace": erasure.GRACE, **limits}
    row = (await tx.execute(_DUE, values)).mappings().one()
    return {kind for kind in _DUE_KINDS if row[kind]}


async def revert_claims(tx: Tx, leases: Sequence[HeldLease]) -> None:
    """Undo the claims of these leases. The worker that lost them is alive, so the runs did not
    crash it."""
    await tx.execute(_REVERT_CLAIMS, _leases_to_columns(leases))


def _leases_to_columns(held: Sequence[HeldLease]) -> dict[str, Any]:
    return {
        "projects": [one.project_id for one in held],
        "ids": [one.run_id for one in held],
        "fences": [one.fence for one in held],
    }


async def free_expired_leases(tx: Tx) -> list[UUID]:
    """Queue the runs whose leases have expired, and return their IDs. The next claim has a new
    fence."""
    return list((await tx.execute(_LEASES, {"batch": BATCH})).scalars())


async def list_due_approvals(tx: Tx, limit: int = BATCH) -> list[tuple[ProjectId, ApprovalId]]:
    rows = await _fetch(tx, _APPROVALS, limit)
    return [(ProjectId(row.project_id), ApprovalId(row.id)) for row in rows]


async def list_due_callbacks(tx: Tx, limit: int = BATCH) -> list[DueAnswer]:
    return await _list_due_answers(tx, _CALLBACKS, limit)


async def list_due_results(tx: Tx, limit: int = BATCH) -> list[DueAnswer]:
    """Return calls of client tools whose timeout has passed."""
    return await _list_due_answers(tx, _RESULTS, limit)


async def _list_due_answers(tx: Tx, statement: str, limit: int) -> list[DueAnswer]:
    return [
        DueAnswer(ProjectId(row.project_id), RunId(row.run_id), CallId(row.call_id))
        for row in await _fetch(tx, statement, limit)
    ]


async def is_overdue(tx: Tx, project_id: ProjectId, run_id: RunId, call_id: CallId) -> bool:
    """Return whether the deadline of the call's last attempt has passed."""
    values = {"project_id": project_id, "run_id": run_id, "call_id": call_id}
    return bool((await tx.execute(_OVERDUE, values)).scalar_one_or_none())


async def list_due_deadlines(tx: Tx, limit: int = BATCH) -> list[tuple[ProjectId, RunId]]:
    return [
        (ProjectId(row.project_id), RunId(row.id)) for row in await _fetch(tx, _DEADLINES, limit)
    ]


async def list_crash_loops(
    tx: Tx, lease: timedelta, limit: int = BATCH
) -> list[tuple[ProjectId, RunId]]:
    """Return runs that crash their workers. `lease`: the time within which a live worker reports a
    lost lease."""
    limits = {"max_claims": MAX_CLAIMS, "max_lost": MAX_LOST_LEASES}
    rows = await tx.execute(text(_CRASH_LOOPS), {"batch": limit, "lease": lease, **limits})
    return [(ProjectId(row.project_id), RunId(row.id)) for row in rows]


async def is_crash_loop(tx: Tx, project_id: ProjectId, run_id: RunId) -> bool:
    """Return whether the run still has too many claims or lost leases without progress."""
    limits = {"max_claims": MAX_CLAIMS, "max_lost": MAX_LOST_LEASES}
    values = {"project_id": project_id, "id": run_id, **limits}
    return bool((await tx.execute(_IS_CRASH_LOOP, values)).scalar_one_or_none())


async def list_orphans(tx: Tx, limit: int = BATCH) -> list[tuple[ProjectId, RunId]]:
    """Return ended runs that have open child runs."""
    return [(ProjectId(row.project_id), RunId(row.id)) for row in await _fetch(tx, _ORPHANS, limit)]


async def delete_expired_idempotency_keys(tx: Tx) -> int:
    """Delete a batch of expired keys, and return their number."""
    return len(await _fetch(tx, _OLD_KEYS, KEYS_BATCH))


async def _fetch(tx: Tx, statement: str, limit: int) -> Sequence[Any]:
    return (await tx.execute(text(statement), {"batch": limit})).all()
