"""Child processes with an end: whatever happens, they are stopped, each by its own pid."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import STDOUT, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
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


@asynccontextmanager
async def python(*arguments: str, env: Mapping[str, str], log: Path) -> AsyncGenerator[Process]:
    """`python ARGUMENTS` in the project's folder, with `env` and little else of ours; its output
    goes to the end of `log`."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            cwd=PROJECT,
            env={**kept, **env},
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
    """Until a GET of `url` is answered with 200. Raises ProcessError."""
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
