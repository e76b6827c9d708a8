"""Related changes: the changes of a step outside its own run, in the same transaction."""

from dataclasses import dataclass, field
from datetime import timedelta

from pydantic import JsonValue

from runward.domain.ids import ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.run.budgets import BudgetChange
from runward.domain.run.family import Lineage
from runward.domain.run.sessions import Place
from runward.domain.run.status import MOVES, TERMINAL, Move
from runward.store import budgets
from runward.store.postgres.db import Tx
from runward.store.runs import family
from runward.store.runs.queue import ACCEPT, NewRun, accept_values


@dataclass(frozen=True, slots=True)
class RelatedChanges:
    """The changes of a step outside its own run, in the same transaction."""

    lineage: Lineage | None = None
    children: tuple[NewRun, ...] = ()
    awaits_children: bool = False
    """Whether the run waits for child runs. False if it waits only for callbacks."""
    session_id: SessionId | None = None
    state_delta: JsonObject = field(default_factory=dict[str, JsonValue])
    """Changes of the session's state. If the run has no session, changes of the run's own state."""
    session_place: Place | None = None
    """The place of a run that ends, so that the next run of its session can start."""
    session_items: tuple[JsonObject, ...] = ()
    """The items of the run that later runs of the session read."""
    budget: BudgetChange | None = None


async def apply_related_changes(
    tx: Tx,
    project_id: ProjectId,
    run_id: RunId,
    related: RelatedChanges,
    move: Move | None,
    lease: timedelta,
) -> None:
    """Write the related changes, in the transaction that has written the step. `move`: the move of
    the step's run, if there is one."""
    if related.children:
        await tx.execute(ACCEPT, accept_values(related.children, lease))
    if related.state_delta and related.session_id is not None:
        await family.merge_state(tx, project_id, related.session_id, related.state_delta)
    if related.budget is not None:
        await budgets.apply_change(tx, project_id, run_id, related.budget)
    if move is None:
        return
    target = MOVES[move].target
    if target in TERMINAL:
        await family.wake_parent(tx, project_id, related.lineage)
        if related.session_place is not None:
            await family.finish_session_turn(
                tx, project_id, run_id, related.session_place, related.session_items
            )
    elif move is not Move.RELEASE:
        ancestors = related.lineage.ancestors if related.lineage else ()
        deferred = (run_id,) if related.awaits_children else ()
        await family.mark_idle_ancestors(tx, project_id, (*ancestors, *deferred))
