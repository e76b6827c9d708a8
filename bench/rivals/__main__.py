"""`make bench-rivals`: the same run in Runward, the floor and other projects, on one PostgreSQL.

Each repetition starts one peer at a time, warms it up, measures it, and stops it. The results are
written to bench/RIVALS.md and to the table in docs/explanation/performance-comparison.md.
"""

import argparse
import asyncio
import os
import platform
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import uvloop

from bench import floor, machine, measures, postgres, processes, service
from bench.loops import closed_loop
from bench.measures import Load, Meter, Peer
from bench.postgres import Postgres
from bench.processes import PROJECT, ProcessError
from bench.rivals import OVER_HTTP, RIVALS, Entry, aegra, table
from bench.rivals.program import Rival, execute
from bench.work import WrongAnswerError

ENVIRONMENTS: Final = PROJECT / ".venv" / "rivals"
RESULTS: Final = PROJECT / "bench" / "RIVALS.md"
PAGE: Final = PROJECT / "docs" / "explanation" / "performance-comparison.md"
CLIENTS: Final = (1, 16, 64)
MOST_RUNS: Final = 1_000
START_SECONDS: Final = 30.0
ANSWER_SECONDS: Final = 60.0
"""Runs that have started may end after the load's time."""
LINE_BYTES: Final = 1024 * 1024

Command = Callable[[Mapping[str, Any]], Awaitable[list[float]]]


@dataclass(frozen=True, slots=True)
class Running:
    """A peer that is ready. `execute` takes the commands of bench/rivals/program.py."""

    title: str
    cpu_seconds: Callable[[], float]
    execute: Command


@dataclass(frozen=True, slots=True)
class Stage:
    postgres: Postgres
    fake: str
    fake_pid: int
    log: Path
    databases: dict[str, str]

    async def database(self, name: str) -> str:
        """Return the URL of the database of a peer. All repetitions use the same one."""
        if name not in self.databases:
            self.databases[name] = await self.postgres.make_database(name)
        return self.databases[name]


async def _commands(peer: Peer[Any], command: Mapping[str, Any]) -> list[float]:
    """Execute a command with the floor or Runward."""
    if "approvals" not in command:
        return await closed_loop(peer.run, command["clients"], command["seconds"], command["most"])
    took: list[float] = []

    async def cycle(number: int) -> None:
        took.append(await peer.approve(await peer.pause(number)))

    await closed_loop(cycle, 1, command["approvals"])
    return took


def _running(peer: Peer[Any]) -> Running:
    return Running(peer.name, peer.cpu_seconds, lambda command: _commands(peer, command))


@asynccontextmanager
async def _floor(stage: Stage) -> AsyncGenerator[Running]:
    async with floor.ready(await stage.postgres.make_database("floor"), stage.fake) as peer:
        yield _running(peer)


@asynccontextmanager
async def _runward(stage: Stage) -> AsyncGenerator[Running]:
    database = await stage.postgres.make_database("runward")
    async with service.serving(database, stage.fake, stage.log) as peer:
        yield _running(peer)


@asynccontextmanager
async def _rival(stage: Stage, entry: Entry) -> AsyncGenerator[Running]:
    database, interpreter = await stage.database(entry.name), _interpreter(entry)
    if entry.name == OVER_HTTP:
        async with aegra.start(database, stage.fake, stage.log, interpreter) as (client, pid):
            yield _process(entry, pid, lambda command: _execute(client, command))
        return
    port = processes.free_port()
    program = ("-m", f"bench.rivals.{entry.name}", str(port), database, stage.fake)
    async with processes.python(
        *program, env={}, log=stage.log, interpreter=interpreter
    ) as process:
        reader, writer = await _connected(port, process, stage.log)

        async def send(command: Mapping[str, Any]) -> list[float]:
            writer.write(orjson.dumps(command) + b"\n")
            async with asyncio.timeout(ANSWER_SECONDS):
                line = await reader.readline()
            if not line:
                raise ProcessError(f"{entry.title} stopped:\n{stage.log.read_text()[-3000:]}")
            return orjson.loads(line)

        yield _process(entry, process.pid, send)
        writer.close()


def _process(entry: Entry, pid: int, command: Command) -> Running:
    return Running(entry.title, lambda: machine.cpu_seconds(pid), command)


async def _execute(client: Rival, command: Mapping[str, Any]) -> list[float]:
    return await execute(client, dict(command))


async def _connected(
    port: int, process: asyncio.subprocess.Process, log: Path
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while process.returncode is None:
                with suppress(OSError):
                    return await asyncio.open_connection("127.0.0.1", port, limit=LINE_BYTES)
                await asyncio.sleep(processes.POLL_SECONDS)
    raise ProcessError(f"A program did not start. It printed:\n{log.read_text()[-3000:]}")


def _interpreter(entry: Entry) -> str:
    return str(ENVIRONMENTS / entry.name / "bin" / "python")


async def measure(stage: Stage, running: Running, seconds: float) -> table.Result:
    """Warm a peer up, and measure its loads and its approvals."""
    await running.execute({"clients": 8, "seconds": seconds, "most": measures.WARM_UP_RUNS})
    await running.execute({"approvals": seconds / 4})

    def mine() -> float:
        known = machine.cpu_seconds(stage.fake_pid) + stage.postgres.cpu_seconds()
        own = 0 if running.title == floor.Floor.name else running.cpu_seconds()
        return known + own + time.process_time()

    meter = Meter(stage.postgres, mine)
    loads: list[Load] = []
    for clients in CLIENTS:
        command = {"clients": clients, "seconds": seconds, "most": MOST_RUNS}
        loads.append(
            await meter.measure(
                running.title,
                running.cpu_seconds,
                clients,
                lambda command=command: running.execute(command),
            )
        )
        load = loads[-1]
        _say(
            f"  {load.peer:40} c={clients:<3} {load.runs_per_second:7,.1f} runs/s"
            f" {load.cpu:6.2f} ms CPU"
        )
    approvals = await running.execute({"approvals": seconds / 2})
    return table.Result(running.title, loads, approvals)


async def compare(names: Sequence[str], repeats: int, seconds: float) -> table.Comparison:
    """Measure all peers in turns."""
    begun = time.perf_counter()
    comparison = table.Comparison({entry.title: _version(entry) for entry in RIVALS})
    entries = [entry for entry in RIVALS if entry.name in names]
    with TemporaryDirectory(prefix="runward-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the embedded PostgreSQL runs as another user than root
        log = folder / "log"
        async with (
            postgres.running(folder / "data") as server,
            service.fake_model(log) as (fake, pid),
        ):
            stage = Stage(server, fake, pid, log, {})
            for repeat in range(1, repeats + 1):
                _say(f"Repetition {repeat} of {repeats}")
                for peer in (_floor, _runward):
                    async with peer(stage) as running:
                        comparison.results.append(await measure(stage, running, seconds))
                for entry in entries:
                    await _try(stage, entry, seconds, comparison)
            comparison.about = _about(server.about, repeats, seconds, time.perf_counter() - begun)
    return comparison


async def _try(stage: Stage, entry: Entry, seconds: float, comparison: table.Comparison) -> None:
    """Measure a rival, or note why it did not start."""
    if not Path(_interpreter(entry)).exists():
        comparison.missing[entry.title] = "not installed"
        return
    try:
        async with _rival(stage, entry) as running:
            comparison.results.append(await measure(stage, running, seconds))
    except ProcessError as error:
        _say(f"  {entry.title}: {error}")
        comparison.missing[entry.title] = "did not start"


def _version(entry: Entry) -> str:
    interpreter = _interpreter(entry)
    code = f"from importlib.metadata import version; print(version('{entry.package}'))"
    if not Path(interpreter).exists():
        return ""
    return subprocess.run(
        [interpreter, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()


def _about(database: str, repeats: int, seconds: float, took: float) -> str:
    return (
        f"{os.cpu_count()} CPUs, Python {platform.python_version()}"
        f" (rivals: {_rivals_python()}), {database}. Repetitions of each load, in turns: {repeats}"
        f" of {seconds:g} s or {MOST_RUNS:,} runs. The comparison took {took:.0f} s."
    )


def _rivals_python() -> str:
    for entry in RIVALS:
        if Path(_interpreter(entry)).exists():
            code = "import platform; print(platform.python_version())"
            return subprocess.run(
                [_interpreter(entry), "-c", code], capture_output=True, text=True, check=True
            ).stdout.strip()
    return "none"


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.rivals",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    known = ",".join(entry.name for entry in RIVALS)
    parser.add_argument("--only", default=known, help="the rivals to measure (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3, help="for each load (%(default)s)")
    parser.add_argument("--repeats", type=int, default=3, help="of each load (%(default)s)")
    parser.add_argument("--output", type=Path, help="a file for the results, instead of both pages")
    given = parser.parse_args(sys.argv[1:])
    try:
        comparison = uvloop.run(compare(given.only.split(","), given.repeats, given.seconds))
    except (ProcessError, WrongAnswerError) as error:
        raise SystemExit(str(error)) from None
    text = table.markdown(comparison)
    (given.output or RESULTS).write_text(text, encoding="utf-8")
    if not given.output:
        PAGE.write_text(table.update(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    _say(f"\n{text}\nWritten to {given.output or RESULTS}.")


if __name__ == "__main__":
    main()
