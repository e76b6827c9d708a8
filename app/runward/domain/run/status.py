"""The statuses of a run and the moves between them.

Every change of a run's status is a row of `MOVES`. The store converts a row to one guarded UPDATE.
In the database, CHECK constraints and a trigger enforce the same table.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from runward.domain.events.base import NewEvent
from runward.domain.events.kinds import (
    RunCancelledEvent,
    RunCompletedEvent,
    RunExpiredEvent,
    RunFailedEvent,
    RunIncompleteEvent,
)
from runward.domain.events.run_data import RunEndedData


class RunStatus(StrEnum):
    """Status of a run. `queued`: the run waits for a worker, an earlier run of its session, or a
    child run. `in_progress`: a worker executes the run, or the run waits only for callbacks.
    `requires_action`: the run continues only after a person or a client acts. `completed`,
    `failed`, and `cancelled` are final. `incomplete`: a limit ended the run. `expired`: the
    deadline passed while the run was waiting."""

    QUEUED = "queued"  # waits for a worker, now or at `available_at`
    # leased by a worker; also shown while the run waits only for callbacks
    IN_PROGRESS = "in_progress"
    REQUIRES_ACTION = "requires_action"  # continues only after a person or a client acts
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"  # a limit was reached
    EXPIRED = "expired"  # the deadline passed while the run waited


TERMINAL: Final = frozenset(
    {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.INCOMPLETE,
        RunStatus.EXPIRED,
    }
)
OPEN: Final = frozenset(RunStatus) - TERMINAL
WAIT_ENDING: Final = TERMINAL | {RunStatus.REQUIRES_ACTION}
"""The statuses at which `?wait` ends."""


class Move(StrEnum):
    CLAIM = "claim"
    RELEASE = "release"
    PARK = "park"
    DEFER = "defer"
    WAKE = "wake"
    COMPLETE = "complete"
    FAIL = "fail"
    STOP = "stop"
    CANCEL = "cancel"
    EXPIRE = "expire"


class Edge(NamedTuple):
    sources: frozenset[RunStatus]
    target: RunStatus


_LEASED: Final = frozenset({RunStatus.IN_PROGRESS})

MOVES: Final[Mapping[Move, Edge]] = {
    Move.CLAIM: Edge(frozenset({RunStatus.QUEUED}), RunStatus.IN_PROGRESS),
    Move.RELEASE: Edge(_LEASED, RunStatus.QUEUED),
    Move.PARK: Edge(_LEASED, RunStatus.REQUIRES_ACTION),
    Move.DEFER: Edge(_LEASED, RunStatus.QUEUED),
    Move.WAKE: Edge(frozenset({RunStatus.REQUIRES_ACTION, RunStatus.QUEUED}), RunStatus.QUEUED),
    Move.COMPLETE: Edge(_LEASED, RunStatus.COMPLETED),
    Move.FAIL: Edge(frozenset({RunStatus.IN_PROGRESS, RunStatus.QUEUED}), RunStatus.FAILED),
    Move.STOP: Edge(_LEASED, RunStatus.INCOMPLETE),
    Move.CANCEL: Edge(OPEN, RunStatus.CANCELLED),
    Move.EXPIRE: Edge(frozenset({RunStatus.QUEUED, RunStatus.REQUIRES_ACTION}), RunStatus.EXPIRED),
}

RUN_ENDINGS: Final[Mapping[RunStatus, type[NewEvent[RunEndedData]]]] = {
    RunStatus.COMPLETED: RunCompletedEvent,
    RunStatus.FAILED: RunFailedEvent,
    RunStatus.CANCELLED: RunCancelledEvent,
    RunStatus.INCOMPLETE: RunIncompleteEvent,
    RunStatus.EXPIRED: RunExpiredEvent,
}
"""The last event of a run, by its status."""
