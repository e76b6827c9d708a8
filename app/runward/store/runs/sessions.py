"""Sessions, and the order of their runs.

Runs of one session never interleave: a run can be claimed only when every run with a lower
`session_seq` has ended. Numbers are assigned under the session's lock and become visible in order,
and an ended run never opens again. So the first open run stays the first. The lock order is run,
then session: this module never waits for a run while it holds a session's lock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete as delete_from
from sqlalchemy import func, insert, select, text, update

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.errors import FieldError
from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject, compact
from runward.domain.run.sessions import MAX_STATE_BYTES, ConflictMode, fits_limit, merge_delta
from runward.store.access import holds
from runward.store.postgres.columns import RowMapping
from runward.store.postgres.db import Tx, mint, select_page
from runward.store.postgres.tables import OPEN_STATUSES, session_items, sessions

MAX_OPEN_RUNS: Final = 1000
"""Maximum number of open runs of one session."""
MAX_FORKED_RUNS: Final = 1000
"""Maximum number of runs whose items a fork begins with, newest first."""
MAX_CANCEL_ROUNDS: Final = 3
"""Maximum number of times that a new run with `cancel_previous` cancels the earlier runs."""
BATCH: Final = 200
"""Maximum number of runs that one sweep lets start."""


@dataclass(frozen=True, slots=True)
class SessionSlot:
    """A run's place in its session. `waits`: earlier runs are open, so `available_at` must be
    infinity. If `previous` is not empty, no slot was taken: cancel these runs in this order, and
    request a slot again."""

    seq: int
    waits: bool
    previous: tuple[RunId, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredSession:
    id: SessionId
    name: str | None
    metadata: JsonObject
    state: JsonObject
    on_conflict: ConflictMode
    forked_from: SessionId | None
    created_at: datetime
    updated_at: datetime


_SESSION: Final = RowMapping(StoredSession, sessions)

_DELETE_ANSWERS: Final = text(
    """
DELETE FROM idempotency_keys k USING (VALUES ('POST /v1/sessions'), ('POST /v1/conversations'))
  AS r(prefix)
WHERE k.project_id = :project_id AND k.answer IS NOT NULL
  AND k.route ~>=~ r.prefix AND k.route ~<~ (r.prefix || chr(1114111))
  AND (k.resource_id = CAST(:session_id AS uuid) OR k.route LIKE
    '%\\_' || replace(CAST(CAST(:session_id AS uuid) AS text), '-', '') || '%')"""
)
"""The responses that created the session, and the responses to other requests about it."""

# The order of runs.

# A run starts only after all earlier ones have ended. Therefore all runs before the newest started
# run have ended, and the query does not need to read them.
_OPEN: Final = f"""
  SELECT o.project_id, o.id, o.session_seq, o.status, o.available_at, o.started_at FROM runs o
  WHERE o.project_id = {{session}}.project_id AND o.session_id = {{session}}.id
    AND o.status IN ({OPEN_STATUSES})
    AND o.session_seq >= coalesce((SELECT b.session_seq FROM runs b
      WHERE b.project_id = {{session}}.project_id AND b.session_id = {{session}}.id
        AND b.session_seq IS NOT NULL AND b.started_at IS NOT NULL
      ORDER BY b.session_seq DESC LIMIT 1), 0)"""
_ONE_SESSION: Final = """
WITH s AS (SELECT CAST(:project_id AS uuid) AS project_id, CAST(:session_id AS uuid) AS id)"""
_OPEN_RUNS: Final = text(
    _ONE_SESSION
    + " SELECT r.id FROM s CROSS JOIN LATERAL ("
    + _OPEN.format(session="s")
    + " ) r ORDER BY r.session_seq DESC LIMIT :limit"
)
# A locked run is skipped, because waiting for it could take forever. If the lock's holder ends the
# run, it lets the next one start. If not, `wake_stranded` finds the run later.
_WAKE_BEGIN: Final = """, first AS (
  SELECT r.* FROM s CROSS JOIN LATERAL ("""
_WAKE_END: Final = """
  ORDER BY o.session_seq LIMIT 1) r
), due AS (
  SELECT r.project_id, r.id FROM runs r JOIN first f ON f.project_id = r.project_id AND f.id = r.id
  WHERE r.status = 'queued' AND r.available_at = 'infinity' AND r.started_at IS NULL
  LIMIT :batch FOR UPDATE OF r SKIP LOCKED
), woken AS (
  UPDATE runs r SET available_at = greatest(r.start_at, clock_timestamp()) FROM due
  WHERE r.project_id = due.project_id AND r.id = due.id
  RETURNING r.id
), hint AS MATERIALIZED (
  SELECT pg_notify('runward_work', CAST(id AS text)) FROM woken LIMIT 1
)
SELECT woken.id FROM woken LEFT JOIN hint ON true"""
_WAKE_NEXT: Final = text(
    _ONE_SESSION
    + _WAKE_BEGIN
    + _OPEN.format(session="s")
    + " AND o.id <> CAST(:run_id AS uuid)"
    + _WAKE_END
)
WAITING: Final = (
    "SELECT DISTINCT project_id, session_id AS id FROM runs WHERE status = 'queued'"
    " AND available_at = 'infinity' AND session_seq IS NOT NULL AND started_at IS NULL"
)
"""Selects the sessions with runs that wait for an earlier run."""
_WAKE_STRANDED: Final = text(
    f"WITH s AS ({WAITING})" + _WAKE_BEGIN + _OPEN.format(session="s") + _WAKE_END
)
_KEEP: Final = text(
    """
INSERT INTO session_items (project_id, session_id, seq, run_id, items)
VALUES (:project_id, :session_id, :seq, :run_id, CAST(:items AS json))
ON CONFLICT DO NOTHING"""
)

_REPLACE: Final = text(
    """
DELETE FROM session_items k USING runs r
WHERE r.project_id = :project_id AND r.id = :run_id AND k.project_id = r.project_id
  AND k.session_id = :session_id AND k.run_id = r.continued_from"""
)


async def take_slot(
    tx: Tx, project_id: ProjectId, session_id: SessionId, on_conflict: ConflictMode | None
) -> SessionSlot:
    """Return the slot of the next run. The caller must insert the run's row in the same
    transaction. `on_conflict`: replaces the session's own setting. Raises SessionNotFoundError,
    SessionBusyError, TooManyRequestsError."""
    session = await lock(tx, project_id, session_id)
    waiting = await open_runs(tx, project_id, session_id)
    match on_conflict or session.on_conflict:
        case ConflictMode.REJECT if waiting:
            raise e.SessionBusyError
        case ConflictMode.CANCEL_PREVIOUS if waiting:
            return SessionSlot(0, waits=False, previous=waiting)
        case _ if len(waiting) >= MAX_OPEN_RUNS:
            raise e.TooManyRequestsError(
                f"This session already has {MAX_OPEN_RUNS} open runs, which is the "
                "maximum. Retry when one of them has ended."
            )
        case _:
            pass
    seq = await take_next_seq(tx, project_id, session_id)
    return SessionSlot(seq, waits=bool(waiting))


async def take_next_seq(tx: Tx, project_id: ProjectId, session_id: SessionId) -> int:
    """Return the next position in the session. The caller has locked the session."""
    taken = (
        update(sessions)
        .where(sessions.c.project_id == project_id, sessions.c.id == session_id)
        .values(last_seq=sessions.c.last_seq + 1)
        .returning(sessions.c.last_seq)
    )
    return (await tx.execute(taken)).scalar_one()


async def read_last_seq(tx: Tx, project_id: ProjectId, session_id: SessionId) -> int:
    """Return the last position that was taken in the session, or 0 if there is none."""
    query = select(sessions.c.last_seq).where(
        sessions.c.project_id == project_id, sessions.c.id == session_id
    )
    return (await tx.execute(query)).scalar_one()


async def close_run(
    tx: Tx,
    project_id: ProjectId,
    session_id: SessionId,
    session_seq: int,
    run_id: RunId,
    items: Sequence[JsonObject],
) -> None:
    """Store the items of an ending run that has a place in the session, and let the next run begin.
    The items replace those of the run that it continued. The caller has locked the run. A repeated
    call has no effect."""
    touched = (
        update(sessions)
        .where(sessions.c.project_id == project_id, sessions.c.id == session_id)
        .values(updated_at=func.clock_timestamp())
        .returning(sessions.c.id)
    )
    if (await tx.execute(touched)).one_or_none() is None:
        return
    values = {"project_id": project_id, "session_id": session_id, "run_id": run_id}
    kept = {"seq": session_seq, "items": compact(list(items))}
    await tx.execute(_KEEP, values | kept)
    if items:
        await tx.execute(_REPLACE, values)
    # This is a separate statement, because it must see the changes that were committed while the
    # previous statements waited for the lock.
    await tx.execute(_WAKE_NEXT, values | {"batch": 1})


async def wake_stranded(tx: Tx) -> int:
    """Wake runs that are the first of their session and were not woken. Returns their number."""
    return len((await tx.execute(_WAKE_STRANDED, {"batch": BATCH})).all())


async def open_runs(tx: Tx, project_id: ProjectId, session_id: SessionId) -> tuple[RunId, ...]:
    """Return the open runs, newest first, at most MAX_OPEN_RUNS, without child runs."""
    values = {"project_id": project_id, "session_id": session_id, "limit": MAX_OPEN_RUNS}
    return tuple(RunId(row.id) for row in await tx.execute(_OPEN_RUNS, values))


# Sessions.


async def create(
    tx: Tx,
    project_id: ProjectId,
    *,
    name: str | None,
    metadata: JsonObject,
    state: JsonObject,
    on_conflict: ConflictMode,
) -> StoredSession:
    made = insert(sessions).values(
        project_id=project_id,
        id=mint(),
        name=name,
        metadata=metadata,
        state=_check_state_size(state),
        on_conflict=on_conflict,
    )
    return _SESSION.read((await tx.execute(made.returning(sessions))).one())


async def get(tx: Tx, project_id: ProjectId, session_id: SessionId) -> StoredSession | None:
    query = select(sessions).where(sessions.c.project_id == project_id, sessions.c.id == session_id)
    row = (await tx.execute(query)).one_or_none()
    return None if row is None else _SESSION.read(row)


async def lock(
    tx: Tx, project_id: ProjectId, session_id: SessionId, *, waits_for_erasures: bool = False
) -> StoredSession:
    """Return the session, locked until the transaction ends. `waits_for_erasures`: wait until no
    transaction erases items of the session. Raises SessionNotFoundError."""
    query = select(sessions).where(sessions.c.project_id == project_id, sessions.c.id == session_id)
    locked = query.with_for_update(key_share=not waits_for_erasures)
    row = (await tx.execute(locked)).one_or_none()
    if row is None:
        raise not_found.SessionNotFoundError
    return _SESSION.read(row)


async def search(
    tx: Tx, project_id: ProjectId, *, after: UUID | None, limit: int, descending: bool
) -> list[StoredSession]:
    """Return a page of sessions, in the order in which they were created."""
    query = select(sessions).where(sessions.c.project_id == project_id)
    return [
        _SESSION.read(row)
        for row in await tx.execute(
            select_page(query, sessions.c.id, after=after, limit=limit, descending=descending)
        )
    ]


async def update_session(
    tx: Tx, project_id: ProjectId, session_id: SessionId, *, delta: JsonObject, **fields: Any
) -> StoredSession:
    """Merge `delta` into the state, and set `fields`: the changed ones of name, metadata and
    on_conflict. Raises SessionNotFoundError, InvalidRequestError."""
    session = await lock(tx, project_id, session_id)
    if delta:
        fields["state"] = _check_state_size(merge_delta(session.state, delta))
    changed = (
        update(sessions)
        .where(sessions.c.project_id == project_id, sessions.c.id == session_id)
        .values(updated_at=func.clock_timestamp(), **fields)
        .returning(sessions)
    )
    return _SESSION.read((await tx.execute(changed)).one())


async def delete(tx: Tx, project_id: ProjectId, session_id: SessionId) -> None:
    """Delete the session, its items, and the stored responses to requests about it. Its runs stay.
    Raises SessionNotFoundError, LegalHoldError, SessionBusyError."""
    await holds.ensure_session_is_free(tx, project_id, session_id)
    await lock(tx, project_id, session_id, waits_for_erasures=True)
    if await open_runs(tx, project_id, session_id):
        raise e.SessionBusyError
    await tx.execute(_DELETE_ANSWERS, {"project_id": project_id, "session_id": session_id})
    await tx.execute(
        delete_from(sessions).where(
            sessions.c.project_id == project_id, sessions.c.id == session_id
        )
    )


_MAX_SEQ: Final = 2**62
_COPY: Final = text(
    """
INSERT INTO session_items (project_id, session_id, seq, run_id, items, created_at)
SELECT project_id, CAST(:fork AS uuid), seq, run_id, items, created_at FROM session_items
WHERE project_id = :project_id AND session_id = :session_id AND seq <= :seq
ORDER BY seq DESC LIMIT :limit"""
)


async def fork(
    tx: Tx, project_id: ProjectId, session_id: SessionId, *, run_id: RunId | None, name: str | None
) -> StoredSession:
    """Create a session that continues after an ended run of this session. If `run_id` is None, it
    continues after the newest ended run. The new session begins with the current state. Raises
    SessionNotFoundError, RunNotFoundError, SessionBusyError."""
    session = await lock(tx, project_id, session_id, waits_for_erasures=True)
    seq = _MAX_SEQ if run_id is None else await _read_seq(tx, project_id, session_id, run_id)
    made = insert(sessions).values(
        project_id=project_id,
        id=mint(),
        name=session.name if name is None else name,
        metadata=session.metadata,
        state=session.state,
        on_conflict=session.on_conflict,
        forked_from=session_id,
        last_seq=select(sessions.c.last_seq)
        .where(sessions.c.project_id == project_id, sessions.c.id == session_id)
        .scalar_subquery(),
    )
    forked = _SESSION.read((await tx.execute(made.returning(sessions))).one())
    values = {"project_id": project_id, "session_id": session_id, "fork": forked.id, "seq": seq}
    await tx.execute(_COPY, values | {"limit": MAX_FORKED_RUNS})
    return forked


async def _read_seq(tx: Tx, project_id: ProjectId, session_id: SessionId, run_id: RunId) -> int:
    query = select(session_items.c.seq).where(
        session_items.c.project_id == project_id,
        session_items.c.session_id == session_id,
        session_items.c.run_id == run_id,
    )
    seq = (await tx.execute(query)).scalar_one_or_none()
    if seq is not None:
        return seq
    if run_id in await open_runs(tx, project_id, session_id):
        raise e.SessionBusyError(
            "A session can be forked only after a run that has ended. This run has not ended."
        )
    raise not_found.RunNotFoundError("This session has no run with this ID.")


def _check_state_size(state: JsonObject) -> JsonObject:
    if not fits_limit(state):
        wrong = FieldError("state", f"must be at most {MAX_STATE_BYTES} bytes as JSON")
        raise e.InvalidRequestError(errors=[wrong])
    return state
