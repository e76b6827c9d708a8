"""How a model's words reach clients while it speaks: at what cost, and how soon."""

import asyncio
import math
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from bench import machine, processes
from bench.fake_model import Script, final_text
from bench.service import STREAM, Service
from bench.work import WrongAnswerError

RELAY: Final = "bare relay"
PAUSE_MS: Final = 5
"""Between two tokens of one stream: so far apart, each is a packet of its own."""
LATENCY_MS: Final = 20
"""Until the first token, where that is what is measured."""
MS: Final = 1000


@dataclass(frozen=True, slots=True)
class Relaying:
    """So many streams at once; counted from the last one's first token to the first one's end."""

    peer: str
    streams: int
    tokens: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def per_core_second(self) -> float:
        """NaN where it took less than the kernel counts."""
        return self.tokens / self.cpu_seconds if self.cpu_seconds else math.nan


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Milliseconds, one client's medians. `added`: from POST to the first token at the client,
    less what the model itself took. `after`: the part of it since the model sent the token."""

    peer: str
    runs: int
    added: float
    after: float


@dataclass(frozen=True, slots=True)
class Streamer:
    """Whoever answers `POST /v1/runs` with the words of the fake model, as events."""

    name: str
    url: str
    pid: int
    session: aiohttp.ClientSession

    def cpu_seconds(self) -> float:
        return machine.cpu_seconds(self.pid)

    async def say(self, script: Script, heard: Callable[[str], None]) -> None:
        """`heard` gets the text piece by piece; of a short answer, a reader that comes late may
        get none. Raises WrongAnswerError where the run did not end with the whole text."""
        directives = f"turns=0 words={script.words} latency={script.latency} pause={script.pause}"
        body = orjson.dumps({"agent": "plain", "input": f"Speak. [[{directives}]]"})
        last, rest = b"", b""
        async with self.session.post(f"{self.url}/v1/runs", data=body, headers=STREAM) as stream:
            async for chunk in stream.content.iter_any():
                *events, rest = (rest + chunk).split(b"\n\n")
                for last in events:
                    if b"event: message.delta\n" in last:
                        heard(_data(last)["text"])
        completed = b"event: run.completed\n" in last
        if not completed or _data(last)["output"] != final_text(script.words):
            raise WrongAnswerError(f"{self.name} did not relay the whole answer: {last!r}")


def of(service: Service) -> Streamer:
    return Streamer(service.name, service.url, service.pid, service.session)


@asynccontextmanager
async def relay(fake: str, log: Path) -> AsyncGenerator[Streamer]:
    """The floor of these figures: bench/relay.py."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    connector = aiohttp.TCPConnector(limit=0)
    arguments = ("-m", "bench.relay", str(port), fake)
    async with (
        processes.python(*arguments, env={}, log=log) as process,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        await processes.answers(process, f"{url}/", log)
        yield Streamer(RELAY, url, process.pid, session)


async def relaying(peer: Streamer, streams: int, words: int) -> Relaying:
    script = Script(words=words, pause=PAUSE_MS)
    silent = set(range(streams))
    tokens = 0
    all_speak = asyncio.Event()

    async def client(number: int) -> None:
        def heard(text: str) -> None:
            nonlocal tokens
            tokens += text.count("word")
            if number in silent:
                silent.discard(number)
                if not silent:
                    all_speak.set()

        await peer.say(script, heard)
        heard("")

    async with asyncio.TaskGroup() as group:
        clients = [group.create_task(client(number)) for number in range(streams)]
        await all_speak.wait()
        before, cpu, begun = tokens, peer.cpu_seconds(), time.perf_counter()
        await asyncio.wait(clients, return_when=asyncio.FIRST_COMPLETED)
        seconds, used = time.perf_counter() - begun, peer.cpu_seconds() - cpu
        return Relaying(peer.name, streams, tokens - before, seconds, used)


async def first_token(peer: Streamer, fake: str, runs: int) -> FirstToken:
    """One client. Clocks of two processes are compared: monotonic ones count from one start for
    the whole machine."""
    script = Script(latency=LATENCY_MS)
    added: list[float] = []
    after: list[float] = []
    for _ in range(runs):
        arrived = 0.0

        def heard(_: str) -> None:
            nonlocal arrived
            arrived = arrived or time.monotonic()

        begun = time.monotonic()
        await peer.say(script, heard)
        heard("")
        async with peer.session.get(f"{fake}/last") as response:
            times = orjson.loads(await response.read())
        after.append(arrived - times["spoke"])
        added.append(arrived - begun - (times["spoke"] - times["asked"]))
    return FirstToken(peer.name, runs, statistics.median(added) * MS, statistics.median(after) * MS)


def _data(event: bytes) -> dict[str, Any]:
    return orjson.loads(event[event.index(b"data: ") + 6 :])["data"]
