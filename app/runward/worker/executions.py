"""The runs that a worker executes: signal their changes, and list the held leases."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from runward.loop.execution import Execution
from runward.store.live.changes import SeenVersion
from runward.store.runs.queue import HeldLease


class Executions:
    """The executions of a worker. For each run, only the last added execution is kept."""

    def __init__(self) -> None:
        self._by_run: dict[UUID, Execution] = {}
        self._lost: set[HeldLease] = set()
        """Leases of executions that have ended, until the heartbeat has seen that they are lost."""

    def __len__(self) -> int:
        return len(self._by_run)

    def add(self, execution: Execution) -> None:
        run_id = execution.leased.lease.run_id
        if (former := self._by_run.get(run_id)) is not None:
            self._lost.add(former.leased.lease)
            # The lease expired, and this process claimed the run again before it noticed.
            former.leased.mark_lost()
        self._by_run[run_id] = execution

    def remove(self, execution: Execution) -> None:
        """Remove an execution that has ended."""
        lease = execution.leased.lease
        if self._by_run.get(lease.run_id) is execution:
            if execution.leased.lost:
                self._lost.add(lease)
            del self._by_run[lease.run_id]

    def drain(self) -> None:
        for execution in self._by_run.values():
            execution.leased.drain()

    def notify_changed(self, run_id: UUID | None) -> None:
        """Signal that another process changed the run. None: any run may have changed."""
        if run_id is None:
            for execution in self._by_run.values():
                execution.leased.notify_changed()
        elif (execution := self._by_run.get(run_id)) is not None:
            execution.leased.notify_changed()

    def notify_tools_changed(self, project_id: UUID | None) -> None:
        """Signal that the tools of the project changed. None: the tools of any project may have
        changed."""
        for execution in self._by_run.values():
            if project_id in (None, execution.leased.lease.project_id):
                execution.leased.notify_changed()

    def list_versions(self) -> list[SeenVersion]:
        states = [execution.leased.state for execution in self._by_run.values()]
        return [SeenVersion(one.project_id, one.id, one.fence, one.version) for one in states]

    def list_held(self) -> Sequence[HeldLease]:
        """Return the leases of all executions. The heartbeat's thread calls this function, so each
        copy is one operation under the interpreter's lock. The result includes new claims even if
        the event loop is busy."""
        return [one.leased.lease for one in list(self._by_run.values())]

    def list_dropped(self) -> Sequence[HeldLease]:
        """Return the lost leases. Called in the heartbeat's thread, like `list_held`."""
        return list(self._lost)

    def mark_lost(self, leases: Iterable[HeldLease]) -> None:
        for held in leases:
            self._lost.discard(held)
            execution = self._by_run.get(held.run_id)
            if execution is not None and execution.leased.lease == held:
                execution.leased.mark_lost()
