"""How the CPU time of `serve` grows with the length of one run: its calls, input items, tools,
parallel calls, earlier items of the session, readers, and sizes of tool results."""

import asyncio
import statistics
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from bench import machine, measures
from bench.chart import line_chart, make_axis
from bench.goals import Chapter
from bench.service import STREAM, Service
from bench.sitting import Sitting
from bench.tables import head, number, row
from bench.work import PARAMETERS

MS: Final = 1000
REPEATS: Final = 3
CALLS_PER_TURN: Final = 4
TURNS: Final = 49
"""With tool calls. The last response of the run is turn 50, the most that a run can have."""
WINDOW: Final = 5
READERS_LATENCY_MS: Final = 3000
READERS_WORDS: Final = 200
SESSION_ITEMS: Final = (2, 50, 100, 200, 300, 400, 500)
LIMITS: Final = {"max_turns": 50, "max_tool_calls": 200}


@dataclass(frozen=True, slots=True)
class Line:
    """`points`: the size, and CPU milliseconds per `unit` at that size."""

    name: str
    unit: str
    points: list[tuple[float, float]]


class Client(Service):
    @classmethod
    def of(cls, service: Service) -> "Client":
        return cls(service.name, service.url, service.session, service.pid)

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._post(path, body)

    async def cpu_of(self, act: Callable[[], Awaitable[object]]) -> float:
        """Return the median CPU milliseconds of `serve`, without PostgreSQL's."""
        used: list[float] = []
        for _ in range(REPEATS):
            before = machine.exact_cpu_seconds(self.pid)
            await act()
            used.append((machine.exact_cpu_seconds(self.pid) - before) * MS)
        return statistics.median(used)

    @asynccontextmanager
    async def reading(self, run_id: str) -> AsyncGenerator[aiohttp.ClientResponse]:
        url = f"{self.url}/v1/runs/{run_id}/events"
        async with self.session.get(url, headers=STREAM) as response:
            yield response


async def measure(sitting: Sitting) -> Chapter:
    async with sitting.serving("long_runs") as (service, _):
        client = Client.of(service)
        await measures.warm_up(client)
        lines = [
            await _turns(client),
            await _items(client),
            await _tools(client, sitting.fake),
            await _parallel(client),
            await _session(client, 500 if sitting.sizes.full else 100),
            await _readers(client, 1_000 if sitting.sizes.full else 200),
            await _results(client, sitting.fake),
        ]
    return Chapter(section=list(_section(lines)), charts=dict(_charts(lines)))


async def _turns(client: Client) -> Line:
    used = [machine.exact_cpu_seconds(client.pid)]

    def read(events: bytes) -> None:
        ended = events.count(b"event: tool_call.completed\n")
        used.extend([machine.exact_cpu_seconds(client.pid)] * ended)

    await client.complete(_body(turns=TURNS, k=CALLS_PER_TURN), read)
    at_turns = used[::CALLS_PER_TURN]
    points = [
        (float(turn), (at_turns[turn] - at_turns[turn - WINDOW]) / WINDOW * MS)
        for turn in range(2 * WINDOW, TURNS, WINDOW)
    ]
    return Line(f"turn, with {CALLS_PER_TURN} calls each", "turn", points)


async def _items(client: Client) -> Line:
    async def cpu(count: int) -> float:
        items = [{"role": "user", "content": f"Message {number}."} for number in range(count)]
        return await client.cpu_of(lambda: client.complete(_body() | {"input": items}))

    return Line("input items", "run", [(n, await cpu(n)) for n in (1, 100, 300, 1_000)])


async def _tools(client: Client, fake: str) -> Line:
    names = [f"tool_{number}" for number in range(200)]
    for name in names:
        await client.post("/v1/tools", _tool(name, f"{fake}/tool"))

    async def cpu(count: int) -> float:
        agent = f"with_{count}_tools"
        await client.post("/v1/agents", _agent(agent, names[:count]))
        return await client.cpu_of(lambda: client.complete(_body(agent=agent)))

    return Line("tools of the agent", "run", [(n, await cpu(n)) for n in (1, 10, 50, 200)])


async def _parallel(client: Client) -> Line:
    async def cpu(k: int) -> float:
        return await client.cpu_of(lambda: client.complete(_body(k=k))) / k

    return Line("parallel calls", "call", [(k, await cpu(k)) for k in (1, 10, 30, 100)])


async def _session(client: Client, most: int) -> Line:
    """Each run without a tool call adds two items to its session."""
    session = (await client.post("/v1/sessions", {}))["id"]
    points: list[tuple[float, float]] = []
    done = 0
    for items in (size for size in SESSION_ITEMS if size <= most):
        while done < items - 2 * REPEATS:
            await client.complete(_body(turns=0) | {"session_id": session})
            done += 2
        body = _body(turns=0) | {"session_id": session}
        points.append((items, await client.cpu_of(lambda body=body: client.complete(body))))
        done += 2 * REPEATS
    return Line("items of the session", "run", points)


async def _readers(client: Client, most: int) -> Line:
    """All readers are connected before the model responds."""

    async def cpu(readers: int) -> float:
        body = _body(turns=0, latency=READERS_LATENCY_MS, words=READERS_WORDS, pause=5)
        run_id = (await client.post("/v1/runs", body))["id"]
        async with AsyncExitStack() as stack:
            streams = [
                await stack.enter_async_context(client.reading(run_id)) for _ in range(readers)
            ]
            for stream in streams:
                await stream.content.readuntil(b"event: run.started\n")
            before = machine.exact_cpu_seconds(client.pid)
            await asyncio.gather(*(stream.read() for stream in streams))
            return (machine.exact_cpu_seconds(client.pid) - before) / readers * MS

    sizes = [readers for readers in (1, 10, 100, most) if readers <= most]
    return Line("readers of one run", "reader", [(n, await cpu(n)) for n in sizes])


async def _results(client: Client, fake: str) -> Line:
    async def cpu(size: int) -> float:
        name = f"returns_{size}"
        await client.post("/v1/tools", _tool(name, f"{fake}/tool/{size}"))
        await client.post("/v1/agents", _agent(name, [name]))
        return await client.cpu_of(lambda: client.complete(_body(agent=name)))

    sizes = (1_000, 10_000, 100_000, 1_000_000)
    return Line("bytes of a tool result", "run", [(n, await cpu(n)) for n in sizes])


def _body(agent: str = "plain", **directives: int) -> dict[str, Any]:
    words = " ".join(f"{name}={value}" for name, value in directives.items())
    text = f"Look it up. [[{words}]]" if words else "Look it up."
    return {"agent": agent, "input": text, "limits": LIMITS}


def _tool(name: str, url: str) -> dict[str, Any]:
    about = {"description": "Look a fact up.", "parameters": PARAMETERS}
    return {"name": name, "type": "webhook", "url": url, "approval": "never", **about}


def _agent(name: str, tools: list[str]) -> dict[str, Any]:
    return {"name": name, "model": "openai:fake", "tools": tools}


def _section(lines: list[Line]) -> Iterator[str]:
    yield from ("## Long runs", "")
    yield (
        "CPU milliseconds of `serve`, without PostgreSQL, one run at a time. The last column"
        " contains the sizes, and the time at each size."
    )
    yield ""
    yield from head(["size", "time per", "sizes and times"], left=3)
    for line in lines:
        times = ", ".join(f"{size:,.0f}: {number(ms)}" for size, ms in line.points)
        yield row([line.name, line.unit, times])
    yield ""
    yield "![CPU time by size](charts/long-runs.svg)"


def _charts(lines: list[Line]) -> Iterator[tuple[str, str]]:
    x = make_axis("size", [size for line in lines for size, _ in line.points], log=True)
    y = make_axis("CPU ms", [ms for line in lines for _, ms in line.points], log=True)
    named = {f"{line.name}": line.points for line in lines}
    yield "long-runs", line_chart("Long runs: CPU time by size", x, y, named)
