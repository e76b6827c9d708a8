"""Recovery from failed claims: runs are returned to the queue, and claimed again one by one."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog
from sqlalchemy import text

from runward.domain import errors as e
from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.store.postgres.db import (
    DATABASE_ERRORS,
    Tx,
    is_outage,
    is_statement_timeout,
    log_fields,
)
from runward.store.postgres.engine import AsyncEngine
from runward.store.runs.queue import (
    CLAIM_STEPS,
    NO_TURN,
    ClaimedRuns,
    HeldLease,
    claim_values,
    load_if_leased,
)

log = structlog.get_logger()

_CLAIM_WITHOUT_STATE: Final = text(CLAIM_STEPS + " SELECT project_id, id, fence FROM r")
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


async def return_claims(tx: Tx, marks: Sequence[UUID]) -> list[UUID]:
    """Queue the runs of claims whose responses were lost, and undo these claims. No worker executes
    the runs, and the claims do not count as lost workers."""
    return list((await tx.execute(_GIVE_BACK, {"marks": list(marks)})).scalars())


async def claim_one_by_one(
    engine: AsyncEngine,
    count: int,
    lease: timedelta,
    mark: UUID | None = None,
    after: UUID = NO_TURN,
) -> ClaimedRuns:
    """Claim runs with one statement for each run, so that a run that fails does not affect the
    others. Use it after `claim` has failed."""
    values = claim_values(count, lease, mark, after)
    async with engine.connect() as tx:
        rows = (await tx.execute(_CLAIM_WITHOUT_STATE, values)).all()
    claimed = ClaimedRuns()
    for row in rows:
        held = HeldLease(ProjectId(row.project_id), RunId(row.id), row.fence)
        try:
            async with engine.connect() as tx:
                state = await load_if_leased(tx, held)
        except e.RunUnreadableError:
            claimed.unreadable.append(held)
            continue
        except DATABASE_ERRORS as error:
            if is_outage(error) and not is_statement_timeout(error):
                raise  # Raised, so that the complete claim is undone.
            # The run stays claimed until its lease expires.
            log.warning(
                "claim_failed",
                project=format_id(Prefix.PROJECT, held.project_id),
                run=format_id(Prefix.RUN, held.run_id),
                **log_fields(error),
            )
            continue
        if state is not None:
            claimed.states.append(state)
    return claimed
