"""Legal holds. Data under a hold is not erased.

A transaction that erases data of a project locks the row of the project with `lock_for_erasure`
before it reads the holds. A transaction that creates a hold locks it with `lock_for_change`, so it
waits until the others have committed. Steps of runs do not wait for either lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from runward.domain.errors import LegalHoldError
from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.retention import HoldKind
from runward.store.access.keys import ActingKey
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, select_page
from runward.store.postgres.tables import api_keys, legal_holds

PROJECT_HELD: Final = (
    "EXISTS (SELECT FROM legal_holds h WHERE h.project_id = {project} AND h.subject_id = {project})"
)
"""SQL condition for a project under a hold."""
RUN_HELD: Final = """EXISTS (SELECT FROM legal_holds h WHERE h.project_id = {run}.project_id
  AND h.subject_id = ANY(ARRAY[{run}.project_id, {run}.id, {run}.session_id] || ARRAY(
    SELECT i.session_id FROM session_items i
    WHERE i.project_id = {run}.project_id AND i.run_id = {run}.id)))"""
"""SQL condition for a run under a hold: its own, that of its project, or that of a session which
contains it or its items. A fork of a session contains the items of other runs."""
_LOCK_FOR_ERASURE: Final = text("SELECT 1 FROM projects WHERE id = :project_id FOR SHARE")
_LOCK_FOR_CHANGE: Final = text("SELECT 1 FROM projects WHERE id = :project_id FOR NO KEY UPDATE")
_HELD_RUNS: Final = text(
    "SELECT r.id FROM runs r WHERE r.project_id = :project_id"
    f" AND r.id = ANY(CAST(:ids AS uuid[])) AND {RUN_HELD.format(run='r')}"
)
# The items of a session are copies of the content of its runs.
_HELD_SESSION: Final = text(
    """
SELECT 1 FROM legal_holds WHERE project_id = :project_id AND subject_id = ANY(
  ARRAY[CAST(:project_id AS uuid), CAST(:session_id AS uuid)] || ARRAY(
    SELECT run_id FROM session_items
    WHERE project_id = :project_id AND session_id = :session_id))
LIMIT 1"""
)


@dataclass(frozen=True, slots=True)
class LegalHold:
    """A hold of a run, a session or a project. `created_by`: the key that created it."""

    subject_id: UUID
    kind: HoldKind
    reason: str
    created_at: datetime
    created_by: ActingKey


_HOLD: Final = RowMapping(
    LegalHold, legal_holds, only=["subject_id", "kind", "reason", "created_at"]
)
_SELECT: Final = select(legal_holds, api_keys.c.name.label("key_name")).join(
    api_keys,
    (api_keys.c.project_id == legal_holds.c.project_id)
    & (api_keys.c.id == legal_holds.c.created_by),
)


async def lock_for_erasure(tx: Tx, project_id: ProjectId) -> None:
    """Keep other transactions from changing the holds and the retention of the project."""
    await tx.execute(_LOCK_FOR_ERASURE, {"project_id": project_id})


async def lock_for_change(tx: Tx, project_id: ProjectId) -> None:
    """Wait until no transaction erases data of the project, and let no other one begin."""
    await tx.execute(_LOCK_FOR_CHANGE, {"project_id": project_id})


async def find_held_runs(tx: Tx, project_id: ProjectId, run_ids: Sequence[UUID]) -> set[RunId]:
    """Return the runs under a hold. Holds of their child runs do not exist."""
    rows = await tx.execute(_HELD_RUNS, {"project_id": project_id, "ids": list(run_ids)})
    return {RunId(row.id) for row in rows}


async def ensure_run_is_free(tx: Tx, project_id: ProjectId, run_id: RunId) -> None:
    """Raise LegalHoldError if the run is under a hold."""
    if await find_held_runs(tx, project_id, [run_id]):
        raise LegalHoldError


async def is_session_held(tx: Tx, project_id: ProjectId, session_id: SessionId) -> bool:
    values = {"project_id": project_id, "session_id": session_id}
    return (await tx.execute(_HELD_SESSION, values)).one_or_none() is not None


async def ensure_session_is_free(tx: Tx, project_id: ProjectId, session_id: SessionId) -> None:
    """Raise LegalHoldError if the session, its project or one of its runs is under a hold."""
    await lock_for_erasure(tx, project_id)
    if await is_session_held(tx, project_id, session_id):
        raise LegalHoldError


async def ensure_no_holds(tx: Tx, project_id: ProjectId) -> None:
    """Raise LegalHoldError if anything of the project is under a hold."""
    await lock_for_erasure(tx, project_id)
    if await list_holds(tx, project_id, after=None, limit=1, descending=False):
        raise LegalHoldError


async def put_hold(
    tx: Tx, project_id: ProjectId, subject_id: UUID, kind: HoldKind, reason: str, key_id: UUID
) -> LegalHold:
    """Create the hold, or replace its reason. The caller has called `lock_for_change`."""
    made = upsert(legal_holds).values(
        project_id=project_id, subject_id=subject_id, kind=kind, reason=reason, created_by=key_id
    )
    await tx.execute(
        made.on_conflict_do_update(
            index_elements=[legal_holds.c.project_id, legal_holds.c.subject_id],
            set_={"reason": made.excluded.reason},
        )
    )
    hold = await get_hold(tx, project_id, subject_id)
    assert hold is not None
    return hold


async def get_hold(tx: Tx, project_id: ProjectId, subject_id: UUID) -> LegalHold | None:
    query = _SELECT.where(
        legal_holds.c.project_id == project_id, legal_holds.c.subject_id == subject_id
    )
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _read(row)


async def list_holds(
    tx: Tx, project_id: ProjectId, *, after: UUID | None, limit: int, descending: bool
) -> list[LegalHold]:
    """Return a page of holds, in the order of the IDs of their subjects."""
    query = _SELECT.where(legal_holds.c.project_id == project_id)
    page = select_page(
        query, legal_holds.c.subject_id, after=after, limit=limit, descending=descending
    )
    return [_read(row) for row in await tx.execute(page)]


async def delete_hold(tx: Tx, project_id: ProjectId, subject_id: UUID) -> bool:
    """Return whether the hold existed."""
    gone = (
        delete(legal_holds)
        .where(legal_holds.c.project_id == project_id, legal_holds.c.subject_id == subject_id)
        .returning(legal_holds.c.subject_id)
    )
    return (await tx.execute(gone)).one_or_none() is not None


def _read(row: object) -> LegalHold:
    by = ActingKey(row.created_by, row.key_name)  # type: ignore[attr-defined]
    return _HOLD.read(row, created_by=by)
