"""Explore every state breadth first, so that the trace to a violation is a shortest one."""

import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from runward.domain.registry.guards import Allow
from runward.domain.run.response import ModelResponse
from runward.domain.run.state import RunState
from runward.loop import execution, turn
from runward.loop.checks import Checks
from runward.loop.signals import RunSignals
from tests.model import properties as must
from tests.model.operations import on_the_twin, replacing
from tests.model.properties import ViolationError
from tests.model.scopes import Scope
from tests.model.system import System
from tests.model.worker import Clock, Flights, Pending, wait
from tests.model.world import World


async def _ask_model(
    access: Any, state: RunState, request: Any, trace: Any, *, tell: Any, check: Any
) -> ModelResponse:
    """Like that of `runward.loop.turn`: the lease is checked, then the request is sent."""
    await check()
    return await Pending("model", state.turn + 1)


async def _pre_approval(_: Checks, state: RunState, calls: Any) -> dict[Any, Any]:
    """There are no guardrails, and no task group without a task."""
    del state
    return {call.key: Allow() for call in calls}


@contextmanager
def modeled(scope: Scope) -> Generator[System]:
    """The code on the twin, under the scheduler."""
    clock = Clock()
    system = System(scope, clock)
    try:
        with (
            on_the_twin(clock),
            replacing(
                (turn, "ask_model", _ask_model),
                (execution, "mint", system.driver.mint),
                (execution, "CallsInFlight", Flights),
                (RunSignals, "wait", wait),
                (Checks, "pre_approval", _pre_approval),
            ),
        ):
            yield system
    finally:
        clock.close()


@dataclass
class Found:
    """What an exploration has found. `violation`: the property, and the steps that lead there."""

    scope: str
    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    complete: bool = True
    violation: str | None = None
    trace: list[str] = field(default_factory=list[str])


class _Graph:
    """Numbers of states, how each was reached first, and what follows it."""

    def __init__(self) -> None:
        self.numbers: dict[Any, int] = {}
        self.reached: list[tuple[int, str]] = []
        self.depths: list[int] = []
        self.after: list[list[int]] = []

    def add(self, key: Any, before: int, label: str) -> tuple[int, bool]:
        number = self.numbers.setdefault(key, len(self.numbers))
        is_new = number == len(self.reached)
        if is_new:
            self.reached.append((before, label))
            self.depths.append(0 if before < 0 else self.depths[before] + 1)
            self.after.append([])
        if before >= 0:
            self.after[before].append(number)
        return number, is_new

    def trace(self, number: int) -> list[str]:
        steps: list[str] = []
        while number > 0:
            number, label = self.reached[number]
            steps.append(label)
        return steps[::-1]


def explore(
    scope: Scope, *, max_states: int = 10_000_000, mutant: Callable[[], Any] = nullcontext
) -> Found:
    """Every state that can be reached, or so many of them. `mutant` plants a mistake."""
    began = time.process_time()
    found = Found(scope.name)
    graph = _Graph()
    with modeled(scope) as system, mutant():
        _search(system, graph, found, max_states)
    found.states = len(graph.reached)
    found.transitions = sum(len(after) for after in graph.after)
    found.depth = max(graph.depths)
    if found.violation is None and found.complete:
        _check_ends(graph, found)
    found.seconds = time.process_time() - began
    return found


def _search(system: System, graph: _Graph, found: Found, max_states: int) -> None:
    first = system.initial()
    graph.add(first.key, -1, "")
    queue: deque[tuple[int, World]] = deque([(0, first)])
    while queue:
        number, world = queue.popleft()
        label = ""
        try:
            is_sink = True
            for label, act in system.choices(world):
                after = act()
                if after.workers is world.workers and after.key == world.key:
                    continue  # somebody outside was refused, or came too late
                is_sink = False
                reached, is_new = graph.add(after.key, number, label)
                if is_new:
                    must.check_rows(after.rows)
                    queue.append((reached, after))
            label = ""
            must.require(not is_sink or world.over, "from every state there is a way on")
        except ViolationError as violation:
            found.violation = str(violation)
            found.trace = [*graph.trace(number), *([label] if label else [])]
            return
        if len(graph.reached) > max_states:
            found.complete = False
            return


def _check_ends(graph: _Graph, found: Found) -> None:
    """No path goes on forever: then each ends in a state without a next one, and those are ends
    of the run, so an end is reachable from every state."""
    missing = [0] * len(graph.after)
    for after in graph.after:
        for one in after:
            missing[one] += 1
    ready = [number for number, count in enumerate(missing) if count == 0]
    done = 0
    while ready:
        number = ready.pop()
        done += 1
        for one in graph.after[number]:
            missing[one] -= 1
            if missing[one] == 0:
                ready.append(one)
    if done < len(graph.after):
        number = next(number for number, count in enumerate(missing) if count > 0)
        found.violation = "no cycle: every path ends"
        found.trace = graph.trace(number)
