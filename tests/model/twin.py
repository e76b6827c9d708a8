"""The twin: the statements of `runward.store` as Python functions on values. `test_conformance.py`
compares each with its SQL.

The guards are tables, so that a mutant can remove one of them.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, CallId, ProjectId, RunId, SessionId
from runward.domain.json import JsonObject
from runward.domain.run.decisions import RememberedDecision, RememberOptions
from runward.domain.run.family import Child, Lineage
from runward.domain.run.state import Call, CallPhase, Changes, RunState, Segment
from runward.domain.run.status import MOVES, TERMINAL, Move, RunStatus
from runward.store.runs import gate, queue, related_changes
from runward.store.runs.approvals import Approval
from runward.store.runs.gate import Step, StepOutcome
from runward.store.runs.queue import NewRun
from runward.store.runs.records import Records
from tests.model.rows import PROJECT, ApprovalRow, Rows, RunRow, Tools

AT: Final = datetime(2026, 1, 1, tzinfo=UTC)
DEADLINE: Final = 500.0
LEASE: Final = timedelta(seconds=30)
T = TypeVar("T")

Guard = Callable[[RunRow, Step, int], bool]
GATE: dict[str, Guard] = {
    "fence": lambda row, step, _: row.fence == step.fence,
    "status": lambda row, step, _: row.status is RunStatus.IN_PROGRESS,
    "lease": lambda row, step, _: row.lease == "held",
    "write id": lambda row, step, id_: row.last_write is None or row.last_write[0] < id_,
    "seen version": lambda row, step, _: (
        step.expected_version is None or row.version == step.expected_version
    ),
}
"""What a step must satisfy to be written."""
ALREADY: dict[str, Guard] = {
    "fence": lambda row, step, _: row.fence == step.fence,
    "write id": lambda row, step, id_: row.last_write is not None and row.last_write[0] == id_,
}
"""What tells a step that it was written before."""
CLAIMABLE: dict[str, Callable[[RunRow], bool]] = {
    "status": lambda row: row.status is RunStatus.QUEUED,
    "available": lambda row: row.available,
    "claims": lambda row: row.claims < queue.MAX_CLAIMS,
    "lost leases": lambda row: row.lost_leases < queue.MAX_LOST_LEASES,
}
ON_CLAIM: dict[str, Callable[[RunRow], Any]] = {
    "status": lambda row: RunStatus.IN_PROGRESS,
    "fence": lambda row: row.fence + 1,
    "claims": lambda row: row.claims + 1,
    "lease": lambda row: "held",
    "last_write": lambda row: None,
}
"""What a claim sets."""
DUE: dict[str, Callable[[RunRow], bool]] = {
    "lease": lambda row: row.status is RunStatus.IN_PROGRESS and row.lease == "expired",
    "crash loop": lambda row: (
        row.status is RunStatus.QUEUED
        and (row.claims >= queue.MAX_CLAIMS or row.lost_leases >= queue.MAX_LOST_LEASES)
    ),
    "deadline": lambda row: (
        row.status in (RunStatus.QUEUED, RunStatus.REQUIRES_ACTION) and row.overdue
    ),
}
"""What a sweep finds, of runs."""


class Twin:
    """Takes the place of a transaction. `rows` is what it reads and writes."""

    def __init__(self, rows: Rows, tools: Tools) -> None:
        self.rows = {row.id: row for row in rows}
        self.tools = tools

    @property
    def frozen(self) -> Rows:
        return tuple(self.rows.values())

    def put(self, run_id: RunId, **values: Any) -> RunRow:
        row = self.rows[run_id] = replace(self.rows[run_id], **values)
        return row

    def begin_nested(self) -> "Savepoint":
        return Savepoint()

    # Reading.

    def load(self, run_id: RunId) -> RunState:
        row = self.rows[run_id]
        names = row.config.tools
        calls = sorted(row.calls.values(), key=lambda one: (one.turn, one.position))
        return RunState(
            project_id=PROJECT,
            id=row.id,
            fence=row.fence,
            version=row.version,
            agent=row.agent,
            config=row.config,
            tool_versions={name: self.tools[name].version for name in names if name in self.tools},
            context=None,
            turn=row.turn,
            segments=in_order(row.segments),
            calls={one.id: one for one in calls},
            lineage=row.lineage,
            children=self._children(row),
            cancel_after_turn=row.cancel_requested,
            seconds_left=_seconds_left(row),
        )

    def _children(self, row: RunRow) -> dict[RunId, Child]:
        return {
            one.id: Child(one.id, one.status, one.output)
            for one in self.rows.values()
            if one.lineage is not None
            and one.lineage.parent == row.id
            and (call := row.calls[one.lineage.call_id]).phase is CallPhase.AWAITING_CHILD
            and call.child_run_id is not None
            and call.child_run_id <= one.id
        }

    def below(self, run_id: RunId) -> list[RunRow]:
        """All that have not ended."""
        return [
            row
            for row in self.rows.values()
            if row.lineage and run_id in row.lineage.ancestors and row.status not in TERMINAL
        ]

    def claimable(self) -> list[RunId]:
        return [
            row.id for row in self.rows.values() if all(guard(row) for guard in CLAIMABLE.values())
        ]

    # Writing.

    def claim(self, run_id: RunId) -> RunState:
        row = self.rows[run_id]
        self.put(run_id, **{name: of(row) for name, of in ON_CLAIM.items()})
        return self.load(run_id)

    def step(self, step: Step, write_id: int) -> StepOutcome:
        """The gate, and what lies behind it."""
        row = self.rows[step.run_id]
        passes = all(guard(row, step, write_id) for guard in GATE.values())
        answer = dict[str, Any](
            id=row.id,
            locked=True,
            last_seq=1 if passes else None,
            already=all(guard(row, step, write_id) for guard in ALREADY.values()),
            same_fence=row.fence == step.fence,
            version=row.version,
            at=AT,
        )
        if passes:
            self._write(row, step, write_id)
            if step.related is not None:
                move = step.ending.move if step.ending else None
                tx: Any = self
                run_now(
                    related_changes.apply_related_changes(
                        tx, PROJECT, step.run_id, step.related, move, LEASE
                    )
                )
        id_ = UUID(int=write_id)
        written = gate.read_outcomes([(step, id_)], cast("Any", [answer]))[id_]
        assert written is not None
        return written

    def _write(self, row: RunRow, step: Step, write_id: int) -> None:
        head: dict[str, Any] = gate._step_to_row(step, UUID(int=write_id))  # pyright: ignore[reportPrivateUsage]
        claims_after = row.claims
        if head["progress"]:
            claims_after = 0
        elif head.get("keep_claim"):
            claims_after = max(row.claims - 1, 0)
        status = head.get("status")
        available = row.available
        if status is not None:
            available = not head["defers"]
        self.put(
            row.id,
            last_write=(write_id, step.fence),
            claims=claims_after,
            lost_leases=0 if head["progress"] else row.lost_leases,
            status=status or row.status,
            lease="held" if status is None else None,
            available=available,
            turn=step.turn,
            output=head.get("output"),
            error=cast("dict[str, str]", head.get("error") or {}).get("code"),
        )
        self._records(row.id, step.changes)

    def _records(
        self, run_id: RunId, changes: Changes, closed: Sequence[dict[str, Any]] = ()
    ) -> None:
        """What `runward.store.runs.records` writes behind every gate. Its UPDATE of approvals does
        not see those that the same statement inserts."""
        row = self.rows[run_id]
        records = Records()
        asked = Changes(approvals=changes.approvals, closed_approvals=changes.closed_approvals)
        records.add(run_id, asked)
        approvals = dict(row.approvals)
        for one in [*records.closed, *closed]:
            before = approvals.get(one["id"])
            if before is not None and _closes(before.status, one["status"]):
                said = cast("dict[str, str]", one["decision"] or {})
                decision = before.decision or said.get("decision")
                status = ApprovalStatus(one["status"])
                approvals[before.id] = replace(before, status=status, decision=decision)
        for asking, values in zip(changes.approvals, records.approvals, strict=True):
            approvals[asking.id] = ApprovalRow(asking, ApprovalStatus(values["status"]))
        restarted = {c.id for c in changes.updated.values() if c.phase is CallPhase.STARTED}
        known = {id_: call for id_, call in changes.updated.items() if id_ in row.calls}
        self.put(
            run_id,
            segments=(*row.segments, *changes.segments),
            calls={**row.calls, **known, **changes.inserted},
            due_calls=row.due_calls - restarted,
            approvals=approvals,
        )

    def accept(self, new: NewRun) -> None:
        self.rows[new.id] = RunRow(
            id=new.id,
            config=new.state.config,
            agent=new.state.agent,
            lineage=new.state.lineage,
            segments=tuple(new.changes.segments),
        )

    async def execute(self, _: object, values: Any) -> None:
        """ACCEPT, the one statement that `after_step` sends itself."""
        for new in values:
            self.accept(new)

    def change(
        self,
        state: RunState,
        changes: Changes,
        *,
        move: Move | None = None,
        error: JsonObject | None = None,
        incomplete: JsonObject | None = None,
        void_lease: bool = False,
        cancel_requested: bool = False,
        closed: Sequence[dict[str, Any]] = (),
    ) -> tuple[int, datetime]:
        del incomplete
        row = self.rows[state.id]
        target = None if move is None else MOVES[move].target
        self.put(
            row.id,
            version=row.version + 1,
            fence=row.fence + void_lease,
            status=target or row.status,
            lease=row.lease if target is None else None,
            available=row.available or target is RunStatus.QUEUED,
            cancel_requested=row.cancel_requested or cancel_requested,
            error=None if error is None else error.get("code"),
        )
        self._records(row.id, changes, closed)
        return 1, AT

    # Sweeps and leases.

    def renew(self, run_id: RunId, fence: int) -> bool:
        """True: the lease is held."""
        row = self.rows[run_id]
        return row.fence == fence and row.status is RunStatus.IN_PROGRESS and row.lease == "held"

    def forgive(self, run_id: RunId, fence: int) -> None:
        row = self.rows[run_id]
        open_ = row.status in (RunStatus.QUEUED, RunStatus.IN_PROGRESS)
        if row.fence >= fence and open_ and row.claims > 0:
            self.put(run_id, claims=row.claims - 1, lost_leases=row.lost_leases + 1)

    def free(self, run_id: RunId) -> None:
        self.put(run_id, status=RunStatus.QUEUED, lease=None, available=True)

    # Around a run.

    def wake_parent(self, run_id: RunId) -> None:
        row = self.rows[run_id]
        if row.status in TERMINAL:
            return
        waits = row.status is RunStatus.REQUIRES_ACTION
        self.put(
            run_id,
            version=row.version + 1,
            status=RunStatus.QUEUED if waits else row.status,
            available=row.available or row.status is not RunStatus.IN_PROGRESS,
        )

    def requeue_ancestors(self, ancestors: Sequence[RunId]) -> None:
        for row in [self.rows[one] for one in ancestors]:
            if row.status is RunStatus.REQUIRES_ACTION:
                queued = RunStatus.QUEUED
                self.put(row.id, status=queued, available=False, version=row.version + 1)

    def settle_idle(self, upwards: Sequence[RunId]) -> None:
        for run_id in reversed(upwards):
            row = self.rows[run_id]
            children = [k for k in self.rows.values() if k.lineage and k.lineage.parent == run_id]
            asks = any(k.status is RunStatus.REQUIRES_ACTION for k in children)
            works = any(_works(k) for k in children)
            if row.status is not RunStatus.QUEUED or row.available or not asks or works:
                break
            self.put(
                run_id,
                status=RunStatus.REQUIRES_ACTION,
                version=row.version + 1,
                available=True,
            )


class Savepoint:
    async def __aenter__(self) -> "Savepoint":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def rollback(self) -> None: ...


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the twin of the store waits for nothing")


def in_order(written: Sequence[Segment]) -> tuple[Segment, ...]:
    ordered: list[Segment] = []
    for one in written:
        at = len(ordered) if one.segments_before is None else min(one.segments_before, len(ordered))
        ordered.insert(at, one)
    return tuple(ordered)


def _seconds_left(row: RunRow) -> float | None:
    if row.config.limits.deadline_seconds is None:
        return None
    return -1.0 if row.overdue else DEADLINE


def _closes(before: str, after: str) -> bool:
    decided = (ApprovalStatus.APPROVED, ApprovalStatus.EDITED)
    return before == ApprovalStatus.PENDING or (
        after == ApprovalStatus.SUPERSEDED and before in decided
    )


def _works(child: RunRow) -> bool:
    waits = any(c.phase is CallPhase.AWAITING_CHILD for c in child.calls.values())
    queued = child.status is RunStatus.QUEUED and (child.available or waits)
    return child.status is RunStatus.IN_PROGRESS or queued


# The functions of `runward.store` that take a transaction and send SQL, on the twin.


async def lock(tx: Any, _: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState] | None:
    return await load(tx, _, run_id)


async def load(tx: Any, _: ProjectId, run_id: RunId) -> tuple[RunStatus, RunState] | None:
    twin = cast("Twin", tx)
    row = twin.rows.get(run_id)
    return None if row is None else (row.status, twin.load(run_id))


async def lock_all(tx: Any, _: ProjectId, run_id: RunId, *others: RunId) -> None: ...


async def open_below(tx: Any, _: ProjectId, run_id: RunId) -> list[RunId]:
    return [row.id for row in cast("Twin", tx).below(run_id)]


async def change(tx: Any, state: RunState, changes: Changes, **values: Any) -> tuple[int, datetime]:
    return cast("Twin", tx).change(state, changes, **values)


async def get_approval(tx: Any, _: ProjectId, approval_id: ApprovalId) -> Approval | None:
    for run in cast("Twin", tx).rows.values():
        if (row := run.approvals.get(approval_id)) is not None:
            return _approval(run, row)
    return None


def _approval(run: RunRow, row: ApprovalRow) -> Approval:
    call = row.request.call
    assert call.version is not None
    return Approval(
        id=row.id,
        run_id=run.id,
        call_id=call.id,
        tool=call.tool,
        tool_version=call.version,
        agent=row.request.agent,
        url=row.request.url,
        arguments=call.arguments,
        digest=call.digest,
        status=row.status,
        allowed_decisions=cast("Any", row.request.allowed_decisions),
        requested_at=AT,
        expires_at=AT,
        decided_at=None,
        decided_by=None,
        decision=None if row.decision is None else {"decision": row.decision},
        expired=row.due,
        path=(),
    )


async def cancel_approval(tx: Any, _: ProjectId, approval_id: ApprovalId) -> None:
    twin = cast("Twin", tx)
    for run in twin.rows.values():
        row = run.approvals.get(approval_id)
        if row is not None and row.status is ApprovalStatus.PENDING:
            after = replace(row, status=ApprovalStatus.CANCELLED)
            twin.put(run.id, approvals={**run.approvals, approval_id: after})
            return


async def remember(
    tx: Any,
    _: ProjectId,
    run: RunId,
    what: RememberedDecision,
    how: RememberOptions,
    session: SessionId | None,
) -> None:
    raise AssertionError("no scope remembers decisions")


async def is_overdue(tx: Any, _: ProjectId, run_id: RunId, call_id: CallId) -> bool:
    return call_id in cast("Twin", tx).rows[run_id].due_calls


async def is_crash_loop(tx: Any, _: ProjectId, run_id: RunId) -> bool:
    return DUE["crash loop"](replace(cast("Twin", tx).rows[run_id], status=RunStatus.QUEUED))


async def tool_of(tx: Any, vault: Any, state: RunState, call: Call) -> Any:
    """Versions are never deleted: `vault` has them all."""
    return vault[call.tool, call.version]


async def ended(tx: Any, _: ProjectId, lineage: Lineage | None) -> None:
    if lineage is not None:
        cast("Twin", tx).requeue_ancestors(lineage.ancestors)
        cast("Twin", tx).wake_parent(lineage.parent)


async def requeue_ancestors(tx: Any, _: ProjectId, ancestors: Sequence[RunId]) -> None:
    cast("Twin", tx).requeue_ancestors(ancestors)


async def settle_idle(tx: Any, _: ProjectId, upwards: Sequence[RunId]) -> None:
    cast("Twin", tx).settle_idle(upwards)


async def keep_late_callback(*_: object) -> None: ...


def accept_values(batch: Sequence[NewRun], _: timedelta) -> Any:
    return batch


async def record(_: Twin, *__: object) -> None:
    """The model has no audit log, because no run reads it."""
