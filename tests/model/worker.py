"""One claim as a value: the real `Execution`, resumed step by step.

Between two steps of the executor, its state is a value (`Boundary`). Within a step, the position of
its coroutines is the list of answers that they have received since (`Worker.told`). To continue,
the step is repeated up to that point. Therefore any other event may happen first at every await.
"""

import asyncio
from collections.abc import Coroutine, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast
from uuid import UUID

from runward.domain.ids import CallId
from runward.domain.run.outcomes import Outcome
from runward.domain.run.state import Call, Changes, RunState
from runward.domain.run.tools import CompiledTool
from runward.loop.calls_in_flight import CallsInFlight, _unfailing  # pyright: ignore[reportPrivateUsage]
from runward.loop.execution import Execution
from runward.loop.leased_run import LeaseLostError
from runward.loop.toolbox import SignedTool, ToolSet
from runward.tools.base import LEASE_LOST, Invocation
from tests.model.keys import key_of

MAX_STEPS: Final = 12
"""Steps in a row of one worker that neither write nor wait. More of them are a loop."""
LONG_AGO: Final = -1000.0
FREEZE: Final = 100.0
"""Seconds: longer than a lease, and three of them shorter than a deadline or a tool's time."""


class SpinError(Exception):
    """A worker goes round in circles without writing or waiting."""


class Pending:
    """An await that the scheduler answers. `kind` says what is waited for."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value

    def __await__(self) -> Generator["Pending", Any, Any]:
        return (yield self)


Told: TypeAlias = tuple[str, Any]
"""Who is told, and what: `main` (an answer), `asking` (an answer), a flag, or a call's id."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A task of `CallsInFlight`. `told` is empty before its first step."""

    work: str
    arguments: Mapping[str, Any]
    told: tuple[Any, ...] = ()
    waits_for: str | None = None
    invocation: Invocation | None = None
    outcome: Any = None
    over: bool = False

    @property
    def call(self) -> Call:
        return self.arguments["call"]

    @property
    def key(self) -> Any:
        told = None if self.over else key_of(self.told)
        return (self.work, key_of(self.call), told, key_of(self.outcome), self.over)


@dataclass(frozen=True, slots=True)
class Boundary:
    """An `Execution` between two steps."""

    state: RunState
    changes: Changes
    nudged: bool
    outdated: bool
    draining: bool
    lost: bool
    late: bool
    overdue: bool
    tools: ToolSet
    enabled: Mapping[str, CompiledTool]
    flights: Mapping[CallId, Flight]
    tried: frozenset[CallId]
    allowed: Mapping[CallId, Any]
    stopping: bool
    minted: int
    """Ids that this claim has minted."""

    @property
    def key(self) -> Any:
        return (
            self.minted,
            key_of(self.state),
            key_of(self.changes),
            (self.nudged, self.outdated, self.draining, self.lost, self.late, self.overdue),
            tuple(sorted((n, t.version) for n, t in self.enabled.items())),
            tuple((id_, one.key) for id_, one in self.flights.items()),
            self.tried,
            tuple((id_, seen[0]) for id_, seen in self.allowed.items()),
            self.stopping,
            tuple(sorted(self.tools._armed)),  # pyright: ignore[reportPrivateUsage]
        )


class FlyingTask:
    """Stands for an `asyncio.Task` of one attempt at a call."""

    def __init__(self, flight: Flight) -> None:
        self.flight = flight

    def done(self) -> bool:
        return self.flight.over

    def result(self) -> Any:
        return self.flight.outcome

    def tell(self, flights: "Flights", answer: Any) -> None:
        """Begin it, or answer what it waits for."""
        flight = self.flight
        told = (*flight.told, answer)
        work = getattr(flights, flight.work)(**flight.arguments)
        task = _unfailing(flight.call, flight.arguments["signed_tool"], work)
        over, outcome = False, None
        pending: Any = None
        try:
            for one in told:
                pending = task.send(one)
        except StopIteration as end:
            over, pending, outcome = True, None, end.value
        finally:
            task.close()
        self.flight = replace(
            flight,
            told=told,
            over=over,
            outcome=outcome,
            waits_for=pending.kind if pending else None,
            invocation=pending.value if pending and pending.kind == "send" else None,
        )


class Flights(CallsInFlight):
    """Keeps its tasks as values. It pauses before a retry until the scheduler says so."""

    def _start_task(
        self, call: Call, signed_tool: SignedTool, work: Coroutine[None, None, Any]
    ) -> None:
        frame = cast("Any", work).cr_frame
        arguments = {name: value for name, value in frame.f_locals.items() if name != "self"}
        name = cast("Any", work).cr_code.co_name
        work.close()
        self._tasks[call.id] = cast("Any", FlyingTask(Flight(name, arguments)))

    async def _back_off(self, seconds: float) -> None:
        await Pending("pause")

    async def close(self) -> None:
        """There are no tasks to cancel."""


class Webhook:
    """Implements `ToolExecutor`: the scheduler is the tool. Like `runward.tools.webhook.invoker`,
    it asks whether the worker still has the run before it sends anything."""

    async def invoke(self, call: Invocation) -> Outcome:
        may_send = await Pending("lease", call)
        return await Pending("send", call) if may_send else LEASE_LOST


class Asking:
    """Stands for the task of a model request."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self._result: Any = None
        self._begun = False
        self._over = False
        self.pending: Pending | None = None

    def done(self) -> bool:
        return self._over

    def result(self) -> Any:
        if isinstance(self._result, BaseException):
            raise self._result
        return self._result

    def begin(self) -> None:
        if not self._begun:
            self.tell(None)

    def tell(self, answer: Any) -> None:
        self._begun = True
        try:
            self.pending = self._work.send(answer)
        except StopIteration as end:
            self._over, self.pending, self._result = True, None, end.value
        except LeaseLostError as error:
            self._over, self.pending, self._result = True, None, error

    def cancel(self) -> None:
        self._work.close()
        self.pending = None


class Clock(asyncio.SelectorEventLoop):
    """The event loop that the executor asks for the time and for tasks. It never runs."""

    def __init__(self) -> None:
        super().__init__()
        self.asking: Asking | None = None
        self.now = 0.0

    def time(self) -> float:
        """Seconds since the worker's last boundary."""
        return self.now

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:
        del name, context
        self.asking = Asking(coro)
        return self.asking


async def wait(_: Any, tasks: Any, seconds: float | None) -> None:
    """Takes the place of `LeasedRun.wait`: the scheduler ends a wait."""
    await Pending("wait", (tasks, seconds))


class Modeled(Execution):
    """The executor itself, step by step."""

    async def _step(self) -> bool:
        """`run` arms the run and recovers its calls; after that, each step is driven alone."""
        await Pending("boundary")
        return True

    def next_step(self) -> Coroutine[Any, Any, bool]:
        return super()._step()


_OF_EXECUTION: Final = frozenset(
    {
        *("leased", "_engine", "_tools", "_checks", "_calls", "_schema", "_losses", "_turn_began"),
        "_trace",
    }
)
_OF_LEASED: Final = frozenset(
    {
        "state",
        "changes",
        "lost",
        "draining",
        "status",
        "error",
        "_storage",
        "_on_load",
        "_loaded_at",
        "_leased_until",
        "_loop",
        "_signaled",
        "_waiter",
        "_watched",
        "_outdated",
    }
)
_OF_TOOLS: Final = frozenset(
    {"enabled", "caps", "_toolbox", "_inline", "_rules", "_defined", "_unregistered"}
)
_OF_FLIGHTS: Final = frozenset(
    {
        "checks",
        "_invokers",
        "_callback",
        "_report",
        "_may_send",
        "_loop",
        "_tasks",
        "_deadlines",
        "_allowed",
        "_reports",
        "_usage",
        "_stopping",
        "_trace",
    }
)


def _check_fields(execution: Any) -> None:
    """A new field of the executor would be state that this model does not see."""
    for owner, known in [
        (execution, _OF_EXECUTION),
        (execution.leased, _OF_LEASED),
        (execution._tools, _OF_TOOLS),
        (execution._calls, _OF_FLIGHTS),
    ]:
        fields = set(cast("dict[str, Any]", vars(owner)))
        assert fields == known, fields ^ known


def _frozen(it: Any, minted: int, now: float) -> Boundary:
    _check_fields(it)
    leased, flights = it.leased, it._calls
    tasks = cast("dict[CallId, FlyingTask]", flights._tasks)
    assert not flights._reports
    assert not flights._usage
    assert not it._losses
    assert leased._waiter is None
    assert not leased._watched
    return Boundary(
        state=leased.state,
        changes=leased.changes.copy(),
        nudged=leased._signaled,
        outdated=leased._outdated,
        draining=leased.draining,
        lost=leased.lost,
        late=leased._leased_until <= now,
        overdue=leased._loaded_at == LONG_AGO,
        tools=it._tools._defined,
        enabled=it._tools.enabled,
        flights={id_: task.flight for id_, task in tasks.items()},
        tried=frozenset(flights._deadlines),
        allowed=dict(flights._allowed),
        stopping=flights._stopping.is_set(),
        minted=minted,
    )


def _thawed(engine: Any, one: Boundary) -> Modeled:
    it: Any = Modeled(engine, one.state)
    leased, tools, flights = it.leased, it._tools, it._calls
    leased.changes = one.changes.copy()
    leased._signaled = one.nudged
    if one.stopping:
        flights._stopping.set()
    leased._outdated, leased.draining, leased.lost = one.outdated, one.draining, one.lost
    leased._loaded_at = LONG_AGO if one.overdue else 0.0
    if one.late:
        leased._leased_until = LONG_AGO
    tools._defined, tools.enabled = one.tools, dict(one.enabled)
    current = one.tools.current(one.state)
    tools.caps = {name: tool.spec.concurrency for name, tool in current.items()}
    flights._tasks = cast("Any", {id_: FlyingTask(flight) for id_, flight in one.flights.items()})
    flights._deadlines = dict.fromkeys(one.tried, 400.0)
    flights._allowed = dict(one.allowed)
    return it


@dataclass(frozen=True, slots=True)
class Worker:
    """`wire`: the statement of the step that is being committed, or the answer to it that has not
    arrived. The fields after `wire` follow from those before."""

    boundary: Boundary
    told: tuple[Told, ...] = ()
    wire: Any = None
    writes: int = 0
    """Write ids that this claim has used."""
    waits_for: str = ""
    value: Any = None
    asks_for: str | None = None
    draining: bool = False
    lost: bool = False
    late: bool = False
    outdated: bool = False
    """A notice was heard, and the run has not been read since."""
    wakes: bool = False
    """What it waits for is there."""
    version: int = 0
    pinned: tuple[tuple[str, int], ...] = ()
    flights: tuple[Flight, ...] = ()

    @property
    def fence(self) -> int:
        return self.boundary.state.fence

    @property
    def run_id(self) -> Any:
        return self.boundary.state.id

    @property
    def key(self) -> Any:
        return (
            self.boundary.key,
            tuple([(who, key_of(what)) for who, what in self.told]),
            key_of(self.wire),
            self.writes,
        )


@dataclass(frozen=True, slots=True)
class Over:
    """The claim is over. `how`: `done` (it was written), `lost`, or what was raised."""

    how: str


class Driver:
    """Runs executions, one reaction at a time. `engine` waits with `Pending` alone."""

    def __init__(self, clock: Clock) -> None:
        self.engine: Any = None
        self.clock = clock
        self._first = 0
        self.minted = 0

    def mint(self) -> UUID:
        """Numbered within the claim."""
        self.minted += 1
        return UUID(int=self._first + self.minted)

    def begin(self, state: RunState) -> Worker | Over:
        """What a worker does first with a run that it has claimed."""
        self._for(state, 0)
        it = Modeled(self.engine, state)
        run = it.run()
        first: Any = run.send(None)
        assert first.kind == "boundary", first.kind
        boundary = _frozen(it, self.minted, self.clock.now)
        run.close()
        return self.tell(Worker(boundary))

    def tell(self, worker: Worker, *news: Told) -> Worker | Over:
        boundary = worker.boundary
        self._for(boundary.state, boundary.minted)
        live = _Live(self, boundary)
        try:
            live.start()
            for one in (*worker.told, *news):
                live.hear(one)
            return live.worker(worker)
        except LeaseLostError:
            return Over("lost")
        except _OverError:
            return Over("done")
        finally:
            live.close()

    def _for(self, state: RunState, minted: int) -> None:
        self.clock.now = 0.0
        self._first = (state.id.int % 0xFFFFFFFB << 80) + (state.fence << 32)
        self.minted = minted


class _OverError(Exception):
    pass


class _Live:
    """An execution within a step."""

    def __init__(self, driver: Driver, boundary: Boundary) -> None:
        self._driver = driver
        self._clock = driver.clock
        self.boundary = boundary
        self._it: Any = _thawed(driver.engine, boundary)
        self._step: Coroutine[Any, Any, bool] | None = None
        self._pending: Pending | None = None
        self._told: list[Told] = []
        self._steps = 0

    def start(self) -> None:
        """Begin the next step, and those after it that wait for nothing."""
        self._clock.asking = None
        self._step = self._it.next_step()
        self._go_on(None)

    def _go_on(self, answer: Any) -> None:
        assert self._step is not None
        try:
            self._pending = self._step.send(answer)
        except StopIteration as end:
            if end.value:
                raise _OverError from None
            self._steps += 1
            if self._steps > MAX_STEPS:
                raise SpinError from None
            self.boundary = _frozen(self._it, self._driver.minted, self._clock.now)
            self._told = []
            self._restart()
            self.start()
            return
        asking = self._clock.asking
        assert self._pending is not None
        if self._pending.kind == "wait" and asking is not None and not asking.done():
            asking.begin()
            if asking.done():
                self._go_on(None)

    def _restart(self) -> None:
        """Go on from the boundary as it will be found again, with the clock at its beginning."""
        self._it = _thawed(self._driver.engine, self.boundary)
        self._clock.now = 0.0

    def hear(self, told: Told) -> None:
        self._steps = 0
        self._told.append(told)
        who, what = told
        it = self._it
        match who:
            case "main":
                self._go_on(what)
            case "asking":
                assert self._clock.asking is not None
                self._clock.asking.tell(what)
            case "nudge":
                it.leased.notify_changed()
            case "drain":
                it.leased.drain()
            case "lose":
                it.leased.mark_lost()
            case "late":
                self._clock.now += FREEZE
            case "overdue":
                it.leased._loaded_at = LONG_AGO
            case _:
                flights: Flights = it._calls
                cast("dict[CallId, FlyingTask]", it._calls._tasks)[CallId(who)].tell(flights, what)

    def worker(self, before: Worker) -> Worker:
        it, pending, asking = self._it, self._pending, self._clock.asking
        assert pending is not None
        wakes = False
        if pending.kind == "wait":
            tasks, seconds = pending.value
            passed = seconds is not None and it.leased._loaded_at == LONG_AGO
            wakes = any(one.done() for one in tasks) or it.leased.has_signal or passed
        waiting = asking is not None and asking.pending is not None
        tasks = cast("dict[CallId, FlyingTask]", it._calls._tasks)
        return Worker(
            boundary=self.boundary,
            told=_in_one_order(self._told),
            wire=before.wire,
            writes=before.writes,
            waits_for=pending.kind,
            value=pending.value if pending.kind != "wait" else None,
            asks_for=asking.pending.kind if waiting and asking and asking.pending else None,
            draining=it.leased.draining,
            lost=it.leased.lost,
            late=it.leased._leased_until <= self._clock.now,
            outdated=it.leased._outdated,
            wakes=wakes,
            version=it.leased.state.version,
            pinned=tuple(it.leased.state.tool_versions.items()),
            flights=tuple(task.flight for task in tasks.values()),
        )

    def close(self) -> None:
        """Leave the coroutines where they are."""
        with suppress(RuntimeError):
            if self._step is not None:
                self._step.close()
        if self._clock.asking is not None:
            self._clock.asking.cancel()


def _in_one_order(told: list[Told]) -> tuple[Told, ...]:
    """Between two answers to the executor itself, the order of what its flags and its calls were
    told makes no difference: it reads them when it goes on."""
    ordered: list[Told] = []
    since: list[Told] = []
    for one in told:
        if one[0] in ("main", "asking"):
            ordered += [*sorted(since, key=lambda one: one[0]), one]
            since = []
        else:
            since.append(one)
    return (*ordered, *sorted(since, key=lambda one: one[0]))
