"""Results that clients submit: the results of client tools, and the input that tools request."""

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.ids import CallId, ProjectId, RunId
from runward.domain.run.bounds import check_room
from runward.domain.run.resolve import (
    Answer,
    CallbackCompleted,
    apply_client_input,
    apply_client_result,
    checks_results,
    compare_with_earlier_answer,
    keep_answer,
)
from runward.domain.run.settle import count_input_requests
from runward.domain.run.state import CLIENT_PHASES, Call, CallPhase, Changes
from runward.domain.run.tools import UNREGISTERED
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx
from runward.store.runs.locked_run import load_tool, lock_run, resume_run


async def submit_result(
    tx: Tx,
    vault: Vault,
    project_id: ProjectId,
    run_id: RunId,
    call_id: CallId,
    answer: Answer,
    *,
    project_has_checks: bool = False,
    number: int | None = None,
) -> None:
    """Store the client's result or input. The first one counts. If the client sends the same one
    again, it is accepted. `project_has_checks`: whether the project has guardrails or hooks that
    check results. `number`: the number of the request for input that the answer belongs to, so that
    a repeated answer does not answer the next request. Raises AppErrors, such as
    ResultAlreadyGivenError for a different result."""
    status, state = await lock_run(tx, project_id, run_id)
    call = state.calls.get(call_id)
    if call is None:
        raise not_found.CallNotFoundError
    if call.version is None or number not in (None, count_input_requests(call)):
        raise e.CallNotWaitingError
    if call.version == UNREGISTERED and call.phase not in CLIENT_PHASES:
        return _check_repeated(call, answer)  # The run's current agent may not have the tool.
    tool = await load_tool(tx, vault, state, call)
    if tool.spec.type != "client" and call.exchange is None:
        raise e.CallNotWaitingError
    if call.phase not in CLIENT_PHASES or call.received is not None:
        return _check_repeated(call, answer)
    changes = Changes()
    if call.phase is CallPhase.AWAITING_INPUT and isinstance(answer, CallbackCompleted):
        check_room(answer, stored=state.stored_bytes)
        apply_client_input(state, changes, call, answer)
    elif project_has_checks or checks_results(state, tool):
        check_room(answer, stored=state.stored_bytes)
        keep_answer(changes, call, answer)
    else:
        apply_client_result(state, changes, call, tool, answer)
    await resume_run(tx, status, state, changes)
    return None


def _check_repeated(call: Call, answer: Answer) -> None:
    """Raise an AppError unless the client has already sent the same result. The call does not wait
    for a result."""
    match compare_with_earlier_answer(call, answer):
        case True:
            return
        case False:
            raise e.ResultAlreadyGivenError
        case None:
            raise e.CallNotWaitingError
