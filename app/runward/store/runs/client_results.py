"""What the client says to a call that waits for it: the result of a tool that it runs, or the
answer to what a tool asks."""

from runward.domain import errors as e
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.run.bounds import check_room
from runward.domain.run.calls import Call, CallPhase
from runward.domain.run.resolve import (
    Answer,
    CallbackCompleted,
    checks_results,
    give_input,
    give_result,
    given_before,
    keep,
)
from runward.domain.run.state import Changes
from runward.domain.run.team import UNREGISTERED
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx
from runward.store.runs.locked import go_on, locked, tool_of

_WAITING = frozenset({CallPhase.AWAITING_RESULT, CallPhase.AWAITING_INPUT})


async def give(
    tx: Tx,
    vault: Vault,
    project_id: ProjectId,
    run_id: RunId,
    call_id: CallId,
    answer: Answer,
    *,
    checked: bool = False,
) -> None:
    """The first result wins, the same again is fine, another is a conflict. `checked`: the project
    has guardrails or hooks that see results, as with callbacks. Raises AppErrors."""
    status, state = await locked(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None:
        raise e.CallNotFoundError
    if call.version is None:
        raise e.CallNotWaitingError
    if call.version == UNREGISTERED and call.phase not in _WAITING:
        return _again(call, answer)  # the agent that has the run now may not have its tool
    tool = await tool_of(tx, vault, state, call)
    if tool.spec.type != "client" and call.exchange is None:
        raise e.CallNotWaitingError
    if call.phase not in _WAITING or call.received is not None:
        return _again(call, answer)
    changes = Changes()
    if call.phase is CallPhase.AWAITING_INPUT and isinstance(answer, CallbackCompleted):
        check_room(answer, stored=state.stored_bytes)
        give_input(state, changes, call, answer)
    elif checked or checks_results(state, tool):
        check_room(answer, stored=state.stored_bytes)
        keep(changes, call, answer)
    else:
        give_result(state, changes, call, tool, answer)
    await go_on(tx, status, state, changes)
    return None


def _again(call: Call, answer: Answer) -> None:
    """The call does not wait. Raises AppErrors unless it is what the client has said before."""
    match given_before(call, answer):
        case True:
            return
        case False:
            raise e.ResultAlreadyGivenError
        case None:
            raise e.CallNotWaitingError
