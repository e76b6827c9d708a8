"""Cancel a run, even if its stored state cannot be read."""

from typing import Final

from runward.domain import errors as e
from runward.domain.events.values import CallReason
from runward.domain.ids import ProjectId, RunId
from runward.domain.run.status import Move
from runward.services import RunQueue, Storage
from runward.store.access.audit import AuditActor
from runward.store.runs import transitions

MAX_UNREADABLE_RUNS: Final = 100
"""Maximum number of unreadable child runs that one request ends. The sweep of orphans ends the
others."""


async def cancel(
    storage: Storage,
    queue: RunQueue,
    project_id: ProjectId,
    run_id: RunId,
    *,
    after_turn: bool = False,
    reason: CallReason = CallReason.RUN_CANCELLED,
    actor: AuditActor | None = None,
) -> None:
    """Cancel the run and its child runs at any depth. `reason`: the reason of its open calls.
    `actor`: the one for whom the audit log records it.
    Raises RunEndedError if the run has already ended otherwise."""
    for _ in range(MAX_UNREADABLE_RUNS):
        try:
            async with storage.begin() as tx:
                closed = await transitions.cancel(
                    tx, project_id, run_id, after_turn=after_turn, reason=reason, actor=actor
                )
        except e.RunUnreadableError as error:
            await queue.end_unreadable(project_id, error.run_id, Move.CANCEL)
            if error.run_id == run_id:
                return
        else:
            queue.notify_tools(closed.abandoned)
            return
