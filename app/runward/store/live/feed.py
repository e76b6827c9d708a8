"""Passes events and drafts to the readers in this process."""

from collections import defaultdict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from uuid import UUID

from runward.domain.ids import ProjectId, RunId
from runward.store.live.carried import CarriedRun, CarriedRuns, CommittedEvents
from runward.store.live.drafts import Delta, Draft
from runward.store.live.events import StoredEvent
from runward.store.live.followers import FamilyFollower, Follower
from runward.store.live.relay import Relay


class Feed:
    """Passes events and drafts to readers in this process. The relay connects other processes."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._followers: dict[UUID, list[Follower]] = defaultdict(list)
        self._drafts: dict[UUID, Draft] = {}
        self._carried = CarriedRuns()

    @contextmanager
    def follow(self, project_id: ProjectId, run_id: RunId) -> Generator[Follower]:
        follower = Follower(project_id, run_id)
        self._followers[run_id].append(follower)
        try:
            yield follower
        finally:
            self._remove(run_id, follower)

    @contextmanager
    def follow_family(self, project_id: ProjectId, run_id: RunId) -> Generator[FamilyFollower]:
        """Follow a run and its child runs. The reader adds child runs when it discovers them."""
        follower = FamilyFollower(
            project_id, run_id, lambda id_, one: self._followers[id_].append(one)
        )
        follower.add_runs({run_id: 0})
        try:
            yield follower
        finally:
            for one in follower.runs:
                self._remove(one, follower)

    def _remove(self, run_id: UUID, follower: Follower) -> None:
        follower.close()
        rest = self._followers[run_id]
        rest.remove(follower)
        if not rest:
            del self._followers[run_id]

    def wake_outdated(self, last: Mapping[UUID, int]) -> None:
        """Wake the readers that have not received the last event of their run."""
        hint = object()
        for run_id, sequence in last.items():
            if (run := self._carried.get(run_id)) is not None and run.last_seq < sequence:
                run.close()
            for follower in self._followers.get(run_id, ()):
                if not follower.has_seen(run_id, sequence):
                    follower.wake(hint)

    @property
    def followed_runs(self) -> list[tuple[ProjectId, UUID]]:
        """Return the runs that readers in this process follow."""
        return [(readers[0].project_id, run_id) for run_id, readers in self._followers.items()]

    def publish(self, run_id: RunId, events: CommittedEvents) -> None:
        """Pass the events of a commit to their readers."""
        if (run := self._carried.get(run_id)) is not None:
            run.add(events)
        for follower in self._followers.get(run_id, ()):
            for event in events.encoded:
                follower.push(event)

    def carry(self, run: CarriedRun) -> None:
        """Keep the events of a run that this process executes. This process also writes its
        drafts."""
        self._carried.add(run)

    def release(self, run: CarriedRun) -> None:
        """Forget the run, because this process no longer executes it."""
        self._carried.remove(run)

    def close_carried(self, run_id: RunId) -> None:
        """Read the run from the database from now on."""
        self._carried.close(run_id)

    def has_events_after(self, project_id: ProjectId, run_id: RunId, seen: int) -> bool:
        """Return whether this process executes the run and has its events after the number
        `seen`."""
        run = self._carried.get(run_id)
        return run is not None and run.has_events_after(project_id, seen)

    def read_carried(
        self, project_id: ProjectId, run_id: RunId, seen: int
    ) -> tuple[StoredEvent, ...] | None:
        """Return the events after the number `seen` of a run that this process executes. Its status
        is in_progress. Returns None if the database must be read."""
        run = self._carried.get(run_id)
        if run is None or not run.has_events_after(project_id, seen):
            return None
        return tuple(run.read_after(seen))

    @contextmanager
    def open_draft(
        self, run_id: RunId, *, turn: int, fence: int, agent: str | None
    ) -> Generator[Draft]:
        """Yield the draft of a turn, and close it at the end."""
        draft = Draft(
            run_id,
            turn=turn,
            fence=fence,
            agent=agent,
            send=self._publish_delta,
            is_wanted=self._is_wanted,
        )
        self._drafts[run_id] = draft
        try:
            yield draft
        finally:
            draft.close()
            if self._drafts.get(run_id) is draft:
                del self._drafts[run_id]

    def catch_up(self, follower: Follower) -> None:
        """Send the draft so far to a reader, or request it from the process that writes it."""
        follower.live = True
        for run_id in follower.runs:
            draft = self._drafts.get(run_id)
            if draft is not None:
                draft.flush()
                follower.push_draft(draft.snapshot())
            elif run_id not in self._carried:
                self._relay.request_draft(run_id)
        follower.needs_catch_up = False

    def notify(self, channel: str, payload: str) -> None:
        """Send a notification to all processes soon. It can be lost."""
        self._relay.notify(channel, payload)

    async def run_relay(self) -> None:
        """Relay drafts to other processes until cancelled."""
        await self._relay.run(self._list_remote_runs)

    def _list_remote_runs(self) -> list[UUID]:
        """Return the runs that readers in this process follow and that other processes execute."""
        return [
            run_id
            for run_id, readers in self._followers.items()
            if run_id not in self._carried and any(one.live for one in readers)
        ]

    def receive_follow(self, payload: str) -> None:
        """Handle a notification that another process follows runs."""
        for run_id in self._relay.receive_follow(payload):
            if (draft := self._drafts.get(run_id)) is not None:
                draft.flush()
                for piece in draft.snapshot():
                    self._relay.send(piece)

    def receive_deltas(self, payload: str) -> None:
        """Handle pieces of drafts from another process."""
        for piece in self._relay.decode_deltas(payload):
            self._push_delta(piece)

    def _publish_delta(self, piece: Delta) -> None:
        self._push_delta(piece)
        if self._relay.is_wanted(piece.run_id):
            self._relay.send(piece)

    def _push_delta(self, piece: Delta) -> None:
        for follower in self._followers.get(piece.run_id, ()):
            if follower.live:
                follower.push(piece)

    def _is_wanted(self, run_id: UUID) -> bool:
        followers = self._followers.get(run_id, ())
        return any(one.live for one in followers) or self._relay.is_wanted(run_id)

    def notify_changed(self, run_id: UUID | None) -> None:
        """Wake the readers of a changed run. If `run_id` is None, wake all readers."""
        self._carried.close(run_id)
        hint = object()
        if run_id is not None:
            for follower in self._followers.get(run_id, ()):
                follower.wake(hint)
            return
        for followers in self._followers.values():
            for follower in followers:
                follower.wake(hint)
