"""The plan of the faults of one chaos run, and their injection.

The plan depends only on the seed. Each fault is due after a certain number of runs has started, so
a slow machine gets the same faults among the same runs. The targets are chosen among the processes
that are up at that moment.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from runward.store.live.listener import KEEPALIVE_SECONDS
from tests.chaos.database import Database
from tests.chaos.processes import Process, Processes
from tests.chaos.relay import Relay
from tests.checker.evidence import Fault, Log

LEASE_SECONDS: Final = 2.5
PER_THOUSAND: Final = {
    ("kill", "worker"): 14,
    ("kill", "api"): 5,
    ("freeze", "worker"): 10,
    ("freeze", "api"): 2,
    ("stall", "short"): 6,
    ("stall", "long"): 2,
    ("terminate", "worker"): 5,
    ("terminate", "api"): 2,
    ("restart_postgres", ""): 3,
    ("end_backend", "listen"): 5,
    ("end_backend", "lease"): 5,
    ("end_backend", "step"): 6,
    ("end_backend", "pool"): 6,
    ("freeze_relay", "all"): 3,
    ("freeze_relay", "old"): 2,
    ("freeze_relay", "ended"): 2,
    ("cut_relay", ""): 5,
}
"""Faults in 1,000 runs, by kind and by role of the target or detail."""
SECONDS: Final = {
    ("freeze", "worker"): (LEASE_SECONDS * 1.3, LEASE_SECONDS * 2.4),
    ("freeze", "api"): (1.0, 4.0),
    ("stall", "short"): (LEASE_SECONDS * 1.3, LEASE_SECONDS * 2.4),
    ("stall", "long"): (18.0, 20.0),
    ("restart_postgres", ""): (0.1, 1.0),
    ("freeze_relay", "all"): (LEASE_SECONDS * 1.3, LEASE_SECONDS * 2.4),
    ("freeze_relay", "old"): (6.0, 12.0),
    ("freeze_relay", "ended"): (KEEPALIVE_SECONDS * 1.15, KEEPALIVE_SECONDS * 1.3),
    ("cut_relay", ""): (0.1, 1.5),
}
"""From the shortest to the longest, of those that have a duration."""
FIRST, LAST = 0.04, 0.92
"""The shares of started runs at which the first and the last fault are due."""
GAP_SECONDS: Final = 0.25
AIM_SECONDS: Final = 0.01
PATIENCE_SECONDS: Final = 8.0
"""For how long a fault waits for a target that is up."""


@dataclass(frozen=True, slots=True)
class Planned:
    """`due`: the number of runs that have been started by then."""

    due: int
    kind: str
    detail: str
    seconds: float


def count_of(per_thousand: int, runs: int) -> int:
    return max(1, round(per_thousand * runs / 1000))


def plan(seed: int, runs: int) -> list[Planned]:
    dice = random.Random(seed)
    kinds = [kind for kind, n in PER_THOUSAND.items() for _ in range(count_of(n, runs))]
    dice.shuffle(kinds)
    step = runs * (LAST - FIRST) / len(kinds)
    return [
        Planned(
            int(runs * FIRST + step * (number + dice.random())),
            *kind,
            round(dice.uniform(*SECONDS.get(kind, (0, 0))), 2),
        )
        for number, kind in enumerate(kinds)
    ]


class Injector:
    """Injects a plan. `started` tells the number of started runs, `over` that there are no more."""

    def __init__(
        self,
        planned: list[Planned],
        processes: Processes,
        database: Database,
        log: Log,
        dice: random.Random,
    ) -> None:
        self.last_at = time.time()
        self.injected = 0
        self._planned = planned
        self._processes = processes
        self._database = database
        self._log = log
        self._dice = dice
        self._lasting: set[asyncio.Task[None]] = set()
        self._acts: dict[str, Callable[[Planned], Awaitable[None]]] = {
            "kill": self._kill,
            "freeze": self._freeze,
            "stall": self._stall,
            "terminate": self._terminate,
            "restart_postgres": self._restart_postgres,
            "end_backend": self._end_backend,
            "freeze_relay": self._freeze_relay,
            "cut_relay": self._cut_relay,
        }

    async def run(self, started: Callable[[], int], over: Callable[[], bool]) -> None:
        """Return when all faults are over."""
        for planned in self._planned:
            while started() < planned.due and not over():
                await asyncio.sleep(GAP_SECONDS / 5)
            if over():
                break
            await self._acts[planned.kind](planned)
            await asyncio.sleep(GAP_SECONDS)
        while self._lasting:
            await asyncio.wait(self._lasting)

    def _record(self, planned: Planned, target: str, at: float, until: float | None = None) -> None:
        self.injected += 1
        self.last_at = max(self.last_at, until or at)
        self._log.write(Fault(at, planned.kind, target, until, planned.detail or None))

    async def _pick(self, role: str, *, relayed: bool = False) -> Process | None:
        """Choose a process that is up. If none is up, wait for one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = [one for one in self._processes.free(role) if one.relay or not relayed]
            if found:
                return self._dice.choice(found)
            await asyncio.sleep(GAP_SECONDS)
        return None

    def _last(self, lasting: Callable[[], Awaitable[None]]) -> None:
        """Let a fault go on while others come."""

        async def run() -> None:
            await lasting()

        task = asyncio.create_task(run())
        self._lasting.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._lasting.discard(task)
        task.result()

    async def _kill(self, planned: Planned) -> None:
        if (process := await self._pick(planned.detail)) is not None:
            self._record(planned, process.name, time.time())
            self._processes.kill(process)

    async def _terminate(self, planned: Planned) -> None:
        if (process := await self._pick(planned.detail)) is not None:
            self._record(planned, process.name, time.time())
            self._last(lambda: self._processes.terminate(process))

    async def _freeze(self, planned: Planned) -> None:
        await self._hold(planned, planned.detail, self._processes.freeze)

    async def _stall(self, planned: Planned) -> None:
        """`short`: the worker keeps its leases. `long`: the worker ends itself."""
        await self._hold(planned, "worker", self._processes.stall)

    async def _hold(
        self, planned: Planned, role: str, hold: Callable[[Process, float], Awaitable[None]]
    ) -> None:
        if (process := await self._pick(role)) is None:
            return

        async def last() -> None:
            at = time.time()
            await hold(process, planned.seconds)
            self._record(planned, process.name, at, time.time())

        self._last(last)
        await asyncio.sleep(0)

    async def _restart_postgres(self, planned: Planned) -> None:
        """Restart it while tool calls are in flight, if possible."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not await self._database.calls_in_flight() and time.monotonic() < deadline:
            await asyncio.sleep(AIM_SECONDS)
        at = time.time()
        self._processes.database_up.clear()
        await self._database.restart(planned.seconds)
        self._processes.database_up.set()
        self._record(planned, "postgres", at, time.time())

    async def _end_backend(self, planned: Planned) -> None:
        """A process opens the connection of its leases when it holds some, so wait for one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            at, down = time.time(), self._processes.down()
            ended = await self._database.end_backend(planned.detail, self._dice, down)
            if ended is not None:
                self._record(planned, ended.process, at)
                return
            await asyncio.sleep(GAP_SECONDS)

    async def _freeze_relay(self, planned: Planned) -> None:
        """`all`: of all connections. `old`: of those of this moment. `ended`: of those of this
        moment, whose backends say that they are being ended."""
        if planned.detail == "ended":
            await self._break_relay(
                planned,
                lambda relay, name: relay.hide_end(
                    planned.seconds, lambda: self._database.end_backends(name)
                ),
            )
            return
        await self._break_relay(
            planned,
            lambda relay, _: relay.freeze(planned.seconds, new_ones=planned.detail == "all"),
        )

    async def _cut_relay(self, planned: Planned) -> None:
        await self._break_relay(planned, lambda relay, _: relay.cut(planned.seconds))

    async def _break_relay(
        self, planned: Planned, broken: Callable[[Relay, str], Awaitable[int]]
    ) -> None:
        process = await self._pick("any", relayed=True)
        if process is None or process.relay is None:
            return
        relay, at = process.relay, time.time()
        process.busy = True

        async def last() -> None:
            connections = await broken(relay, process.name)
            process.busy = False
            if connections:
                self._record(planned, process.name, at, time.time())

        self._last(last)
        await asyncio.sleep(0)
