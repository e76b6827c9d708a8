"""Properties that must be true of each state, of each change of a row, and of each outside effect.

This module uses no table of Runward's code. It lists the statuses and their order again.
"""

from collections.abc import Sequence
from typing import Any, Final

from runward.domain.events.values import ApprovalStatus, RunErrorCode
from runward.domain.ids import CallId
from runward.domain.json import JsonObject
from runward.domain.run.items import Message
from runward.domain.run.outcomes import AgentRequest
from runward.domain.run.state import Call, CallPhase
from runward.domain.run.status import RunStatus
from runward.store.runs.gate import Step
from tests.model.rows import ApprovalRow, Rows, RunRow


class ViolationError(Exception):
    """A property does not hold. `name` is in the table of mutants."""

    def __init__(self, name: str, detail: str = "") -> None:
        super().__init__(f"{name}: {detail}" if detail else name)
        self.name = name


def require(holds: bool, name: str, detail: str = "") -> None:  # noqa: FBT001
    if not holds:
        raise ViolationError(name, detail)


ENDED: Final = frozenset(
    {
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.INCOMPLETE,
        RunStatus.EXPIRED,
    }
)
_WORKED_ON: Final = {
    RunStatus.QUEUED,
    RunStatus.REQUIRES_ACTION,
    RunStatus.COMPLETED,
    RunStatus.FAILED,
    RunStatus.INCOMPLETE,
    RunStatus.CANCELLED,
}
_LATER: Final[dict[RunStatus, set[RunStatus]]] = {
    RunStatus.QUEUED: {
        RunStatus.IN_PROGRESS,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.EXPIRED,
        RunStatus.REQUIRES_ACTION,  # idle above child runs
    },
    RunStatus.IN_PROGRESS: _WORKED_ON,
    RunStatus.REQUIRES_ACTION: {RunStatus.QUEUED, RunStatus.CANCELLED, RunStatus.EXPIRED},
    **{status: set() for status in ENDED},
}
_OPEN_DECISIONS: Final = {
    ApprovalStatus.PENDING: set(ApprovalStatus),
    ApprovalStatus.APPROVED: {ApprovalStatus.SUPERSEDED},
    ApprovalStatus.EDITED: {ApprovalStatus.SUPERSEDED},
}


def check_rows(rows: Rows) -> None:
    for row in rows:
        _check_row(row)
    _check_family(rows)


def _check_row(row: RunRow) -> None:
    leased = row.status is RunStatus.IN_PROGRESS
    require(leased == (row.lease is not None), "a lease exactly while in progress", row.status)
    require(row.error != RunErrorCode.INTERNAL_ERROR, "no run loses track of a call")
    open_calls = [one for one in row.calls.values() if one.phase is not CallPhase.SETTLED]
    pending = {a.id for a in row.approvals.values() if a.status is ApprovalStatus.PENDING}
    asked = {c.approval_id for c in open_calls if c.phase is CallPhase.AWAITING_APPROVAL}
    if row.status in ENDED:
        require(not pending, "no pending approval of an ended run")
        require(not open_calls, "no open call of an ended run")
    require(pending == asked, "a pending approval for each call that waits for one, and no other")
    for one in row.calls.values():
        settled = one.phase is CallPhase.SETTLED
        require(settled == (one.result is not None), "a result exactly for settled calls")
    if row.status is RunStatus.REQUIRES_ACTION:
        stuck = {CallPhase.READY, CallPhase.STARTED} & {one.phase for one in open_calls}
        require(not stuck, "nothing can run while someone's action is required", str(stuck))
        require(bool(open_calls), "someone can act where action is required")


def _check_family(rows: Rows) -> None:
    by_id = {row.id: row for row in rows}
    for row in rows:
        for call in row.calls.values():
            if call.phase is CallPhase.AWAITING_CHILD:
                require(call.child_run_id in by_id, "an awaited child run exists")
        if row.lineage is None:
            continue
        parent = by_id[row.lineage.parent]
        call = parent.calls[row.lineage.call_id]
        named = call.child_run_id == row.id if call.exchange is None else _names(call, row)
        require(named, "a child run belongs to the call that names it")
        if row.status not in ENDED and parent.status not in ENDED:
            waits = call.phase is CallPhase.AWAITING_CHILD
            require(waits, "the parent waits for its open child run", call.phase)
        if parent.status is RunStatus.REQUIRES_ACTION and row.status not in ENDED:
            works = row.status is RunStatus.IN_PROGRESS
            works |= row.status is RunStatus.QUEUED and row.available
            require(not works, "no parent requires action while its child run works")


def _names(call: Call, row: RunRow) -> bool:
    """Whether a function's call has the child run in its list, or its result."""
    exchange: Any = call.exchange
    awaited = str(row.id) in [one["run_id"] for one in exchange.requests]
    digests = [one["digest"] for one in exchange.state]
    read = AgentRequest("helper", input_of(row)).digest in digests
    return awaited != read and (awaited or row.status in ENDED)


def input_of(row: RunRow) -> str:
    message = row.segments[0].items[0]
    assert isinstance(message, Message)
    return str(message.content)


def check_agent_results(
    rows: Rows, parent: RunRow, call_id: CallId, results: Sequence[JsonObject]
) -> None:
    """When a function begins an attempt: it reads one result of each child run so far."""
    own = [one for one in rows if one.lineage and one.lineage.parent == parent.id]
    asked = sorted(input_of(one) for one in own if one.lineage and one.lineage.call_id == call_id)
    require(len(set(asked)) == len(asked), "no agent is run twice", str(asked))
    read = sorted(str(one["digest"]) for one in results)
    wanted = sorted(AgentRequest("helper", text).digest for text in asked)
    require(read == wanted, "a function reads one result of each agent", str(asked))


def check_change(before: Rows, after: Rows) -> None:
    """Between two states, whoever did it."""
    known = {row.id: row for row in before}
    for row in after:
        old = known.get(row.id)
        if old is None or old is row:
            continue
        if old.status is not row.status:
            edge = f"{old.status} to {row.status}"
            require(row.status in _LATER[old.status], "a status follows the table", edge)
        if old.status in ENDED:
            require(old.calls == row.calls, "an ended run stays as it is")
        require(row.fence >= old.fence, "fences only grow")
        require(row.turn in (old.turn, old.turn + 1), "a run takes one turn at a time")
        _check_calls(old, row)
        for id_, approval in row.approvals.items():
            _check_approval(old.approvals.get(id_), approval)


def _check_calls(old: RunRow, row: RunRow) -> None:
    for id_, was in old.calls.items():
        call = row.calls[id_]
        if was.phase is CallPhase.SETTLED:
            require(call == was, "a settled call stays as it is", id_)
        require(call.uuid == was.uuid, "a call keeps its id", id_)
        require(call.attempt in (was.attempt, was.attempt + 1), "attempts are counted", id_)


def _check_approval(old: ApprovalRow | None, new: ApprovalRow) -> None:
    if old is None or old.status is new.status:
        require(old is None or old.decision == new.decision, "one decision for each approval")
        return
    allowed = _OPEN_DECISIONS.get(old.status, set[ApprovalStatus]())
    require(new.status in allowed, "one decision for each approval", f"{old.status} {new.status}")
    kept = old.decision is None or old.decision == new.decision
    require(kept, "one decision for each approval")


def newly_started(row: RunRow, step: Step) -> list[CallId]:
    return [
        call.id
        for call in {**step.changes.inserted, **step.changes.updated}.values()
        if call.phase is CallPhase.STARTED
        and (call.id not in row.calls or row.calls[call.id].attempt < call.attempt)
    ]


def check_written(row: RunRow, step: Step) -> None:
    """`row`: as it was when the gate let the step through."""
    require(row.fence == step.fence, "a stale worker writes nothing")
    require(row.lease == "held", "nothing is written without a lease")
    starts = newly_started(row, step)
    ending = step.ending is not None and not step.ending.keep_claim
    if starts or ending:
        require(row.version == step.expected_version, "nothing starts or ends on an outdated view")
    require(not (starts and row.cancel_requested), "nothing starts after a cancel")
    for call_id in starts:
        call = step.changes.updated.get(call_id) or step.changes.inserted[call_id]
        if call.approval_id is not None:
            approval = row.approvals.get(call.approval_id)
            good = approval is not None and approval.status in (
                ApprovalStatus.APPROVED,
                ApprovalStatus.EDITED,
            )
            require(good, "only an approved call starts", call_id)
            require(call.approved_digest == call.digest, "what starts is what was approved")
