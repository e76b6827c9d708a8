"""Processes that start in milliseconds: forks of `tests.support.services.nursery`."""

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.support.services.nursery import Order, Report

ROOT: Final = Path(__file__).parents[3]
INHERITED: Final = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "COVERAGE_PROCESS_START"),
)
START_SECONDS: Final = 60.0
TEST_SERVERS: Final = (
    "aiohttp.web",
    "mcp.server.auth.middleware.auth_context",
    "mcp.server.auth.settings",
    "mcp.server.mcpserver",
    "standardwebhooks",
)
"""What the servers of tests/support/mcp and tests/support/tools import."""


class ForkedProcess:
    """Has what tests use of `subprocess.Popen`. `reports`: what its `prepare` has reported."""

    def __init__(self, pid: int, changed: threading.Condition) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.reports: list[Report] = []
        self.open = False
        self._changed = changed
        self._stopped = False

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises `subprocess.TimeoutExpired`."""
        self.wait_until(lambda: self.returncode is not None, timeout)
        assert self.returncode is not None
        return self.returncode

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> None:
        """Return when `condition` is true. It is evaluated when a process reports, stops or ends.
        Raises `subprocess.TimeoutExpired`."""
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)

    def send_signal(self, number: int) -> None:
        """A process that has just ended is gone before its end is reported."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def pause(self, timeout: float) -> None:
        """SIGSTOP; return when it has stopped."""
        self._stopped = False
        self.send_signal(signal.SIGSTOP)
        self.wait_stopped(timeout)

    def wait_stopped(self, timeout: float) -> None:
        """Return when it has stopped, by itself or at a SIGSTOP, or has ended."""
        self.wait_until(lambda: self._stopped or self.returncode is not None, timeout)

    def resume(self) -> None:
        self._stopped = False
        self.send_signal(signal.SIGCONT)

    def take(self, report: Report) -> None:
        if "code" in report:
            self.returncode = report["code"]
        elif "open" in report:
            self.open = True
        elif "stopped" in report:
            self._stopped = True
        else:
            self.reports.append(report)


class Forks:
    """A nursery, and the processes that it has forked. `prepare` names a `Prepare` as
    `module:function`."""

    def __init__(self, *, preload: tuple[str, ...] = (), prepare: str | None = None) -> None:
        self._options = {"preload": preload, "prepare": prepare}
        self._changed = threading.Condition()
        self._by_pid: dict[int, ForkedProcess] = {}
        self._started: dict[int, ForkedProcess] = {}
        self._number = 0

    def __enter__(self) -> Self:
        self._nursery = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.support.services.nursery"),
                json.dumps(self._options),
            ],
            cwd=ROOT,
            env=inherited_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._reader = threading.Thread(target=self._read, daemon=True, name="forks")
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._nursery.stdin is not None and self._nursery.stdout is not None
        self._nursery.stdin.close()
        self._nursery.wait(START_SECONDS)
        self._reader.join(START_SECONDS)
        self._nursery.stdout.close()

    def start(
        self,
        module: str,
        *arguments: str,
        env: dict[str, str],
        output: int,
        errors: int | None = None,
        folder: Path = ROOT,
    ) -> ForkedProcess:
        """Start `python -m MODULE ARGUMENTS`. `output` and `errors` are descriptors of this
        process, which may close them afterwards; without `errors` both go to `output`."""
        with self._changed:
            self._number += 1
            number = self._number
            order: Order = {
                "name": number,
                "module": module,
                "arguments": arguments,
                "env": env,
                "folder": str(folder),
                "output": _path_of(output),
                "errors": _path_of(output if errors is None else errors),
            }
            assert self._nursery.stdin is not None
            self._nursery.stdin.write(json.dumps(order).encode() + b"\n")
            self._nursery.stdin.flush()
            if not self._changed.wait_for(lambda: self._has_started(number), START_SECONDS):
                raise TimeoutError(f"{module} was not started")
            return self._started.pop(number)

    def _has_started(self, number: int) -> bool:
        process = self._started.get(number)
        return process is not None and (process.open or process.returncode is not None)

    def _read(self) -> None:
        assert self._nursery.stdout is not None
        for line in self._nursery.stdout:
            report: Report = json.loads(line)
            with self._changed:
                self._take(report)
                self._changed.notify_all()

    def _take(self, report: Report) -> None:
        process = self._by_pid.get(report["pid"])
        if process is None or process.returncode is not None:  # a fork may report before its start
            process = self._by_pid[report["pid"]] = ForkedProcess(report["pid"], self._changed)
        if "name" in report:
            self._started[report["name"]] = process
        else:
            process.take(report)


def inherited_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def _path_of(descriptor: int) -> str:
    """Return the path by which another process can open the same file or pipe."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


@functools.cache
def shared_forks() -> Forks:
    """Return the nursery of this test process. It ends with the process."""
    forks = Forks(preload=TEST_SERVERS).__enter__()
    atexit.register(forks.__exit__, None, None, None)
    return forks


class ForkedServer:
    """A server of the tests, as a process of its own: `python -m MODULE ARGUMENTS`. Its first line
    of output says that it listens."""

    def __init__(self, module: str, *arguments: str) -> None:
        reading, writing = os.pipe()
        self._output = os.fdopen(reading)
        self._errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - `close` closes it
        try:
            self._process = shared_forks().start(
                module,
                *arguments,
                env=dict(os.environ),
                output=writing,
                errors=self._errors.fileno(),
            )
        finally:
            os.close(writing)
        self.first_line = self._output.readline()
        if not self.first_line:
            self._errors.seek(0)
            raise AssertionError(f"{module} ended:\n{self._errors.read().decode()}")

    def close(self) -> None:
        """SIGKILL, and gone when it returns."""
        self._process.kill()
        self._process.wait(START_SECONDS)
        self._output.close()
        self._errors.close()
