"""Erasures of everything with the same metadata: the runs with this metadata, the sessions with it,
and all runs of these sessions.

An erasure reads all runs of the project in the order of their IDs, and then all sessions, one page
in each transaction. It stores its position, so any worker can continue it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from typing import Any, Final
from uuid import UUID

from sqlalchemy import insert, select, text

from runward.domain import errors as e
from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject, compact
from runward.domain.run.abandoned import Closed
from runward.store.access import holds
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint
from runward.store.postgres.tables import OPEN_STATUSES, erasures
from runward.store.runs import erasure, sessions

SCAN: Final = 2_000
"""Maximum number of runs, or of sessions, that one transaction reads."""
BATCH: Final = 50
"""Maximum number of runs that one transaction erases."""
MAX_OPEN: Final = 100
"""Maximum number of unfinished erasures of a project."""

_DUE: Final = text(
    "SELECT project_id, id FROM erasures WHERE ended_at IS NULL ORDER BY id LIMIT :batch"
)
_COUNT_OPEN: Final = text(
    "SELECT count(*) FROM erasures WHERE project_id = :project_id AND ended_at IS NULL"
)
_MATCHING: Final = """{row}.metadata @> CAST(:metadata AS jsonb)
  AND NOT EXISTS (SELECT FROM jsonb_each(CAST(:metadata AS jsonb)) m
    WHERE {row}.metadata -> m.key <> m.value)"""
"""SQL condition for a row whose metadata has these keys with these values. An object also contains
`{}`, so `@>` alone would match more rows."""
_MATCHING_RUN: Final = f"""r.parent_run_id IS NULL AND r.erased_at IS NULL
  AND ({_MATCHING.format(row="r")} OR r.session_id IS NOT NULL AND EXISTS (
    SELECT FROM sessions s WHERE s.project_id = r.project_id AND s.id = r.session_id
      AND {_MATCHING.format(row="s")}))"""
_RUNS: Final = text(
    f"""
SELECT r.id, {_MATCHING_RUN} AS matches, r.status IN ({OPEN_STATUSES}) AS is_open FROM runs r
WHERE r.project_id = :project_id AND r.id > :position ORDER BY r.id LIMIT :scan"""
)
_SESSIONS: Final = text(
    f"SELECT s.id, {_MATCHING.format(row='s')} AS matches FROM sessions s"
    " WHERE s.project_id = :project_id AND s.id > :position ORDER BY s.id LIMIT :scan"
)
# Runs that were started after the erasure had read the runs.
_RUNS_OF_SESSION: Final = text(
    f"SELECT r.id, true AS matches, r.status IN ({OPEN_STATUSES}) AS is_open FROM runs r"
    " WHERE r.project_id = :project_id AND r.session_id = :session_id"
    " AND r.session_seq IS NOT NULL AND r.erased_at IS NULL ORDER BY r.session_seq LIMIT :scan"
)
_OPEN: Final = text(
    "SELECT project_id, id, metadata, in_sessions, position FROM erasures"
    " WHERE project_id = :project_id AND id = :id AND ended_at IS NULL FOR UPDATE SKIP LOCKED"
)
_ADVANCE: Final = text(
    "UPDATE erasures SET position = :position, in_sessions = :in_sessions,"
    " runs_erased = runs_erased + :runs, sessions_deleted = sessions_deleted + :sessions,"
    " held = held + :held WHERE project_id = :project_id AND id = :id"
)
_FINISH: Final = text(
    "UPDATE erasures SET metadata = NULL, ended_at = clock_timestamp()"
    " WHERE project_id = :project_id AND id = :id"
)
_FIRST: Final = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure and its progress. `held`: runs and sessions that it skipped because of a hold."""

    id: UUID
    runs_erased: int
    sessions_deleted: int
    held: int
    created_at: datetime
    ended_at: datetime | None


_ERASURE: Final = RowMapping(Erasure, erasures)


async def add_erasure(tx: Tx, project_id: ProjectId, metadata: JsonObject) -> Erasure:
    """Raises TooManyRequestsError."""
    if (await tx.execute(_COUNT_OPEN, {"project_id": project_id})).scalar_one() >= MAX_OPEN:
        raise e.TooManyRequestsError(
            f"This project already has {MAX_OPEN} unfinished erasures, which is the maximum. Retry "
            "when one of them has ended."
        )
    made = insert(erasures).values(
        project_id=project_id, id=mint(), metadata=metadata, position=_FIRST
    )
    return _ERASURE.read((await tx.execute(made.returning(erasures))).one())


async def get_erasure(tx: Tx, project_id: ProjectId, erasure_id: UUID) -> Erasure | None:
    query = select(erasures).where(erasures.c.project_id == project_id, erasures.c.id == erasure_id)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _ERASURE.read(row)


async def list_due(tx: Tx, limit: int) -> list[tuple[ProjectId, UUID]]:
    rows = await tx.execute(_DUE, {"batch": limit})
    return [(ProjectId(row.project_id), row.id) for row in rows]


@dataclass(frozen=True, slots=True)
class _Page:
    """The next rows of an erasure. `runs`: the runs that it must read, of which those with
    `matches` must be erased. `session_id`: the session that it deletes after them. `end`: its
    position after the page. `is_last`: the table has no further rows."""

    position: UUID
    in_sessions: bool
    runs: Sequence[Any]
    end: UUID
    is_last: bool
    session_id: SessionId | None = None


async def list_runs_to_cancel(tx: Tx, limit: int) -> list[tuple[ProjectId, RunId]]:
    """Return the open runs of the next page of each erasure. They must be cancelled, one after
    another, before `advance` can erase them."""
    found: list[tuple[ProjectId, RunId]] = []
    for project_id, erasure_id in await list_due(tx, limit):
        if (page := await _lock_page(tx, project_id, erasure_id)) is not None:
            opened = [RunId(row.id) for row in page.runs if row.matches and row.is_open][:BATCH]
            held = await holds.find_held_runs(tx, project_id, opened)
            found += [(project_id, run_id) for run_id in opened if run_id not in held]
    return found


async def advance(tx: Tx, project_id: ProjectId, erasure_id: UUID) -> Closed | None:
    """Process the next page, up to a run that has not ended yet. Returns None if there is nothing
    to do before this run, or if another process advances the erasure."""
    page = await _lock_page(tx, project_id, erasure_id)
    if page is None:
        return None
    await holds.lock_for_erasure(tx, project_id)
    matching = [RunId(row.id) for row in page.runs if row.matches]
    held = await holds.find_held_runs(tx, project_id, matching)
    free = [run_id for run_id in matching if run_id not in held][:BATCH]
    families = await erasure.list_families(tx, project_id, free)
    ready = await erasure.lock_ended(tx, project_id, families)
    await erasure.erase_content(tx, project_id, [run_id for one in ready for run_id in one.ids])
    done = held | {one.root for one in ready}
    passed = [*takewhile(lambda row: not row.matches or row.id in done, page.runs)]
    counts = {"runs": len(ready), "sessions": 0, "held": 0}
    about = {"project_id": project_id, "id": erasure_id}
    is_whole = len(passed) == len(page.runs)
    position, in_sessions = page.position, page.in_sessions
    if not in_sessions:  # The erasure has read the runs of a session before.
        counts["held"] = sum(row.id in held for row in passed)
    if is_whole or not in_sessions:
        position = page.end if is_whole else passed[-1].id if passed else position
    if is_whole and page.session_id is not None:
        deleted = await _delete_session(tx, project_id, page.session_id)
        counts["sessions" if deleted else "held"] += 1
    if is_whole and page.is_last and not in_sessions:
        position, in_sessions = _FIRST, True
    elif is_whole and page.is_last:
        await tx.execute(_FINISH, about)
    where = {"position": position, "in_sessions": in_sessions}
    await tx.execute(_ADVANCE, about | where | counts)
    return Closed() if ready or is_whole or passed else None


async def _lock_page(tx: Tx, project_id: ProjectId, erasure_id: UUID) -> _Page | None:
    """Lock an unfinished erasure, and return its next page. Returns None if another process holds
    the lock."""
    one = (await tx.execute(_OPEN, {"project_id": project_id, "id": erasure_id})).one_or_none()
    if one is None:
        return None
    values: dict[str, Any] = {
        "project_id": project_id,
        "metadata": compact(one.metadata),
        "position": one.position,
        "scan": SCAN,
    }
    rows = (await tx.execute(_SESSIONS if one.in_sessions else _RUNS, values)).all()
    end = rows[-1].id if rows else one.position
    is_last = len(rows) < SCAN
    if not one.in_sessions:
        return _Page(one.position, False, rows, end, is_last)
    session_id = next((row.id for row in rows if row.matches), None)
    if session_id is None:
        return _Page(one.position, True, (), end, is_last)
    values = {"project_id": project_id, "session_id": session_id, "scan": SCAN}
    runs = (await tx.execute(_RUNS_OF_SESSION, values)).all()
    return _Page(one.position, True, runs, session_id, False, SessionId(session_id))


async def _delete_session(tx: Tx, project_id: ProjectId, session_id: SessionId) -> bool:
    """Return False if the session or an open run of it is under a hold."""
    try:
        await sessions.delete(tx, project_id, session_id)
    except (e.LegalHoldError, e.SessionBusyError):
        return False
    return True
