"""Tests that a command leaves no processes running. Every process holds the pipe `alive` open, so
that its reader ends when the last process has ended."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from runward_commands import MAX_LINE, clean_environment, guarded

# It has a session of its own, so signals to the command's process group do not reach it.
RUNAWAY = "exec 3>alive; setsid sh -c 'echo ready; exec sleep 1000' & wait"


def environment(tmp_path: Path) -> dict[str, str]:
    return clean_environment(tmp_path)


async def printed(command: list[str], tmp_path: Path, **options: object) -> tuple[int, str, str]:
    env = environment(tmp_path)
    async with guarded(command, cwd=tmp_path, env=env, **options) as process:
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return await process.wait(), out.decode(), err.decode()


def run(command: list[str], tmp_path: Path, **options: object) -> tuple[int, str, str]:
    return asyncio.run(printed(command, tmp_path, **options))


def test_a_command_has_its_folder_its_input_and_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNWARD_SECRET_KEY", "hidden")
    code, out, err = run(["sh", "-c", "cat; pwd; env; echo bad >&2; exit 3"], tmp_path, stdin="in ")
    assert (code, err) == (3, "bad\n")
    assert out.startswith(f"in {tmp_path}\n")
    assert "hidden" not in out


def test_a_missing_program_and_a_signal_are_exit_codes(tmp_path: Path) -> None:
    code, _, err = run(["no-such-program"], tmp_path)
    assert (code, err) == (127, "no-such-program: No such file or directory\n")
    assert run(["sh", "-c", "kill -TERM $$"], tmp_path)[0] == 128 + signal.SIGTERM


def test_limits_hold(tmp_path: Path) -> None:
    code, _, _ = run(["sh", "-c", "yes > big"], tmp_path, limits={"FSIZE": 4096})
    assert code == 128 + signal.SIGXFSZ
    assert (tmp_path / "big").stat().st_size == 4096


def test_what_leaves_its_session_ends_with_the_command(tmp_path: Path) -> None:
    fifo = "mkfifo up; (setsid sh -c 'echo > up; exec sleep 1000' &) ; cat up"
    assert run(["sh", "-c", fifo], tmp_path)[0] == 0  # and no process holds its outputs


def test_a_cancelled_call_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")

    async def cancelled() -> bytes:
        alive = asyncio.create_task(asyncio.to_thread((tmp_path / "alive").read_bytes))
        ready = asyncio.Event()

        async def call() -> None:
            env = environment(tmp_path)
            async with guarded(["sh", "-c", RUNAWAY], cwd=tmp_path, env=env) as process:
                assert await process.stdout.readline() == b"ready\n"
                ready.set()
                await process.wait()

        task = asyncio.create_task(call())
        await ready.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return await alive

    assert asyncio.run(asyncio.wait_for(cancelled(), 30)) == b""


CALLER = """
import asyncio, pathlib, runward_commands, sys
async def main():
    here = pathlib.Path.cwd()
    env = runward_commands.clean_environment(here)
    async with runward_commands.guarded(["sh", "-c", sys.argv[1]], cwd=here, env=env) as process:
        print((await process.stdout.readline()).decode(), end="", flush=True)
        await process.wait()
asyncio.run(main())
"""


def test_a_caller_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")

    async def killed() -> bytes:
        alive = asyncio.create_task(asyncio.to_thread((tmp_path / "alive").read_bytes))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", CALLER, RUNAWAY), cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        assert await process.stdout.readline() == b"ready\n"
        process.kill()
        await process.wait()
        return await alive

    assert asyncio.run(asyncio.wait_for(killed(), 30)) == b""


def test_output_that_nobody_reads_keeps_nothing_alive(tmp_path: Path) -> None:
    """The command ends its own output only when it is killed, and its first line says when the
    buffer between them is full: then the reader of a caller that reads no further is paused."""
    fills = f"head -c {2 * MAX_LINE + 1} /dev/zero >&2; echo full; exec yes >&2"

    async def left_alone() -> int:
        env = environment(tmp_path)
        async with guarded(["sh", "-c", fills], cwd=tmp_path, env=env) as process:
            assert await process.stdout.readline() == b"full\n"
        return process.returncode

    assert asyncio.run(left_alone()) == 128 + signal.SIGKILL


def test_the_readmes_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    monkeypatch.chdir(tmp_path)
    exec(readme.split("```python\n")[1].split("```")[0], {})  # its own assert
