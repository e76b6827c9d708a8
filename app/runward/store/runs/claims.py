"""Claim runs: lease them under a new fence, and load them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import randbits
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from runward.domain import errors as e
from runward.domain.events.kinds import RunResumedEvent, RunStartedEvent
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.run.state import RunState
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    Tx,
    is_outage,
    is_statement_timeout,
    log_fields,
)
from runward.store.runs.queries import STATE, load, parse_state

log = structlog.get_logger()

MAX_CLAIMS: Final = 3
"""Claims without progress after which a run is quarantined: their workers ended, or froze."""
MAX_LOST_LEASES: Final = 10
"""The same for claims whose workers went on living, but were too slow to keep the lease."""

# A row that is changed after the statement began is locked as it is by then, while the ledger
# and the history are read as they were (READ COMMITTED). `consistent` says that it was not: `b`
# is the row as it was before.
_CLAIM: Final = f"""
WITH c AS (
  SELECT project_id, id FROM runs
  WHERE status = 'queued' AND available_at <= statement_timestamp() AND claims < :max_claims
    AND lost_leases < :max_lost
  ORDER BY available_at LIMIT :count FOR UPDATE SKIP LOCKED
), r AS (
  UPDATE runs r SET status = 'in_progress', fence = r.fence + 1, claims = r.claims + 1,
    lease_expires_at = clock_timestamp() + CAST(:lease AS interval),
    last_write_id = CAST(:mark AS uuid),
    started_at = coalesce(r.started_at, clock_timestamp()), last_seq = r.last_seq + 1
  FROM c WHERE r.project_id = c.project_id AND r.id = c.id
  RETURNING r.*, clock_timestamp() AS at
), events AS (
  INSERT INTO run_events (project_id, run_id, seq, type, data, created_at)
  SELECT project_id, id, last_seq,
    CASE WHEN fence = 1 THEN '{RunStartedEvent.type}' ELSE '{RunResumedEvent.type}' END,
    '{{}}', at FROM r
)"""
CLAIM: Final = text(
    _CLAIM
    + STATE
    + """,
  (SELECT (b.version, b.fence + 1) = (r.version, r.fence) FROM runs b
    WHERE b.project_id = r.project_id AND b.id = r.id) AS consistent
FROM r"""
)
CLAIM_WITHOUT_STATE: Final = text(_CLAIM + " SELECT project_id, id, fence FROM r")
_GIVE_BACK: Final = text(
    """
WITH l AS (
  SELECT project_id, id FROM runs
  WHERE status = 'in_progress' AND last_write_id = ANY(CAST(:marks AS uuid[]))
  ORDER BY id FOR UPDATE SKIP LOCKED
)
UPDATE runs r SET status = 'queued', lease_expires_at = NULL, available_at = clock_timestamp(),
  claims = greatest(r.claims - 1, 0), last_write_id = NULL
FROM l WHERE r.project_id = l.project_id AND r.id = l.id RETURNING r.id"""
)


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease: the fence is the number of the claim."""

    project_id: ProjectId
    run_id: RunId
    fence: int


@dataclass(frozen=True, slots=True)
class ClaimedRuns:
    """The runs of one claim. Nobody can work on the unreadable ones, so they must be ended."""

    states: list[RunState] = field(default_factory=list[RunState])
    unreadable: list[HeldLease] = field(default_factory=list[HeldLease])


def make_mark() -> UUID:
    """Return a value that marks the runs of one claim until they are written. It is below every
    write id."""
    return UUID(int=randbits(64))


async def claim(tx: Tx, count: int, lease: timedelta, mark: UUID | None = None) -> ClaimedRuns:
    """Claim up to `count` runs, oldest first, under a new fence, and load them. `mark`: for
    `return_claims`."""
    rows = (await tx.execute(CLAIM, _claim_values(count, lease, mark))).mappings().all()
    claimed = ClaimedRuns()
    for row in rows:
        held = HeldLease(ProjectId(row["project_id"]), RunId(row["id"]), row["fence"])
        try:
            state = parse_state(row) if row["consistent"] else await _load_if_leased(tx, held)
        except e.RunUnreadableError:
            claimed.unreadable.append(held)
            continue
        if state is not None:
            claimed.states.append(state)
    return claimed


async def return_claims(tx: Tx, marks: Sequence[UUID]) -> list[UUID]:
    """Queue the runs of claims whose answers were lost, and take these claims back. Nobody works
    on the runs, and nobody has lost a worker."""
    return list((await tx.execute(_GIVE_BACK, {"marks": list(marks)})).scalars())


async def claim_one_by_one(
    engine: AsyncEngine, count: int, lease: timedelta, mark: UUID | None = None
) -> ClaimedRuns:
    """Do the same with one statement for each run, so that none of them can spoil the claim of the
    others. Use it after `claim` has failed."""
    async with engine.connect() as tx:
        rows = (await tx.execute(CLAIM_WITHOUT_STATE, _claim_values(count, lease, mark))).all()
    claimed = ClaimedRuns()
    for row in rows:
        held = HeldLease(ProjectId(row.project_id), RunId(row.id), row.fence)
        try:
            async with engine.connect() as tx:
                state = await _load_if_leased(tx, held)
        except e.RunUnreadableError:
            claimed.unreadable.append(held)
            continue
        except DATABASE_ERRORS as error:
            if is_outage(error) and not is_statement_timeout(error):
                raise  # so that the whole claim is given back
            # Its lease runs out.
            log.warning("claim_failed", run=format_id(Prefix.RUN, held.run_id), **log_fields(error))
            continue
        if state is not None:
            claimed.states.append(state)
    return claimed


def _claim_values(count: int, lease: timedelta, mark: UUID | None) -> dict[str, Any]:
    limits = {"max_claims": MAX_CLAIMS, "max_lost": MAX_LOST_LEASES}
    return {"count": count, "lease": lease, "mark": mark, **limits}


async def _load_if_leased(tx: Tx, held: HeldLease) -> RunState | None:
    """Load the run. None: the lease is lost already."""
    found = await load(tx, held.project_id, held.run_id)
    return None if found is None or found[1].fence != held.fence else found[1]
