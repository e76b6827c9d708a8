"""Events caused by time, people, clients and tools, independently of the workers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import ApprovalId, CallId, RunId
from runward.domain.run.resolve import (
    CallbackCompleted,
    CallbackInputRequired,
    CompletedResolution,
    RetryResolution,
)
from runward.domain.run.state import Call, CallPhase
from runward.domain.run.tools import CompiledTool, compile_tool
from runward.store.runs.queue import MAX_CLAIMS
from tests.model.operations import Refused
from tests.model.properties import ENDED, require
from tests.model.rows import RunRow
from tests.model.scopes import DECISIONS
from tests.model.twin import DUE, Twin
from tests.model.world import Acting, Choice, World

NAMES: Final = "AB"
COMPLETED: Final = CallbackCompleted(status="completed", output=1)
ASKED: Final = CallbackInputRequired(status="input_required", requests={"what": "name"})


class Surroundings(Acting):
    # Time.

    def _time(self, world: World, row: RunRow) -> Iterator[Choice]:
        id_, run = row.id, show_run(world, row.id)
        yield from self._late_leases(world, row)
        for due, name, label in [
            ("lease", "free", "a sweep frees"),
            ("crash loop", "quarantine", "a sweep quarantines"),
            ("deadline", "expire run", "a sweep expires"),
        ]:
            if DUE[due](row):
                yield f"{label} {run}", lambda name=name: self._swept(world, name, row)
            elif name != "free" and self._may(world, "early") and row.status not in ENDED:
                early = self._spent(world, "early")
                yield (
                    f"{label} {run}, which it found due before",
                    lambda name=name, early=early: self._swept(early, name, row),
                )
        if row.config.limits.deadline_seconds is not None and self._may(world, "deadline"):
            yield f"the deadline of {run} passes", lambda: self._deadline_passes(world, row)
        yield from self._late_decisions(world, row)
        yield from self._late_answers(world, row)
        if row.status in ENDED and Twin(world.rows, world.tools).below(id_):
            yield f"a sweep cancels below {run}", lambda: self._act(world, "cancel below", id_)[0]

    def _late_decisions(self, world: World, row: RunRow) -> Iterator[Choice]:
        for approval in row.approvals.values():
            if approval.status is not ApprovalStatus.PENDING:
                continue
            about = f"the approval of {approval.request.call.id}"
            if approval.due:
                yield (
                    f"a sweep expires {about}",
                    lambda one=approval.id: self._act(world, "expire approval", one)[0],
                )
            elif self._may(world, "approval"):
                yield (
                    f"the time of {about} passes",
                    lambda one=approval.id: self._act(
                        self._spent(world, "approval"), "approval ends", one
                    )[0],
                )

    def _late_leases(self, world: World, row: RunRow) -> Iterator[Choice]:
        id_, run = row.id, show_run(world, row.id)
        if row.lease == "held":
            alone = not any(w and w.run_id == id_ and w.fence == row.fence for w in world.workers)
            if alone:
                yield f"the lease of {run} ends", lambda: self._lease_ends(world, row)
            elif self._may(world, "lease"):
                frozen = self._spent(world, "lease")
                yield f"the lease of {run} ends", lambda: self._lease_ends(frozen, row)

    def _swept(self, world: World, name: str, row: RunRow) -> World:
        after, _ = self._act(world, name, row.id)
        if name == "quarantine" and after.row(row.id) is not row:
            crashes = self.scope.budget.get("crash", 0) - world.budget.get("crash", 0)
            require(crashes >= MAX_CLAIMS, "only a run that ends its workers is quarantined")
        if name == "expire run" and after.row(row.id) is not row:
            require(row.overdue, "only an overdue run expires")
        return after

    def _late_answers(self, world: World, row: RunRow) -> Iterator[Choice]:
        for call in row.calls.values():
            awaits = call.phase in (CallPhase.AWAITING_CALLBACK, CallPhase.AWAITING_RESULT)
            if not awaits or call.received is not None:
                continue
            if call.id in row.due_calls:
                yield (
                    f"a sweep times {call.id} out",
                    lambda one=call.id: self._act(world, "expire answer", row.id, one)[0],
                )
                continue
            if self._may(world, "early"):
                yield (
                    f"a sweep times {call.id} out, which it found due before",
                    lambda one=call.id: self._too_early(world, row, one),
                )
            if self._may(world, "answer"):
                yield (
                    f"the time of {call.id} passes",
                    lambda one=call.id: self._act(
                        self._spent(world, "answer"), "answer is late", row.id, one
                    )[0],
                )

    def _too_early(self, world: World, row: RunRow, call_id: CallId) -> World:
        after, _ = self._act(self._spent(world, "early"), "expire answer", row.id, call_id)
        require(after.row(row.id) is row, "no call times out before its time", call_id)
        return after

    def _lease_ends(self, world: World, row: RunRow) -> World:
        after, _ = self._act(world, "lease ends", row.id)
        for index, worker in enumerate(world.workers):
            if worker is not None and worker.run_id == row.id and not worker.late:
                after = self._tell(after, index, ("late", None))
        return after

    def _deadline_passes(self, world: World, row: RunRow) -> World:
        after, _ = self._act(self._spent(world, "deadline"), "deadline passes", row.id)
        for index, worker in enumerate(world.workers):
            if worker is not None and worker.run_id == row.id:
                after = self._tell(after, index, ("overdue", None))
        return after

    # People, clients and tools.

    def _people(self, world: World, row: RunRow) -> Iterator[Choice]:
        for approval in row.approvals.values():
            yield from self._decisions(world, approval.id, approval.status, approval.request.call)
        for call in row.calls.values():
            yield from self._answers(world, row, call)

    def _outside(self, world: World, row: RunRow) -> Iterator[Choice]:
        id_, run = row.id, show_run(world, row.id)
        for budget, after_turn, how in [("cancel", False, ""), ("cancel later", True, " later")]:
            if self._may(world, budget):
                spent = self._spent(world, budget)
                yield (
                    f"somebody cancels {run}{how}",
                    lambda spent=spent, later=after_turn: self._act(spent, "cancel", id_, later)[0],
                )
        if self._may(world, "input") and row.lineage is None:
            spent = self._spent(world, "input")
            yield f"somebody adds input to {run}", lambda: self._act(spent, "input", id_)[0]

    def _decisions(
        self, world: World, id_: ApprovalId, status: ApprovalStatus, call: Call
    ) -> Iterator[Choice]:
        if status is not ApprovalStatus.PENDING:
            if not self._may(world, "again"):
                return
            world = self._spent(world, "again")
        for name in self.scope.decisions:
            yield (
                f"somebody decides on {call.id}: {name}",
                lambda name=name: self._act(world, "decide", id_, DECISIONS[name])[0],
            )

    def _answers(self, world: World, row: RunRow, call: Call) -> Iterator[Choice]:
        at = (row.id, call.id)
        match call.phase:
            case CallPhase.AWAITING_CALLBACK:
                yield (
                    f"the tool calls back about {call.id}",
                    lambda: self._act(world, "call back", *at, call.attempt, COMPLETED)[0],
                )
                if self._may(world, "ask"):
                    spent = self._spent(world, "ask")
                    yield (
                        f"the tool asks the caller about {call.id}",
                        lambda: self._act(spent, "call back", *at, call.attempt, ASKED)[0],
                    )
            case CallPhase.AWAITING_RESULT | CallPhase.AWAITING_INPUT:
                yield (
                    f"the client gives {call.id}",
                    lambda: self._act(world, "give", *at, COMPLETED)[0],
                )
            case CallPhase.AWAITING_RESOLUTION:
                done = CompletedResolution(resolution="completed", output=1)
                yield (
                    f"somebody resolves {call.id}: completed",
                    lambda: self._act(world, "resolve", *at, done)[0],
                )
                if self._may(world, "retry"):
                    yield (
                        f"somebody resolves {call.id}: retry",
                        lambda: self._retry(self._spent(world, "retry"), row, call),
                    )
            case _:
                if call.attempt > 0 and self._may(world, "again"):
                    spent = self._spent(world, "again")
                    yield (
                        f"the tool calls back about {call.id} once more",
                        lambda: self._act(spent, "call back", *at, call.attempt, COMPLETED)[0],
                    )

    def _retry(self, world: World, row: RunRow, call: Call) -> World:
        how = RetryResolution(resolution="retry")
        after, answer = self._act(world, "resolve", row.id, call.id, how)
        if isinstance(answer, Refused):
            return after
        sent = tuple(
            replace(one, effect=False) if (one.run, one.call) == (row.id, call.id) else one
            for one in world.sent
        )
        return replace(after, sent=sent)

    def _registry(self, world: World) -> Iterator[Choice]:
        for name, one in world.tools.items():
            if self._may(world, "change tool"):
                spent = self._spent(world, "change tool")
                yield (
                    f"somebody changes the tool {name}",
                    lambda one=one, spent=spent: self._change_tool(spent, one),
                )
            if self._may(world, "delete tool"):
                spent = self._spent(world, "delete tool")
                left = {n: t for n, t in world.tools.items() if n != name}
                yield (
                    f"somebody deletes the tool {name}",
                    lambda spent=spent, left=left: replace(spent, tools=left),
                )

    def _change_tool(self, world: World, one: CompiledTool) -> World:
        key = one.name, one.version + 1
        if key not in self.vault:
            spec = one.spec.model_copy(update={"url": f"{one.spec.url}/{key[1]}"})
            self.vault[key] = compile_tool(spec, key[1])
        return replace(world, tools={**world.tools, one.name: self.vault[key]})


def show_run(world: World, run_id: RunId) -> str:
    return "the run" if world.rows[0].id == run_id else "the child run"
