"""Where the CPU time of `serve` goes while it carries runs, from samples of its Python stacks."""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench import machine, measures
from bench.goals import Chapter
from bench.processes import ProcessError
from bench.sitting import Sitting
from bench.tables import head, number, row

CLIENTS: Final = 16
RATE: Final = 250
"""Samples per second. Each sample stops the process for about a millisecond."""
SECONDS: Final = 12.0
MS: Final = 1000
PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "API: requests, lists, contract": ("runward/api/", "runward/console/"),
    "event streams": ("runward/api/events/", "runward/store/live/"),
    "FastAPI, Starlette": ("fastapi/", "starlette/"),
    "pydantic": ("pydantic/",),
    "uvicorn, httptools: server": ("uvicorn/",),
    "store: statements and rows": ("runward/store/",),
    "SQLAlchemy": ("sqlalchemy/",),
    "asyncpg": ("asyncpg/",),
    "worker: the loop of a run": ("runward/loop/", "runward/worker/"),
    "domain: decisions, events, JSON": ("runward/domain/",),
    "model protocol": ("runward/llm/", "openai/"),
    "HTTP to models and tools": ("runward/egress/",),
    "other code of Runward": ("runward/",),
    "asyncio, uvloop: the event loop": ("uvloop/", "asyncio/"),
}
"""Folders by part. A longer folder comes before a shorter one that contains it."""


async def measure(sitting: Sitting) -> Chapter:
    """Sample the stacks during a load of short runs. Raises ProcessError."""
    async with sitting.serving("profile") as (service, _):
        await measures.repeated(service.run, measures.WARM_UP_RUNS * 4, CLIENTS)
        with TemporaryDirectory() as folder:
            stacks = Path(folder) / "stacks"
            before, kernel = service.cpu_seconds(), machine.kernel_seconds(service.pid)
            runs, _ = await asyncio.gather(
                measures.closed_loop(service.run, CLIENTS, SECONDS), _sample(service.pid, stacks)
            )
            each = (service.cpu_seconds() - before) / len(runs) * MS
            calls = (machine.kernel_seconds(service.pid) - kernel) / len(runs) * MS
            found = samples_by_part(stacks.read_text().splitlines())
            return Chapter([], _section(found, each, calls))


async def _sample(pid: int, output: Path) -> None:
    program = Path(sys.executable).with_name("py-spy")
    options = ["--format", "raw", "--rate", str(RATE), "--duration", str(int(SECONDS))]
    options += ["--full-filenames", "--nolineno", "--output", str(output)]
    sampler = await asyncio.create_subprocess_exec(
        *(program, "record", "--pid", str(pid), *options),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, errors = await sampler.communicate()
    if sampler.returncode != 0:
        raise ProcessError(f"py-spy has failed:\n{errors.decode(errors='replace')}")


def samples_by_part(stacks: Iterable[str]) -> Counter[str]:
    """Count samples. Each line has the functions of a stack, the outermost first, and a number.

    A function of the standard library counts as part of its nearest caller with a part. Stacks of
    other threads do not count: py-spy also samples them while they wait.
    """
    folders = sorted(
        ((folder, part) for part, all_ in PARTS.items() for folder in all_),
        key=lambda one: -len(one[0]),
    )
    found = Counter[str]()
    for line in stacks:
        stack, _, samples = line.rpartition(" ")
        if "Thread._bootstrap" in stack:
            continue
        parts = (
            part
            for frame in reversed(stack.split(";"))
            for folder, part in folders
            if f"/{folder}" in frame
        )
        found[next(parts, "other code")] += int(samples)
    return found


def _section(found: Counter[str], each: float, kernel: float) -> list[str]:
    total = found.total()
    lines = ["## Where the CPU time goes", ""]
    lines += [
        f"CPU time of `serve` for a run with one webhook call, {CLIENTS} clients, without"
        f" PostgreSQL: {number(each)} ms under py-spy, which took {total:,} samples. System calls"
        f" took {number(kernel)} ms of it. Time in C code and in system calls counts for the Python"
        " function that called it.",
        "",
        *head(["part", "percent", "ms per run"], left=1),
    ]
    for part, samples in found.most_common():
        share = samples / total
        lines.append(row([part, number(share * 100), number(share * each)]))
    return lines
