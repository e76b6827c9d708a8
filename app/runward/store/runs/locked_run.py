"""Operations on locked runs: load, resume and end them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.events.run_data import IncompleteDetails, RunEndedData, RunError
from runward.domain.events.values import CallReason
from runward.domain.ids import ProjectId, RunId
from runward.domain.registry.tools import EXCEED_BUDGET
from runward.domain.run import budget_approvals
from runward.domain.run.abandoned import Closed, find_abandoned
from runward.domain.run.open_calls import close_open_calls
from runward.domain.run.state import Call, Changes, RunState
from runward.domain.run.status import MOVES, RUN_ENDINGS, TERMINAL, Move, RunStatus
from runward.domain.run.team import build_inline_tools
from runward.domain.run.tools import UNREGISTERED, CompiledTool, compile_tool
from runward.store import codec
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx
from runward.store.registry import tool_registry
from runward.store.runs import family, queries


async def end_run(
    tx: Tx,
    state: RunState,
    reason: CallReason,
    move: Move,
    *,
    error: RunError | None = None,
    incomplete: IncompleteDetails | None = None,
    void_lease: bool = False,
) -> Closed:
    """End the run: settle its open calls, add its last event, wake its parent, and let the
    session's next run begin. Returns the calls whose tools must be notified."""
    changes = Changes()
    state = close_open_calls(state, changes, reason)
    data: RunEndedData = {}
    if error is not None:
        data["error"] = error
    if incomplete is not None:
        data["incomplete_details"] = incomplete
    changes.add(RUN_ENDINGS[MOVES[move].target](data))
    await queries.change_run(
        tx, state, changes, move=move, error=error, incomplete=incomplete, void_lease=void_lease
    )
    await family.wake_parent(tx, state.project_id, state.lineage)
    if state.place is not None:
        kept = codec.collect_session_items(state, None)
        await family.finish_session_turn(tx, state.project_id, state.id, state.place, kept)
    return Closed(find_abandoned(state, changes))


async def resume_run(
    tx: Tx,
    status: RunStatus,
    state: RunState,
    changes: Changes,
    *,
    closed: Sequence[dict[str, Any]] = (),
) -> datetime:
    """Write the changes and queue the run if it waited. The runs above it are then no longer
    idle. Returns the time of the changes."""
    wakes = Move.WAKE if status in MOVES[Move.WAKE].sources else None
    _, at = await queries.change_run(tx, state, changes, move=wakes, closed=closed)
    if wakes is not None and state.lineage is not None:
        await family.requeue_ancestors(tx, state.project_id, state.lineage.ancestors)
    return at


async def lock_open_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState]:
    status, state = await lock_run(tx, project_id, run_id)
    if status in TERMINAL:
        raise e.RunEndedError(f"This run has already ended with status {status}.")
    return status, state


async def lock_run(tx: Tx, project_id: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState]:
    found = await queries.lock_and_load(tx, project_id, run_id)
    if found is None:
        raise not_found.RunNotFoundError
    return found


async def load_tool(tx: Tx, vault: Vault, state: RunState, call: Call) -> CompiledTool:
    """Return the tool version for which the call was made. Versions are never deleted. The only
    unregistered tools whose calls wait for results from outside are functions of the request."""
    assert call.version is not None
    if call.tool == EXCEED_BUDGET:
        return budget_approvals.TOOL
    if call.version == UNREGISTERED:
        return find_inline_tool(state, call)
    wanted = [(call.tool, call.version)]
    [found] = await tool_registry.read_versions(tx, vault, state.project_id, wanted)
    return compile_tool(found.spec, found.version)


def find_inline_tool(state: RunState, call: Call) -> CompiledTool:
    """Return the inline tool of a call. The agent of a settled call can differ from the run's
    current agent. Raises KeyError."""
    members = (member.config for member in state.team.values())
    found = (build_inline_tools(config).get(call.tool) for config in (state.config, *members))
    for tool in found:
        if tool is not None:
            return tool
    raise KeyError(call.tool)
