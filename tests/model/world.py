"""The whole system as a value, and the effect of each step."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from uuid import UUID

from runward.domain.ids import CallId, RunId
from runward.domain.run.resolve import CallbackCompleted, CallbackInputRequired
from runward.domain.run.state import Call, CallPhase
from runward.domain.run.tools import CompiledTool
from runward.store.runs.gate import Step, VersionChanged
from tests.model import properties as must
from tests.model.engine import engine_of
from tests.model.keys import key_of
from tests.model.operations import Operation, perform
from tests.model.properties import ENDED, ViolationError, require
from tests.model.rows import Rows, RunRow, Tools
from tests.model.scopes import Scope
from tests.model.twin import Twin
from tests.model.worker import (
    Clock,
    Driver,
    Over,
    SpinError,
    Told,
    Worker,
)

NAMES: Final = "AB"
COMPLETED: Final = CallbackCompleted(status="completed", output=1)
ASKED: Final = CallbackInputRequired(status="input_required", requests={"what": "name"})


@dataclass(frozen=True, slots=True)
class Sent:
    """A request that a tool was sent. `timely`: by the worker that held the run then."""

    run: RunId
    call: CallId
    uuid: UUID
    attempt: int
    fence: int
    timely: bool
    effect: bool = True
    """False: it surely had none, or a person said that it may be sent again."""


@dataclass(frozen=True, slots=True)
class World:
    """`delayed`: statements that are still on their way from a worker that gave them up. `sent`,
    `starts` and `cut` are history that no code sees. `cut`: call starts after a drain."""

    rows: Rows
    workers: tuple[Worker | None, ...]
    tools: Tools
    budget: Mapping[str, int]
    delayed: tuple[tuple[Step, int], ...] = ()
    sent: tuple[Sent, ...] = ()
    starts: frozenset[tuple[RunId, CallId, int, int]] = frozenset()

    @property
    def key(self) -> Any:
        return (
            tuple([key_of(row) for row in self.rows]),
            frozenset(Counter(None if one is None else one.key for one in self.workers).items()),
            tuple([(name, one.version) for name, one in self.tools.items()]),
            tuple(self.budget.values()),
            tuple([(key_of(step), id_) for step, id_ in self.delayed]),
            key_of(self.sent),
            self.starts,
        )

    def row(self, run_id: RunId) -> RunRow:
        return next(row for row in self.rows if row.id == run_id)

    @property
    def over(self) -> bool:
        return all(row.status in ENDED for row in self.rows) and not any(self.workers)


Choice: TypeAlias = tuple[str, Callable[[], World]]
"""What somebody may do next, and what becomes of it."""
Journal: TypeAlias = list[tuple[Operation, Any, Rows, Tools]]


@dataclass
class Acting:
    """`journal`, if it is a list, is told each operation on the database, its answer and the rows
    after it."""

    scope: Scope
    clock: Clock
    vault: dict[tuple[str, int], CompiledTool] = field(
        default_factory=dict[tuple[str, int], CompiledTool]
    )
    journal: Journal | None = None

    def __post_init__(self) -> None:
        for one in (*self.scope.tools, *self.scope.others):
            self.vault[one.name, one.version] = one
        self.driver = Driver(self.clock)
        self.driver.engine = engine_of(self.scope, self.vault, self.driver.mint)

    def _act(self, world: World, name: str, *arguments: Any) -> tuple[World, Any]:
        """One operation on the database."""
        operation = Operation(name, arguments)
        twin = Twin(world.rows, world.tools)
        answer = perform(twin, self.vault, operation)
        rows = twin.frozen
        if self.journal is not None:
            self.journal.append((operation, answer, rows, world.tools))
        must.check_change(world.rows, rows)
        after = replace(world, rows=rows)
        return after, answer

    def _guarded(self, act: Callable[[], Worker | Over]) -> Worker | Over:
        try:
            return act()
        except SpinError:
            raise ViolationError("no loop without a write or a wait") from None
        except AssertionError as error:
            raise ViolationError("no assertion of the code fails", repr(error)) from error
        except (KeyError, AttributeError, ValueError) as error:
            raise ViolationError("a worker raises nothing", repr(error)) from error

    def _placed(self, world: World, index: int, worker: Worker | Over) -> World:
        workers = list(world.workers)
        workers[index] = None if isinstance(worker, Over) else worker
        return replace(world, workers=tuple(workers))

    def _check_asked(self, world: World, worker: Worker) -> None:
        """When a step is handed to the database."""
        if worker.waits_for != "commit":
            return
        step: Step = worker.value
        starts = must.newly_started(world.row(worker.run_id), step)
        require(not (starts and worker.draining), "nothing starts while a worker drains")
        current = {name: one.version for name, one in world.tools.items()}
        calls = [call_of(step, one) for one in starts]
        changed = any(call.version != current.get(call.tool) for call in calls)
        told = worker.outdated and changed
        require(not told, "no call of a changed tool starts after the notice")
        pinned = dict(worker.pinned)
        for call in calls:
            if call.approved_digest is not None and call.tool in pinned:
                same = call.version == pinned[call.tool]
                require(same, "an approval covers one version of a tool", call.id)

    def _tell(self, world: World, index: int, *told: Told) -> World:
        worker = world.workers[index]
        assert worker is not None
        after = self._guarded(lambda: self.driver.tell(worker, *told))
        done = isinstance(after, Over) and after.how == "done"
        refused = isinstance(told[0][1], VersionChanged)
        require(not (done and refused), "a claim ends with a step that was written")
        if isinstance(after, Worker) and asks_model(worker, after):
            self._check_model(world, after)
            require(not worker.draining, "no model is asked while a worker drains")
        if isinstance(after, Worker) and (told[0][0] == "main" or worker.waits_for != "commit"):
            self._check_asked(world, after)
        return self._placed(world, index, after)

    def _check_model(self, world: World, worker: Worker) -> None:
        row = world.row(worker.run_id)
        turn = worker.boundary.state.turn + 1
        require(row.turn < turn, "no model is asked for a committed turn", f"turn {turn}")
        open_calls = [one.id for one in row.calls.values() if one.phase is not CallPhase.SETTLED]
        require(not open_calls, "no model is asked while a call is open", str(open_calls))

    def _may(self, world: World, what: str) -> bool:
        return world.budget.get(what, 0) > 0

    def _spent(self, world: World, what: str) -> World:
        return replace(world, budget={**world.budget, what: world.budget[what] - 1})


def asks_model(before: Worker, after: Worker) -> bool:
    """Whether a model request was sent."""
    same = before.asks_for == "model" and before.boundary is after.boundary
    return after.asks_for == "model" and not same


def with_worker(world: World, index: int, worker: Worker | None) -> World:
    workers = list(world.workers)
    workers[index] = worker
    return replace(world, workers=tuple(workers))


def call_of(step: Step, call_id: CallId) -> Call:
    return {**step.changes.inserted, **step.changes.updated}[call_id]
