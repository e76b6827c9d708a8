"""The events of runs in order. Each event is encoded as one line of JSON for polling and SSE."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text

from runward.domain.ids import Prefix, ProjectId, RunId, format_id
from runward.domain.run.status import RUN_ENDINGS, RunStatus
from runward.store.postgres.db import Tx

ENDING_TYPES: Final = frozenset(kind.type for kind in RUN_ENDINGS.values())
"""The types of the last event of a run."""


@dataclass(slots=True)
class StoredEvent:
    """A stored event. `json` is the complete event as clients receive it, without a line break."""

    run_id: UUID
    sequence: int
    type: str
    json: bytes
    _frame: bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def id(self) -> str:
        return f"{Prefix.EVENT}_{self.run_id.hex}_{self.sequence}"

    @property
    def is_last(self) -> bool:
        return self.type in ENDING_TYPES

    @property
    def frame(self) -> bytes:
        """Return the server-sent event without its `id:`. It is encoded once for all readers."""
        if not self._frame:
            self._frame = b"event: %b\ndata: %b\n\n" % (self.type.encode(), self.json)
        return self._frame


class EventEncoder:
    """Encodes the events of a run that were committed at the same time."""

    def __init__(self, run_id: UUID, at: datetime) -> None:
        self._run_id = run_id
        self._id = f"{Prefix.EVENT}_{run_id.hex}"
        run = format_id(Prefix.RUN, run_id)
        self._fields = f'"run_id":"{run}","created_at":"{format_utc(at)}","data":'

    def encode(self, sequence: int, type_: str, data: bytes) -> StoredEvent:
        """Return an event. `data`: the text of a JSON object."""
        head = (
            f'{{"id":"{self._id}_{sequence}","type":"{type_}","sequence":{sequence},{self._fields}'
        )
        return StoredEvent(self._run_id, sequence, type_, b"%b%b}" % (head.encode(), data))


def encode_event(run_id: UUID, sequence: int, type_: str, at: datetime, data: str) -> StoredEvent:
    """Return an event that was read from the database."""
    return EventEncoder(run_id, at).encode(sequence, type_, data.encode())


def format_utc(at: datetime) -> str:
    """Return the time in the format of RFC 3339, in UTC with `Z`."""
    return at.isoformat().replace("+00:00", "Z")


_AFTER: Final = text(
    "SELECT seq, type, CAST(data AS text) AS data, created_at FROM run_events"
    " WHERE project_id = :project_id AND run_id = :run_id AND seq > :after"
    " ORDER BY seq LIMIT :count"
)


async def read_after(
    tx: Tx, project_id: ProjectId, run_id: RunId, after: int, count: int
) -> list[StoredEvent]:
    values = {"project_id": project_id, "run_id": run_id, "after": after, "count": count}
    rows = await tx.execute(_AFTER, values)
    return [encode_event(run_id, row.seq, row.type, row.created_at, row.data) for row in rows]


_SOME: Final = text(
    "SELECT seq, type, CAST(data AS text) AS data, created_at FROM run_events"
    " WHERE project_id = :project_id AND run_id = :run_id AND seq = ANY(:sequences) ORDER BY seq"
)


async def read_some(
    tx: Tx, project_id: ProjectId, run_id: RunId, sequences: Sequence[int]
) -> list[StoredEvent]:
    """Return the events with these sequence numbers."""
    values = {"project_id": project_id, "run_id": run_id, "sequences": sequences}
    rows = await tx.execute(_SOME, values)
    return [encode_event(run_id, row.seq, row.type, row.created_at, row.data) for row in rows]


@dataclass(frozen=True, slots=True)
class LogPage:
    """The next events of a run, with the run's status and the number of its last event at the same
    moment."""

    status: RunStatus
    last_seq: int
    events: tuple[StoredEvent, ...]


_PAGE: Final = text(
    "SELECT r.status, r.last_seq, e.seq, e.type, e.data, e.created_at FROM runs r"
    " LEFT JOIN LATERAL (SELECT seq, type, CAST(data AS text) AS data, created_at FROM run_events"
    " WHERE project_id = r.project_id AND run_id = r.id AND seq > :after"
    " ORDER BY seq LIMIT :count) e ON true"
    " WHERE r.project_id = :project_id AND r.id = :run_id ORDER BY e.seq"
)


async def read_page(
    tx: Tx, project_id: ProjectId, run_id: RunId, after: int, count: int
) -> LogPage | None:
    """Return at most `count` events after the number `after`. Returns None if the run does not
    exist."""
    values = {"project_id": project_id, "run_id": run_id, "after": after, "count": count}
    rows = (await tx.execute(_PAGE, values)).all()
    if not rows:
        return None
    found = (
        encode_event(run_id, row.seq, row.type, row.created_at, row.data)
        for row in rows
        if row.seq is not None
    )
    return LogPage(RunStatus(rows[0].status), rows[0].last_seq, tuple(found))


_LAST: Final = text(
    "SELECT r.id, r.last_seq FROM unnest(CAST(:projects AS uuid[]), CAST(:ids AS uuid[]))"
    " AS f(project_id, id) JOIN runs r ON r.project_id = f.project_id AND r.id = f.id"
)


async def last_sequences(tx: Tx, followed: Sequence[tuple[ProjectId, UUID]]) -> dict[UUID, int]:
    """Return the number of the last event of each run."""
    values = {"projects": [one for one, _ in followed], "ids": [one for _, one in followed]}
    return {row.id: row.last_seq for row in await tx.execute(_LAST, values)}


_TIMES: Final = text(
    "SELECT e.run_id, e.created_at"
    " FROM unnest(CAST(:ids AS uuid[]), CAST(:numbers AS bigint[])) AS f(id, seq)"
    " JOIN run_events e ON e.project_id = :project_id AND e.run_id = f.id AND e.seq = f.seq"
)


async def list_times(
    tx: Tx, project_id: ProjectId, events: Sequence[tuple[RunId, int]]
) -> dict[RunId, datetime]:
    """Return the times of these events, which are given by their runs and numbers, by run."""
    values = {"ids": [run for run, _ in events], "numbers": [number for _, number in events]}
    rows = await tx.execute(_TIMES, {"project_id": project_id, **values})
    return {RunId(row.run_id): row.created_at for row in rows}
