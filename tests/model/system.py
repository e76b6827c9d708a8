"""All steps that are possible next in a state."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from runward.domain.events.values import ApprovalStatus
from runward.domain.ids import RunId
from runward.domain.run.abandoned import Closed
from runward.domain.run.outcomes import Done, Failed, FailureKind, Waits
from runward.domain.run.resolve import CallbackCompleted, CallbackInputRequired
from runward.domain.run.state import Call, CallOutcome, CallPhase
from runward.domain.run.status import RunStatus
from runward.store.runs.gate import Committed, Step
from tests.model import properties as must
from tests.model.properties import ENDED, require
from tests.model.rows import RunRow
from tests.model.surroundings import Surroundings, show_run
from tests.model.twin import Twin
from tests.model.worker import (
    Flight,
    Worker,
)
from tests.model.world import Choice, Sent, World, call_of, with_worker

NAMES: Final = "AB"
COMPLETED: Final = CallbackCompleted(status="completed", output=1)
ASKED: Final = CallbackInputRequired(status="input_required", requests={"what": "name"})


class System(Surroundings):
    # States and steps.

    def initial(self) -> World:
        scope = self.scope
        return World((scope.root,), (None,) * scope.workers, scope.current, dict(scope.budget))

    def choices(self, world: World) -> Iterator[Choice]:
        for index, worker in enumerate(world.workers):
            if worker is None:
                yield from self._claims(world, index)
            else:
                yield from self._work(world, index, worker)
        yield from self._late_statements(world)
        for row in world.rows:
            yield from self._time(world, row)
            yield from self._people(world, row)
            if row.status not in ENDED:
                yield from self._outside(world, row)
        yield from self._registry(world)

    # A worker.

    def _claims(self, world: World, index: int) -> Iterator[Choice]:
        for run_id in Twin(world.rows, world.tools).claimable():
            label = f"worker {NAMES[index]} claims {show_run(world, run_id)}"
            yield label, lambda run_id=run_id: self._claim(world, index, run_id)

    def _claim(self, world: World, index: int, run_id: RunId) -> World:
        row = world.row(run_id)
        due = row.status is RunStatus.QUEUED and row.available
        require(due, "only a run that is due is claimed", row.status)
        after, state = self._act(world, "claim", run_id)
        worker = self._guarded(lambda: self.driver.begin(state))
        if isinstance(worker, Worker):
            self._check_asked(after, worker)
        return self._placed(after, index, worker)

    def _work(self, world: World, index: int, worker: Worker) -> Iterator[Choice]:
        name = NAMES[index]
        yield from self._main(world, index, worker, name)
        if worker.asks_for == "model":
            response = self.scope.response(
                worker.boundary.state.lineage, worker.boundary.state.turn + 1
            )
            yield (
                f"the model answers {name}",
                lambda: self._tell(world, index, ("asking", response)),
            )
        elif worker.asks_for == "renew":
            yield f"{name} asks for its lease", lambda: self._renew(world, index, worker)
        elif worker.asks_for is not None:
            yield (
                f"rules answer {name}",
                lambda: self._tell(world, index, ("asking", [])),
            )
        for flight in worker.flights:
            yield from self._fly(world, index, flight, name)
        yield from self._disturb(world, index, worker, name)

    def _main(self, world: World, index: int, worker: Worker, name: str) -> Iterator[Choice]:
        match worker.waits_for:
            case "commit":
                yield from self._flush(world, index, worker, name)
            case "load":
                yield f"{name} loads the run", lambda: self._load(world, index, worker)
            case "wait":
                if worker.wakes:
                    yield f"{name} wakes up", lambda: self._tell(world, index, ("main", None))
            case "renew":
                yield f"{name} asks for its lease", lambda: self._renew(world, index, worker)
            case "cancel below":
                yield f"{name} cancels child runs", lambda: self._cancel_below(world, index, worker)
            case "rules":
                yield f"rules answer {name}", lambda: self._tell(world, index, ("main", []))
            case other:
                raise AssertionError(other)

    def _flush(self, world: World, index: int, worker: Worker, name: str) -> Iterator[Choice]:
        """A step on its way to the database, or the answer on its way back."""
        if worker.wire is None:
            about = _about(worker.value)
            yield (
                f"{name}'s step reaches the database: {about}",
                lambda: self._commit(world, index, worker),
            )
            if self._may(world, "late"):
                yield (
                    f"{name}'s connection is lost; the step is sent again",
                    lambda: self._delayed(self._spent(world, "late"), worker),
                )
        else:
            yield (
                f"{name} hears: {_heard(worker.wire)}",
                lambda: self._answered(world, index, worker),
            )
            if self._may(world, "resend"):
                yield (
                    f"{name}'s connection is lost after the commit; the step is sent again",
                    lambda: self._unanswered(self._spent(world, "resend"), index, worker),
                )

    def _commit(self, world: World, index: int, worker: Worker) -> World:
        step: Step = worker.value
        after, written = self._write(world, step, worker.writes + 1)
        answered = replace(worker, wire=("answer", written))
        over = written == "lost" or (isinstance(written, Committed) and step.ending is not None)
        if over and not worker.boundary.state.open_children:
            # All that is left for the worker is to forget the run: nobody can tell when it does.
            return with_worker(after, index, None)
        return with_worker(after, index, answered)

    def _write(self, world: World, step: Step, write_id: int) -> tuple[World, Any]:
        row = world.row(step.run_id)
        after, written = self._act(world, "step", step, write_id)
        now = after.row(step.run_id)
        if now is not row:
            must.check_written(row, step)
            require(row.last_write != (write_id, step.fence), "a step is written once")
            self._check_tools(world, row, step)
            self._check_unknown(step)
            new = {
                (row.id, one, call_of(step, one).attempt, step.fence)
                for one in must.newly_started(row, step)
            }
            after = replace(after, starts=after.starts | new)
        elif isinstance(written, Committed):
            mine = row.last_write == (write_id, step.fence)
            require(mine, "no worker believes in a step that was not written")
        return after, written

    def _check_tools(self, world: World, row: RunRow, step: Step) -> None:
        for call_id in must.newly_started(row, step):
            call = call_of(step, call_id)
            spec = self.vault[call.tool, call.version or 0].spec
            limit = spec.retry.max_attempts + row.fence
            requested = call.exchange.attempt if call.exchange else 0
            require(call.attempt - requested <= limit, "attempts are limited", call_id)
            gated = spec.approval == "always"
            require(not gated or call.approval_id is not None, "a gated call needs an approval")

    def _check_unknown(self, step: Step) -> None:
        for call in step.changes.updated.values():
            unknown = call.result and call.result.outcome is CallOutcome.OUTCOME_UNKNOWN
            if unknown or call.phase is CallPhase.AWAITING_RESOLUTION:
                spec = self.vault[call.tool, call.version or 0].spec
                spent = call.attempt >= spec.retry.max_attempts
                require(not spec.idempotent or spent, "an idempotent call is repeated", call.id)

    def _answered(self, world: World, index: int, worker: Worker) -> World:
        _, written = worker.wire
        heard = replace(worker, wire=None, writes=worker.writes + 1)
        return self._tell(with_worker(world, index, heard), index, ("main", written))

    def _unanswered(self, world: World, index: int, worker: Worker) -> World:
        return with_worker(world, index, replace(worker, wire=None))

    def _delayed(self, world: World, worker: Worker) -> World:
        late = (*world.delayed, (worker.value, worker.writes + 1))
        return replace(world, delayed=late)

    def _late_statements(self, world: World) -> Iterator[Choice]:
        for number, (step, id_) in enumerate(world.delayed):
            left = world.delayed[:number] + world.delayed[number + 1 :]
            yield (
                f"a delayed statement arrives: {_about(step)}",
                lambda step=step, id_=id_, left=left: self._write(
                    replace(world, delayed=left), step, id_
                )[0],
            )

    def _load(self, world: World, index: int, worker: Worker) -> World:
        after, state = self._act(world, "load", *worker.value)
        return self._tell(after, index, ("main", state))

    def _renew(self, world: World, index: int, worker: Worker) -> World:
        after, held = self._act(world, "renew", worker.run_id, worker.fence)
        who = "asking" if worker.asks_for == "renew" else "main"
        return self._tell(after, index, (who, held))

    def _cancel_below(self, world: World, index: int, worker: Worker) -> World:
        after, _ = self._act(world, "cancel below", worker.run_id)
        return self._tell(after, index, ("main", Closed()))

    def _fly(self, world: World, index: int, flight: Flight, name: str) -> Iterator[Choice]:
        id_ = flight.call.id
        if flight.over:
            return
        if not flight.told:
            yield f"{name} sends {id_}", lambda: self._send(world, index, flight)
        elif flight.waits_for == "pause":
            yield (
                f"the pause before {name}'s retry of {id_} ends",
                lambda: self._tell(world, index, (id_, None)),
            )
        else:
            results = flight.invocation.agent_results if flight.invocation else None
            for outcome in self.scope.outcomes(flight.call.tool, len(results or ())):
                yield (
                    f"the tool answers {name} about {id_}: {_outcome(outcome)}",
                    lambda outcome=outcome: self._tool_answers(world, index, flight, outcome),
                )

    def _send(self, world: World, index: int, flight: Flight) -> World:
        worker = world.workers[index]
        assert worker is not None
        world, may_send = self._has_lease(world, worker)
        id_ = flight.call.id
        after = self._tell(world, index, (id_, None), (id_, may_send))
        worker = after.workers[index]
        assert worker is not None
        now = next(one for one in worker.flights if one.call.id == flight.call.id)
        if now.invocation is None:  # nothing leaves the process
            return after
        call = flight.call
        row = world.row(worker.run_id)
        timely = row.fence == worker.fence and row.status not in ENDED
        sent = Sent(row.id, call.id, now.invocation.call_uuid, call.attempt, call.fence, timely)
        self._check_sent(world, row, sent, call)
        must.check_agent_results(world.rows, row, call.id, now.invocation.agent_results or ())
        return replace(after, sent=(*world.sent, sent))

    def _has_lease(self, world: World, worker: Worker) -> tuple[World, bool]:
        """Like `LeasedRun._has_lease`: the database is asked if the lease may have run out."""
        if worker.lost or not worker.late:
            return world, not worker.lost
        return self._act(world, "renew", worker.run_id, worker.fence)

    def _check_sent(self, world: World, row: RunRow, sent: Sent, call: Call) -> None:
        start = (row.id, sent.call, sent.attempt, sent.fence)
        require(start in world.starts, "nothing is sent before its start is committed", sent.call)
        same = [one for one in world.sent if (one.run, one.call) == (sent.run, sent.call)]
        twice = any((one.attempt, one.fence) == (sent.attempt, sent.fence) for one in same)
        require(not twice, "each attempt is sent once", sent.call)
        require(all(one.uuid == sent.uuid for one in same), "all attempts have one id", sent.call)
        spec = self.vault[call.tool, call.version or 0].spec
        if sent.timely and not spec.idempotent:
            before = [one for one in same if one.effect and one.timely]
            require(not before, "a call that is not idempotent is sent once", sent.call)
        decided = {a.status for a in row.approvals.values() if a.request.call.id == sent.call}
        refused = {ApprovalStatus.REJECTED, ApprovalStatus.EXPIRED, ApprovalStatus.RESPONDED}
        require(not decided & refused, "what was refused is never sent", sent.call)

    def _tool_answers(self, world: World, index: int, flight: Flight, outcome: Any) -> World:
        call = flight.call
        not_sent = isinstance(outcome, Failed) and outcome.reason is FailureKind.NOT_SENT
        if not_sent or (isinstance(outcome, Waits) and outcome.agents):
            mine = (call.id, call.attempt, call.fence)
            sent = tuple(
                replace(one, effect=False) if (one.call, one.attempt, one.fence) == mine else one
                for one in world.sent
            )
            world = replace(world, sent=sent)
        return self._tell(world, index, (call.id, outcome))

    def _disturb(self, world: World, index: int, worker: Worker, name: str) -> Iterator[Choice]:
        row = world.row(worker.run_id)
        held = row.fence == worker.fence and row.status is RunStatus.IN_PROGRESS
        named = [one for one in row.config.tools if one in world.tools]
        pinned = {one: world.tools[one].version for one in named}
        changed = row.version != worker.version or pinned != dict(worker.pinned)
        if held and changed and not worker.outdated and not worker.lost:
            yield f"{name} is notified", lambda: self._tell(world, index, ("nudge", None))
        if not (held and row.lease == "held") and not worker.lost:
            yield f"{name}'s heartbeat finds the lease lost", lambda: self._lose(world, index)
        if self._may(world, "drain") and not worker.draining:
            yield (
                f"{name} is asked to stop",
                lambda: self._tell(self._spent(world, "drain"), index, ("drain", None)),
            )
        if self._may(world, "crash"):
            yield f"{name} crashes", lambda: with_worker(self._spent(world, "crash"), index, None)
            if worker.waits_for == "commit" and worker.wire is None and self._may(world, "late"):
                gone = self._spent(self._spent(world, "crash"), "late")
                yield (
                    f"{name} crashes, with a statement on its way",
                    lambda: with_worker(self._delayed(gone, worker), index, None),
                )

    def _lose(self, world: World, index: int) -> World:
        worker = world.workers[index]
        assert worker is not None
        after, _ = self._act(world, "forgive", worker.run_id, worker.fence)
        return self._tell(after, index, ("lose", None))


def _about(step: Step) -> str:
    """What a step says, in short."""
    changes = step.changes
    rows = {**changes.inserted, **changes.updated}.values()
    parts = [f"{one.id} {one.phase}" for one in rows]
    if changes.segments:
        parts.insert(0, f"turn {step.turn}")
    if step.ending is not None:
        parts.append(step.ending.move)
    return ", ".join(parts) or "events"


def _heard(wire: Any) -> str:
    written = wire[1]
    return written if isinstance(written, str) else type(written).__name__.lower()


def _outcome(outcome: Any) -> str:
    match outcome:
        case Done():
            return "done"
        case Failed(reason=why):
            return why
        case Waits(agents=requests) if requests:
            return f"it needs {len(requests)} agents"
        case _:
            return "later"
