"""The items that a session stores of its earlier runs."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.run.items import Item, item_from_json
from runward.store.postgres.db import Tx

MAX_RUNS: Final = 200
"""Maximum number of earlier runs whose items a run gets."""
MAX_BYTES: Final = 4_194_304
"""Maximum size in bytes of these items as JSON. The newest run's items are always included."""
_MAX_SEQ: Final = 2**62


@dataclass(frozen=True, slots=True)
class SessionItem:
    """An item of a session. `number`: the position of the item among the items of its run, from
    1."""

    seq: int
    number: int
    run_id: RunId
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
WHERE k.project_id = :project_id AND k.session_id = :session_id
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
    return tuple(tuple(item_from_json(item) for item in row.items) for row in rows)


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
    return [SessionItem(row.seq, row.number, RunId(row.run_id), row.item) for row in rows]
