"""The log of a project: the events of all its runs, in an order in which none is missed.

The events are ordered by the number of their transaction, then by run, then by sequence number. A
transaction with a lower number may commit later than one with a higher number. Therefore, a reader
sees only transactions below the horizon: the oldest transaction that was open when the query began.
All transactions below it have ended, so nothing can be added there. Events from before migration
0030 have no number, and are not in the log. See
docs/decisions/webhook-endpoints.md.
"""

import re
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import ProjectId
from runward.store.live.events import StoredEvent, encode_event
from runward.store.postgres.columns import TRANSACTION_ID
from runward.store.postgres.db import Tx

_OFFSET: Final = "coalesce((SELECT transaction_offset FROM deployment), 0)"
HORIZON: Final = f"""(CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)
  + {_OFFSET})"""
"""The number of the first transaction to which events may still be added."""
_NO_RUN: Final = UUID(int=0)
_LAST_RUN: Final = UUID(int=2**128 - 1)
_MAX_TRANSACTION: Final = 2**63 - 1
_MAX_SEQUENCE: Final = 2**31 - 1
_CURSOR: Final = re.compile(r"([0-9]{1,19})-([0-9a-f]{32})-([0-9]{1,10})")
_PAGE: Final = text(
    f"""
SELECT run_id, seq, type, CAST(data AS text) AS data, created_at, transaction_id FROM run_events
WHERE project_id = :project_id AND transaction_id >= :transaction_id
  AND (transaction_id, run_id, seq) > (:transaction_id, CAST(:run_id AS uuid), :sequence)
  AND transaction_id < (SELECT {HORIZON})
ORDER BY transaction_id, run_id, seq LIMIT :count"""
)
_HORIZON: Final = text(f"SELECT {HORIZON}")


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in the log: after this event."""

    transaction_id: int = 0
    run_id: UUID = _NO_RUN
    sequence: int = 0

    def __str__(self) -> str:
        return f"{self.transaction_id}-{self.run_id.hex}-{self.sequence}"

    @classmethod
    def parse(cls, cursor: str) -> "LogPosition | None":
        """Return the position of a cursor, or None if the cursor is not valid."""
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            return None
        position = cls(int(found[1]), UUID(hex=found[2]), int(found[3]))
        fits = position.transaction_id <= _MAX_TRANSACTION and position.sequence <= _MAX_SEQUENCE
        return position if fits else None


async def read_log(
    tx: Tx, project_id: ProjectId, after: LogPosition, count: int
) -> list[tuple[LogPosition, StoredEvent]]:
    """Return at most `count` events after a position."""
    values = {
        "project_id": project_id,
        "transaction_id": after.transaction_id,
        "run_id": after.run_id,
        "sequence": after.sequence,
        "count": count,
    }
    return [
        (
            LogPosition(row.transaction_id, row.run_id, row.seq),
            encode_event(row.run_id, row.seq, row.type, row.created_at, row.data),
        )
        for row in await tx.execute(_PAGE, values)
    ]


async def find_end(tx: Tx) -> LogPosition:
    """Return the current end of every log."""
    horizon = (await tx.execute(_HORIZON)).scalar_one()
    return LogPosition(horizon - 1, _LAST_RUN, _MAX_SEQUENCE)


# A new server counts transactions from the beginning, also after its database was restored from a
# dump. Then the numbers in the database are higher than the next transaction's.
_MISSING_OFFSET: Final = text(
    f"""
SELECT greatest(
    (SELECT max(e.last) FROM projects p CROSS JOIN LATERAL (
      SELECT max(transaction_id) AS last FROM run_events WHERE project_id = p.id) AS e),
    (SELECT max(transaction_id) FROM webhook_cursors), 0)
  - CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint) - {_OFFSET} + 1"""
)
_ADD_OFFSET: Final = text(
    "UPDATE deployment SET transaction_offset = transaction_offset + :missing"
    " RETURNING transaction_offset"
)


async def continue_numbers(tx: Tx) -> int:
    """Let the numbers of new events follow the stored ones, if the database was restored to another
    server. The caller has locked the row of `deployment`. Returns the number that was added."""
    missing = (await tx.execute(_MISSING_OFFSET)).scalar_one()
    if missing <= 0:
        return 0
    offset = (await tx.execute(_ADD_OFFSET, {"missing": missing})).scalar_one()
    await tx.execute(
        text(
            "ALTER TABLE run_events ALTER COLUMN transaction_id"
            f" SET DEFAULT {TRANSACTION_ID.text} + {int(offset)}"
        )
    )
    return missing
