"""Commands that leave no processes running: not when they end, not when a call is cancelled or
times out, and not when the service dies."""

import asyncio
import json
import os
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

GUARD = Path(__file__).with_name("guard.py")
MAX_LINE = 16 * 1024 * 1024
KEPT = ("PATH", "LANG", "LC_ALL", "TZ")
END_SECONDS = 10.0


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the part of the service's environment with the program path and the locale."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    return kept | {"HOME": str(home), "TMPDIR": str(home)} | more


@asynccontextmanager
async def guarded(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    limits: Mapping[str, int] | None = None,
) -> AsyncIterator[Process]:
    """Run a command and yield its process, with `stdout` and `stderr` to read inside the block.
    When the block is left, for any reason, every process that it started is killed, and output that
    nobody has read is discarded. `limits`: see `guard.py`."""
    order = {"command": list(command), "stdin": stdin, "limits": {"CORE": 0, **(limits or {})}}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(GUARD)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=cwd,
        env=dict(env),
        limit=MAX_LINE,
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        with suppress(ConnectionError):  # it has already ended, and reading its output ends too
            process.stdin.write(json.dumps(order).encode() + b"\n")
            await process.stdin.drain()
        yield process
    finally:
        await asyncio.shield(asyncio.ensure_future(_end(process)))


async def _end(process: Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    # A buffer that is full hides the end of its output, and `wait` waits for that end.
    ended = asyncio.gather(process.wait(), _discard(process.stdout), _discard(process.stderr))
    try:
        await asyncio.wait_for(ended, END_SECONDS)
    except TimeoutError:
        process.kill()
        raise


async def _discard(output: StreamReader | None) -> None:
    while output is not None and await output.read(MAX_LINE):
        pass
