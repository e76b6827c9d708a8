"""The items that a session stores of its earlier runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject, compact
from runward.domain.run.items import Item, item_from_json
from runward.store.postgres.db import Tx
from runward.store.runs import sessions

MAX_RUNS: Final = 200
"""Maximum number of earlier runs whose items a run gets."""
MAX_BYTES: Final = 4_194_304
"""Maximum size in bytes of these items as JSON. The newest run's items are always included."""
MAX_ADDED: Final = 1000
"""Number of items after which added items get a new row."""
_MAX_SEQ: Final = 2**62
_NO_RUN: Final = UUID(int=0)
"""The run of the items that clients added."""


@dataclass(frozen=True, slots=True)
class SessionItem:
    """An item of a session. `number`: the position of the item among the items of its run, from 1.
    `run_id`: None if a client added the item to the session."""

    seq: int
    number: int
    run_id: RunId | None
    item: JsonObject


_HISTORY: Final = text(
    """
SELECT items FROM (
  SELECT seq, items, row_number() OVER w AS nth,
    sum(octet_length(CAST(items AS text))) OVER w AS bytes
  FROM (
    SELECT seq, items FROM session_items
    WHERE project_id = :project_id AND session_id = :session_id AND seq < :before_seq
      AND run_id IS DISTINCT FROM (SELECT r.continued_from FROM runs r
        WHERE r.project_id = :project_id AND r.session_id = :session_id
          AND r.session_seq = :before_seq)
    ORDER BY seq DESC LIMIT :runs
  ) newest WINDOW w AS (ORDER BY seq DESC ROWS UNBOUNDED PRECEDING)
) kept WHERE nth = 1 OR bytes <= :bytes ORDER BY seq"""
)
_ITEMS: Final = """
SELECT k.seq, i.number, k.run_id, i.item FROM session_items k
CROSS JOIN LATERAL json_array_elements(k.items) WITH ORDINALITY AS i(item, number)
WHERE json_typeof(i.item) <> 'null' AND k.project_id = :project_id AND k.session_id = :session_id
  AND k.seq {op}= :seq AND (k.seq, i.number) {op} (CAST(:seq AS bigint), CAST(:number AS bigint))
ORDER BY k.seq {order}, i.number {order} LIMIT :limit"""
_ASCENDING: Final = text(_ITEMS.format(op=">", order="ASC"))
_DESCENDING: Final = text(_ITEMS.format(op="<", order="DESC"))


async def load_history(
    tx: Tx, project_id: ProjectId, session_id: SessionId, before_seq: int
) -> tuple[tuple[Item, ...], ...]:
    """Return the items of each earlier run, oldest run first. If the limits do not allow all runs,
    return the newest ones. The run at `before_seq` already contains the items of the run that it
    continues, so those are not included."""
    values = {"project_id": project_id, "session_id": session_id, "before_seq": before_seq}
    rows = await tx.execute(_HISTORY, values | {"runs": MAX_RUNS, "bytes": MAX_BYTES})
    return tuple(
        tuple(item_from_json(item) for item in row.items if item is not None) for row in rows
    )


async def list_items(
    tx: Tx,
    project_id: ProjectId,
    session_id: SessionId,
    *,
    after: tuple[int, int] | None,
    limit: int,
    descending: bool,
) -> list[SessionItem]:
    """Return a page of items. `after`: the `seq` and the number of an item, which need not
    exist."""
    seq, number = after or ((_MAX_SEQ, 0) if descending else (0, 0))
    values = {"project_id": project_id, "session_id": session_id, "limit": limit}
    query = _DESCENDING if descending else _ASCENDING
    rows = await tx.execute(query, values | {"seq": seq, "number": number})
    return [_item_from_row(row) for row in rows]


def _item_from_row(row: Any) -> SessionItem:
    run_id = None if row.run_id == _NO_RUN else RunId(row.run_id)
    return SessionItem(row.seq, row.number, run_id, row.item)


_ADD: Final = text(
    """
INSERT INTO session_items (project_id, session_id, seq, run_id, items)
VALUES (:project_id, :session_id, :seq, :run_id, CAST(:items AS json))
ON CONFLICT (project_id, session_id, seq) DO UPDATE SET items = CAST(
  CAST(session_items.items AS jsonb) || CAST(excluded.items AS jsonb) AS json)
RETURNING json_array_length(session_items.items)"""
)
_DELETE: Final = text(
    """
UPDATE session_items SET items = CAST(
  jsonb_set(CAST(items AS jsonb), ARRAY[CAST(:number - 1 AS text)], 'null', false) AS json)
WHERE project_id = :project_id AND session_id = :session_id AND seq = :seq"""
)
_LAST: Final = text(
    "SELECT seq, run_id, json_array_length(items) AS length FROM session_items"
    " WHERE project_id = :project_id AND session_id = :session_id AND seq = :seq"
)


async def add_items(
    tx: Tx, project_id: ProjectId, session_id: SessionId, items: Sequence[JsonObject]
) -> list[SessionItem]:
    """Append items that belong to no run, and return them. Items that are added one after another
    share a row, so that a call and its result can be added separately. Raises
    SessionNotFoundError."""
    await sessions.lock(tx, project_id, session_id)
    last = await sessions.read_last_seq(tx, project_id, session_id)
    values = {"project_id": project_id, "session_id": session_id}
    row = (await tx.execute(_LAST, values | {"seq": last})).one_or_none()
    shares = row is not None and row.run_id == _NO_RUN and row.length < MAX_ADDED
    seq = last if shares else await sessions.take_next_seq(tx, project_id, session_id)
    kept = values | {"seq": seq, "run_id": _NO_RUN, "items": compact(list(items))}
    end: int = (await tx.execute(_ADD, kept)).scalar_one()
    begin = end - len(items) + 1
    return [SessionItem(seq, n, None, item) for n, item in enumerate(items, start=begin)]


async def get_item(
    tx: Tx, project_id: ProjectId, session_id: SessionId, seq: int, number: int
) -> SessionItem | None:
    found = await list_items(
        tx, project_id, session_id, after=(seq, number - 1), limit=1, descending=False
    )
    return next((one for one in found if (one.seq, one.number) == (seq, number)), None)


async def delete_item(
    tx: Tx, project_id: ProjectId, session_id: SessionId, seq: int, number: int
) -> None:
    """Delete the item. The numbers of the other items stay the same."""
    values = {"project_id": project_id, "session_id": session_id}
    await tx.execute(_DELETE, values | {"seq": seq, "number": number})
