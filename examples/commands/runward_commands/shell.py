"""Shell commands with limits on their time and output. The output has the format of OpenAI's shell
tool: {"stdout", "stderr", "outcome": {"type": "exit", "exit_code"} | {"type": "timeout"}}."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runward_commands import clean_environment, guarded

LIMITS: Mapping[str, int] = {"CPU": 300, "FSIZE": 256 * 1024 * 1024, "NOFILE": 1024}
"""Of each command: seconds of computing, bytes of one file, open files."""
CHUNK = 65_536


class Kept:
    """The beginning and the end of an output, at most `limit` bytes in total."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    async def read(self, stream: asyncio.StreamReader) -> None:
        while data := await stream.read(CHUNK):
            room = self._half - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            surplus = len(self._tail) - self._half
            if surplus > 0:
                del self._tail[:surplus]
                self._left_out += surplus

    def text(self) -> str:
        if not self._left_out:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = (part.decode(errors="replace") for part in (self._head, self._tail))
        return f"{head}\n[{self._left_out} bytes are left out here]\n{tail}"


async def run_commands(
    commands: Sequence[str],
    folder: Path,
    *,
    seconds_each: float,
    seconds: float,
    max_bytes: int,
    starts: Callable[[str], object] = lambda command: None,
) -> list[dict[str, Any]]:
    """Run commands one after the other, each in its own shell in `folder`. Its background processes
    end with it. After a timeout of one command, or `seconds` for all, the rest are not started.
    `max_bytes` of each output are kept. A cancellation kills all processes of the commands."""
    ends = time.monotonic() + seconds
    answers: list[dict[str, Any]] = []
    for command in commands:
        left = min(seconds_each, ends - time.monotonic())
        if left <= 0 or (answers and answers[-1]["outcome"]["type"] == "timeout"):
            late = "Not started: the time was over before."
            answers.append({"stdout": "", "stderr": late, "outcome": {"type": "timeout"}})
            continue
        starts(command)
        answers.append(await _run(command, folder, left, max_bytes))
    return answers


async def _run(command: str, folder: Path, seconds: float, max_bytes: int) -> dict[str, Any]:
    out, err = Kept(max_bytes), Kept(max_bytes)
    outcome: dict[str, Any] = {"type": "timeout"}
    env = clean_environment(folder)
    async with (
        guarded(["/bin/sh", "-c", command], cwd=folder, env=env, limits=LIMITS) as process,
        asyncio.TaskGroup() as reading,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        reading.create_task(out.read(process.stdout))
        reading.create_task(err.read(process.stderr))
        try:
            async with asyncio.timeout(seconds):
                outcome = {"type": "exit", "exit_code": await process.wait()}
        except TimeoutError:
            process.stdin.close()  # ends it, and its outputs
    return {"stdout": out.text(), "stderr": err.text(), "outcome": outcome}
