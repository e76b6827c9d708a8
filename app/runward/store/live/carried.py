"""The events of the runs that this process executes, so that their readers need no query."""

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Final
from uuid import UUID

from runward.domain.events.base import AnyEvent
from runward.domain.ids import ProjectId, RunId
from runward.domain.json import to_compact_json
from runward.store.live.events import EventEncoder, StoredEvent

MAX_EVENTS: Final = 256
"""Maximum number of events that are kept for one run. Readers of older ones read the database."""


class CommittedEvents:
    """The events of one commit. `last_seq`: the number of the last one. They are encoded once, when
    their first reader needs them."""

    def __init__(
        self, run_id: RunId, last_seq: int, at: datetime, events: Sequence[AnyEvent]
    ) -> None:
        self._run_id = run_id
        self._at = at
        self._events = events
        self.last_seq = last_seq

    def __len__(self) -> int:
        return len(self._events)

    @cached_property
    def encoded(self) -> tuple[StoredEvent, ...]:
        encoder, first = EventEncoder(self._run_id, self._at), self.last_seq - len(self._events) + 1
        return tuple(
            encoder.encode(number, event.type, to_compact_json(event.data))
            for number, event in enumerate(self._events, first)
        )


class CarriedRun:
    """A run that this process executes, with its events after the number `begin`, without a gap.
    It is closed when another process writes an event, and when the run parks or ends. From then on,
    readers read the database."""

    def __init__(self, project_id: ProjectId, run_id: RunId, begin: int) -> None:
        self._project_id = project_id
        self.run_id = run_id
        self._begin = begin
        self.last_seq = begin
        self._commits: deque[CommittedEvents] = deque()
        self._is_open = True

    def add(self, events: CommittedEvents) -> None:
        if events.last_seq - len(events) != self.last_seq:
            self.close()
        elif self._is_open:
            self._commits.append(events)
            self.last_seq = events.last_seq
            while self.last_seq - self._begin > MAX_EVENTS:
                self._begin = self._commits.popleft().last_seq

    def close(self) -> None:
        self._is_open = False
        self._commits.clear()

    def has_events_after(self, project_id: ProjectId, seen: int) -> bool:
        """Return whether `read_after` returns all events after the number `seen`."""
        return self._is_open and project_id == self._project_id and seen >= self._begin

    def read_after(self, seen: int) -> Iterator[StoredEvent]:
        """Return the events after the number `seen`."""
        events = chain.from_iterable(one.encoded for one in self._commits if one.last_seq > seen)
        return (event for event in events if event.sequence > seen)


class CarriedRuns:
    """The runs that this process executes."""

    def __init__(self) -> None:
        self._runs: dict[UUID, CarriedRun] = {}

    def __contains__(self, run_id: UUID) -> bool:
        return run_id in self._runs

    def get(self, run_id: UUID) -> CarriedRun | None:
        return self._runs.get(run_id)

    def add(self, run: CarriedRun) -> None:
        self._runs[run.run_id] = run

    def remove(self, run: CarriedRun) -> None:
        if self._runs.get(run.run_id) is run:  # otherwise this process has claimed it again
            del self._runs[run.run_id]

    def close(self, run_id: UUID | None) -> None:
        """Read this run, or all runs, from the database."""
        if run_id is None:
            for run in self._runs.values():
                run.close()
        elif (run := self._runs.get(run_id)) is not None:
            run.close()
