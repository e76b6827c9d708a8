"""P13: how the CPU time of `serve` grows with the turns, tool calls and tokens of a run."""

import statistics
from collections.abc import Mapping
from typing import Any, Final

from bench import machine, measures
from bench.goals import Chapter, Figure
from bench.service import Service
from bench.sitting import Sitting
from bench.tables import number

TURNS: Final = 49
"""With tool calls. The last response of the run is turn 50, the most that a run can have."""
WINDOW: Final = 5
"""Turns whose mean counts: 3 to 7, and the last five with tool calls."""
CALLS: Final = (10, 100)
WORDS: Final = (2_000, 8_000)
REPEATS: Final = 15
LIMITS: Final = {"max_turns": 50, "max_tool_calls": 200}
MS: Final = 1000


async def measure(sitting: Sitting) -> Chapter:
    async with sitting.serving("scaling") as (service, _):
        await measures.warm_up(service)
        return Chapter([await _turns(service), await _calls(service), await _words(service)])


async def _turns(service: Service) -> Figure:
    early: list[float] = []
    late: list[float] = []
    for _ in range(REPEATS):
        used = await _cpu_at_turns(service)
        early.append((used[7] - used[2]) / WINDOW)
        late.append((used[TURNS] - used[TURNS - WINDOW]) / WINDOW)
    least, most = statistics.median(early) * MS, statistics.median(late) * MS
    first = TURNS - WINDOW + 1
    detail = f"{number(most)} ms, turns {first} to {TURNS}; {number(least)} ms, turns 3 to 7"
    return Figure("turn-cpu", most / least, detail)


async def _cpu_at_turns(service: Service) -> Mapping[int, float]:
    """Return the CPU seconds that the process had used when each turn's tool call was complete."""
    used: dict[int, float] = {}

    def read(events: bytes) -> None:
        for _ in range(events.count(b"event: tool_call.completed\n")):
            used[len(used) + 1] = machine.exact_cpu_seconds(service.pid)

    await service.complete(_body(turns=TURNS), read)
    return used


async def _calls(service: Service) -> Figure:
    """The first call of a turn also pays for its turn, so a run with one call is subtracted."""
    single = await _cpu(service, _body(k=1))
    few, many = [((await _cpu(service, _body(k=k))) - single) / (k - 1) * MS for k in CALLS]
    detail = f"{number(many)} ms with {CALLS[1]} calls; {number(few)} ms with {CALLS[0]}"
    return Figure("call-cpu", many / few, detail)


async def _words(service: Service) -> Figure:
    short = await _cpu(service, _body(turns=0, words=1))
    few, many = [
        ((await _cpu(service, _body(turns=0, words=words))) - short) * MS for words in WORDS
    ]
    detail = f"{number(many)} ms for {WORDS[1]:,} tokens; {number(few)} ms for {WORDS[0]:,}"
    return Figure("parse-cpu", many / few, detail)


async def _cpu(service: Service, body: Mapping[str, Any]) -> float:
    """Return the median CPU seconds of a run, without PostgreSQL's."""
    used: list[float] = []
    for _ in range(REPEATS):
        before = machine.exact_cpu_seconds(service.pid)
        await service.complete(body)
        used.append(machine.exact_cpu_seconds(service.pid) - before)
    return statistics.median(used)


def _body(**directives: int) -> dict[str, Any]:
    words = " ".join(f"{name}={value}" for name, value in directives.items())
    return {"agent": "plain", "input": f"Look it up. [[{words}]]", "limits": LIMITS}
