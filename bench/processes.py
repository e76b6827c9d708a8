"""Child processes of the benchmark. Each process is stopped at the end, also after an error."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

PROJECT: Final = Path(__file__).parents[1]
STOP_SECONDS: Final = 30.0
START_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.01
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


class ProcessError(Exception):
    """A child process did not do what it was started for. The message ends with its output."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of Runward. `checkout` is the folder with its files."""

    name: str
    checkout: Path


THIS: Final = Version("Runward", PROJECT)


@asynccontextmanager
async def python(
    *arguments: str,
    env: Mapping[str, str],
    log: Path,
    checkout: Path = PROJECT,
    interpreter: str = sys.executable,
) -> AsyncGenerator[Process]:
    """Run `python ARGUMENTS` in the folder `checkout`, with the code in its folder `app`.

    The process inherits few environment variables. Its output is appended to `log`.
    """
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            interpreter,
            *arguments,
            cwd=checkout,
            env={**kept, "PYTHONPATH": str(checkout / "app"), **env},
            stdout=output,
            stderr=STDOUT,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def answers(process: Process, url: str, log: Path) -> None:
    """Wait until a GET of `url` returns status 200. Raises ProcessError."""
    ready = False
    with suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS), aiohttp.ClientSession() as session:
            while process.returncode is None and not ready:
                with suppress(aiohttp.ClientError):
                    async with session.get(url) as response:
                        ready = response.status == 200
                await asyncio.sleep(0 if ready else POLL_SECONDS)
    if not ready:
        output = log.read_text(errors="replace")[-3000:]
        raise ProcessError(f"A process of the benchmark did not start. It printed:\n{output}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
