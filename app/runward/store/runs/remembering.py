"""The validation and the storage of decisions to remember."""

from runward.domain import errors as e
from runward.domain.errors import FieldError
from runward.domain.ids import ApprovalId
from runward.domain.registry.tools import EXCEED_BUDGET
from runward.domain.run.decisions import ApproveDecision, Decision, RejectDecision
from runward.domain.run.remembered_decisions import remember_decision
from runward.domain.run.state import Call, RunState
from runward.domain.run.tools import UNREGISTERED
from runward.store.postgres.db import Tx
from runward.store.runs import approvals


def check_remember(decision: Decision, state: RunState, call: Call) -> None:
    """Raise InvalidRequestError if a decision is to be remembered for the session, but the run has
    no place in a session, or the call's tool is an inline tool. Child runs have no place. Another
    run can define a different tool with the same name."""
    remember = decision.remember if isinstance(decision, ApproveDecision | RejectDecision) else None
    if remember is not None and call.tool == EXCEED_BUDGET:
        problem = "must be null, because the decision applies until the end of the budget's period"
        raise e.InvalidRequestError(errors=[FieldError("remember", problem)])
    if remember is None or remember.scope != "session":
        return
    if state.place is None or state.place.number is None:
        problem = "must be run, because this run does not belong to a session"
    elif call.version == UNREGISTERED:
        problem = "must be run, because the tool is not registered"
    else:
        return
    raise e.InvalidRequestError(errors=[FieldError("remember.scope", problem)])


async def list_uncovered(tx: Tx, state: RunState, decision: Decision) -> frozenset[ApprovalId]:
    """Return the run's expired approvals if the decision is to be remembered, because a remembered
    decision does not cover them."""
    if isinstance(decision, ApproveDecision | RejectDecision) and decision.remember is not None:
        return await approvals.list_expired(tx, state.project_id, state.id)
    return frozenset()


async def remember(tx: Tx, state: RunState, call: Call, decision: Decision) -> None:
    """Store the decision for later calls, if it is to be remembered."""
    if isinstance(decision, ApproveDecision | RejectDecision) and decision.remember is not None:
        remembered = remember_decision(decision, call, state.agent)
        session = state.place.session_id if state.place else None
        await approvals.remember(
            tx, state.project_id, state.id, remembered, decision.remember, session
        )
