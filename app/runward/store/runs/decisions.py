"""Decisions about approvals. Each one locks the run, applies the decision, and queues the run in
one transaction."""

from collections.abc import Sequence
from dataclasses import replace

from runward.domain import errors as e
from runward.domain import not_found
from runward.domain.audit import AuditAction
from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, CallId, Prefix, ProjectId, format_id
from runward.domain.json import JsonObject, compute_digest, is_same_json
from runward.domain.registry.scopes import Principal
from runward.domain.run import approvals as rules
from runward.domain.run.approvals import DecisionRecord
from runward.domain.run.bounds import check_room
from runward.domain.run.decisions import (
    ApproveDecision,
    Decision,
    EditDecision,
    encode_decision,
)
from runward.domain.run.state import CallPhase, Changes, RunState
from runward.domain.run.tools import CompiledTool
from runward.store.access import audit
from runward.store.access.audit import AuditActor, AuditChange
from runward.store.access.vault import Vault
from runward.store.postgres.db import Tx
from runward.store.runs import approvals
from runward.store.runs.approvals import Approval
from runward.store.runs.locked_run import load_tool, lock_run, resume_run
from runward.store.runs.remembering import check_remember, list_uncovered, remember


async def decide(
    tx: Tx,
    vault: Vault,
    principal: Principal,
    approval_id: ApprovalId,
    decision: Decision,
) -> Approval:
    """Decide an approval, and return it. Only one decision is applied. A repeated identical
    decision returns the same approval. Raises AppErrors, such as ApprovalAlreadyDecidedError for a
    different decision."""
    project_id = principal.project_id
    asked = await approvals.get(tx, project_id, approval_id)
    if asked is None:
        raise not_found.ApprovalNotFoundError
    status, state = await lock_run(tx, project_id, asked.run_id)
    if asked.status is ApprovalStatus.PENDING and is_abandoned(asked, state):
        asked = await _read_closed(tx, project_id, approval_id)
    if asked.status is not ApprovalStatus.PENDING or asked.expired:
        return _answer_repeated(asked, decision)
    if decision.digest is not None and decision.digest != asked.digest:
        raise e.DigestMismatchError
    if decision.decision not in asked.allowed_decisions:
        raise e.DecisionNotAllowedError
    call = state.calls[CallId(asked.call_id)]
    check_remember(decision, state, call)
    tool = None
    if not isinstance(decision, ApproveDecision):
        tool = await load_tool(tx, vault, state, call)
        if isinstance(decision, EditDecision):
            _check_edit(state, tool, decision)
    changes, expired = Changes(), await list_uncovered(tx, state, decision)
    approver = format_id(Prefix.KEY, principal.key_id)
    _, decided = rules.decide(state, changes, call, tool, decision, approver, expired_ids=expired)
    await remember(tx, state, call, decision)
    rows = approvals.decisions_to_rows(state.id, decided, approver)
    at = await resume_run(tx, status, state, changes, closed=rows)
    await _record(tx, principal, asked, decided)
    return replace(
        asked,
        status=decided[0].status,
        decided_at=at,
        decided_by=approver,
        decider_name=principal.key_name,
        decision=decided[0].decision,
    )


async def _record(
    tx: Tx,
    principal: Principal,
    asked: Approval,
    decided: Sequence[DecisionRecord],
) -> None:
    """Record the decisions in the audit log, with digests of their content. `asked`: the approval
    of the request. The others are for the same version of its tool."""
    actor = AuditActor.from_principal(principal)
    for record in decided:
        after: JsonObject = {
            "status": record.status,
            "tool": asked.tool,
            "tool_version": asked.tool_version,
        }
        for name, value in record.decision.items():
            after[name] = value if name in ("decision", "remember") else compute_digest(value)
        change = AuditChange(
            AuditAction(f"approval.{record.status}"),
            format_id(Prefix.APPROVAL, record.approval_id),
            before={"status": ApprovalStatus.PENDING},
            after=after,
            run_id=asked.run_id,
        )
        await audit.append(tx, principal.project_id, actor, change)


async def _read_closed(tx: Tx, project_id: ProjectId, approval_id: ApprovalId) -> Approval:
    """Return an approval that was closed before its run was locked. If its row is still pending,
    return it as cancelled, because no call waits for it."""
    asked = await approvals.get(tx, project_id, approval_id)
    assert asked is not None
    pending = asked.status is ApprovalStatus.PENDING
    return replace(asked, status=ApprovalStatus.CANCELLED) if pending else asked


def _check_edit(state: RunState, tool: CompiledTool, edit: EditDecision) -> None:
    if problems := tool.arguments.problems(edit.arguments):
        raise e.InvalidRequestError(errors=problems)
    check_room(edit.arguments, stored=state.stored_bytes)


def is_abandoned(asked: Approval, state: RunState) -> bool:
    """Return whether no call waits for this approval: the run has ended, or its call was settled or
    has another approval."""
    call = state.calls.get(CallId(asked.call_id))
    waits = CallPhase.AWAITING_APPROVAL, asked.id
    return call is None or (call.phase, call.approval_id) != waits


def _answer_repeated(approval: Approval, decision: Decision) -> Approval:
    """Return the approval if its decision was the same. Otherwise raise ApprovalAlreadyDecidedError
    with the decision that was applied."""
    again = encode_decision(decision)
    if approval.decision is not None and is_same_json(approval.decision, again):
        return approval
    status = (
        approval.status if approval.status is not ApprovalStatus.PENDING else ApprovalStatus.EXPIRED
    )
    won: JsonObject = {
        "id": format_id(Prefix.APPROVAL, approval.id),
        "status": status,
        "decision": approval.decision,
        "decided_by": approval.decided_by,
    }
    raise e.ApprovalAlreadyDecidedError(
        f"This approval already has the status {status}.", extra={"approval": won}
    )
